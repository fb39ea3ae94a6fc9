"""Which models a command asks, how they are reached, and what they are shown: options, then the environment, then the file.

In the file, here as TOML (what it says of the proxy is in `proxy/settings/schema.py`):

    required_protocol = "chat_completions"

    [compactor]
    model = "accounts/fireworks/models/glm-5p3-flash"
    provider = "openai"
    protocol = "chat_completions"
    base_url = "https://api.fireworks.ai/inference/v1"
    assume_model_exists = true
    api_key_env = "FIREWORKS_API_KEY"    # the name of the variable that holds the key; never the key
    at_once = 8

    [chat]
    model = "anthropic/claude-sonnet-5-5"    # with the same keys as a compactor, but for at_once
    tokens = 20000                           # and what --tokens, --past and --search say
    past = "tree"
    search = false
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everlog.chat.options import refuse_unknown
from everlog.errors import Mistake
from everlog.surfaces import config_file
from everlog.surfaces.config import Settings, expect, held

if TYPE_CHECKING:
    from everlog.context import Mode

SHAPES: dict[str, type] = {
    "model": str,
    "provider": str,
    "protocol": str,
    "base_url": str,
    "assume_model_exists": bool,
    "api_key_env": str,
    "at_once": int,
}
"""What `[compactor]` may hold."""

CHAT_SHAPES: dict[str, type] = {
    **{name: shape for name, shape in SHAPES.items() if name != "at_once"},
    "tokens": int,
    "past": str,
    "search": bool,
}
"""What `[chat]` may hold."""

PASTS: tuple["Mode", ...] = ("tree", "rolling", "none")
"""What may stand for older words."""

_WIRE = ("provider", "protocol", "base_url", "assume_model_exists")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactorSettings:
    """What answers the pump, and how it is reached."""

    name: str = "extractive"
    named_by: str = "the default"
    """What named it: `--compactor`, `EVERLOG_COMPACTOR`, the file, or `the default`."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """How to reach a model, as a `Chat` takes it."""
    at_once: int | None = None
    """How many requests are out at once, where somebody says so."""
    required_protocol: str | None = None
    """The only protocol in which models may be asked."""


def compactor_settings(
    settings: Settings, *, name: str | None = None, environment: Mapping[str, str] = os.environ, **given: Any
) -> CompactorSettings:
    """Return what the options of a command say of the compactor, then the environment, then the file.

    Each key counts by itself: an address in the file also holds for a model that an option names.

    Raises:
        Mistake: the file cannot be read, holds something unknown, or names a variable that is not set.
    """
    path, whole = _file(settings, environment)
    found = whole.get("compactor", {})
    named = name or environment.get("EVERLOG_COMPACTOR") or found.get("model")
    by = "--compactor" if name else "EVERLOG_COMPACTOR" if environment.get("EVERLOG_COMPACTOR") else str(path)
    return CompactorSettings(
        name=named or CompactorSettings().name,
        named_by=by if named else CompactorSettings().named_by,
        options=_options("compactor", path, found, environment, given),
        at_once=found.get("at_once"),
        required_protocol=environment.get("EVERLOG_REQUIRED_PROTOCOL") or whole.get("required_protocol"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings:
    """Whom `everlog chat` talks with, how it is reached, and what it is shown of before."""

    model: str | None = None
    """None where nobody says."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """How to reach it, as a `Chat` takes it."""
    tokens: int | None = None
    """What memory may take of each prompt; None where nobody says."""
    past: "Mode" = "tree"
    """What stands for older words."""
    search: bool = False
    """Whether the model may search."""


def chat_settings(
    settings: Settings,
    *,
    model: str | None = None,
    tokens: int | None = None,
    past: "Mode | None" = None,
    search: bool | None = None,
    environment: Mapping[str, str] = os.environ,
    **given: Any,
) -> ChatSettings:
    """Return what the options of a command say of the model to talk with, then the environment, then the file.

    Raises:
        Mistake: the file cannot be read, holds something unknown, or names a variable that is not set.
    """
    path, whole = _file(settings, environment)
    found = whole.get("chat", {})
    return ChatSettings(
        model=model or environment.get("EVERLOG_MODEL") or found.get("model"),
        options=_options("model", path, found, environment, given),
        tokens=found.get("tokens") if tokens is None else tokens,
        past=past or found.get("past", ChatSettings().past),
        search=found.get("search", False) if search is None else search,
    )


def _options(
    whose: str,
    path: Path | None,
    section: Mapping[str, Any],
    environment: Mapping[str, str],
    given: Mapping[str, Any],
) -> dict[str, Any]:
    """Return how to reach a model; each key that is given wins over that of the file.

    Raises:
        Mistake: the file names a variable for the key that is not set.
    """
    options = {key: section[key] for key in _WIRE if key in section}
    if (variable := section.get("api_key_env")) is not None:
        key = environment.get(variable, "").strip()
        if not key:
            raise Mistake(f"{path} says that the key of the {whose} is in {variable}, and that is not set")
        options["api_key"] = key
    return options | {key: value for key, value in given.items() if value is not None}


def required_protocol(settings: Settings, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the only protocol in which models may be asked, as the environment or the file says."""
    return environment.get("EVERLOG_REQUIRED_PROTOCOL") or _file(settings, environment)[1].get("required_protocol")


def _file(settings: Settings, environment: Mapping[str, str]) -> tuple[Path | None, dict[str, Any]]:
    """Return the file of settings, if there is one, and what it holds."""
    path, found = held(settings, environment)
    if path is None:
        return None, {}
    refuse_unknown(found, (*config_file.OURS, *config_file.PROXY), str(path))
    expect({name: value for name, value in found.items() if name in config_file.OURS}, config_file.OURS, f"{path}:")
    for name, shapes in (("compactor", SHAPES), ("chat", CHAT_SHAPES)):
        section = found.get(name, {})
        refuse_unknown(section, tuple(shapes), f"[{name}] of {path}")
        expect(section, shapes, f"[{name}] of {path}:")
    if found.get("compactor", {}).get("at_once", 1) < 1:
        raise Mistake(f"[compactor] of {path}: at_once is at least 1")
    if (past := found.get("chat", {}).get("past", ChatSettings().past)) not in PASTS:
        raise Mistake(f"[chat] of {path}: past is one of {', '.join(PASTS)}, not {past!r}")
    return path, found
