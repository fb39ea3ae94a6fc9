"""What the environment, the files it names, and the options of a command say: which database, whose threads, which keys.

Read here and nowhere else. An option wins over the environment, and a key file over a key in the environment.

| variable | option | says |
|---|---|---|
| `EVERLOG_DB` | `--db` | the database: a file, or `postgresql://user@host/database`; else `everlog.db` in this folder |
| `EVERLOG_TENANT` | `--tenant` | whose threads; else `default` |
| `EVERLOG_KEY_FILE` | `--key-file` | a file with master keys, the newest first |
| `EVERLOG_MASTER_KEY` | | the same keys themselves, separated by spaces or commas |
| `EVERLOG_DEBUG` | `--debug` | show where an unexpected error came from |
| `EVERLOG_CONFIG` | | a file of settings, YAML or TOML; else `everlog.yaml` or `everlog.toml` beside the database |
| `EVERLOG_COMPACTOR` | `--compactor` | what answers the pump; else the file's `model` in `[compactor]`, else `extractive` |
| `EVERLOG_REQUIRED_PROTOCOL` | | the only protocol in which models may be asked; else the file's `required_protocol` |
| `EVERLOG_UPSTREAM` | `--upstream` | the base URL of the server before which the proxy stands; more in `proxy/configured.py` |
| `EVERLOG_MODEL` | `--model` | whom `everlog chat` talks with; else the file's `model` in `[chat]` |

In the file, here as TOML (what it says of the proxy is in `proxy/schema.py`):

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
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from everlog.chat.options import refuse_unknown
from everlog.errors import Mistake
from everlog.store.newfile import expanded
from everlog.store.store import scheme_of
from everlog.surfaces import config_file

if TYPE_CHECKING:
    from everlog.surfaces.proxy.settings.configured import Configured

if TYPE_CHECKING:
    from everlog.context import Mode

DEFAULT_DATABASE = "everlog.db"
DEFAULT_TENANT = "default"
NO = {"", "0", "false", "no", "off"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where to work, and with which keys."""

    database: str
    """A file path, or the URL of a server's database."""
    named_by: str
    """What named the database: `--db`, `EVERLOG_DB`, or `the default`."""
    tenant: str = DEFAULT_TENANT
    """Whose threads."""
    key_file: Path | None = None
    """A file with master keys; it wins over `key_text`."""
    keys_named_by: str | None = None
    """What named the keys: `--key-file`, `EVERLOG_KEY_FILE` or `EVERLOG_MASTER_KEY`; None where there are none."""
    key_text: str | None = None
    """Master keys themselves."""

    def __repr__(self) -> str:
        return f"Settings({self.shown}, tenant={self.tenant})"

    @property
    def path(self) -> Path | None:
        """The file of an embedded database; None for a server's."""
        if re.match(r"sqlite:", self.database):
            return expanded(Path(re.sub(r"^sqlite://(/)?", "", self.database)))
        return None if "://" in self.database else expanded(Path(self.database))

    @property
    def shown(self) -> str:
        """The database as it may be shown: without a password."""
        if self.path is not None:
            return str(self.path)
        url = urlsplit(self.database)
        user, at, host = url.netloc.rpartition("@")
        return urlunsplit(url._replace(netloc=f"{user.partition(':')[0]}{at}{host}", query="", fragment=""))


def settings(
    *,
    database: str | None = None,
    tenant: str | None = None,
    key_file: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """Return what the options say, and the environment where they are silent.

    Raises:
        Mistake: the database is named so that nothing can be kept in it, or a path begins with a home folder that is
            none.
    """
    named = database if database is not None else environment.get("EVERLOG_DB") or None
    if named == "":
        raise Mistake("--db is empty; name a file, or leave it out")
    if named == ":memory:":
        raise Mistake("a database in memory is gone when the command ends; name a file")
    file, text = environment.get("EVERLOG_KEY_FILE") or None, environment.get("EVERLOG_MASTER_KEY", "").strip() or None
    by = "--key-file" if key_file else "EVERLOG_KEY_FILE" if file else "EVERLOG_MASTER_KEY" if text else None
    if named is not None and not scheme_of(named):
        expanded(Path(named))
    key_path = key_file or (Path(file) if file else None)
    return Settings(
        database=named or DEFAULT_DATABASE,
        named_by="--db" if database is not None else "EVERLOG_DB" if named else "the default",
        tenant=tenant if tenant is not None else environment.get("EVERLOG_TENANT") or DEFAULT_TENANT,
        key_file=None if key_path is None else expanded(key_path),
        keys_named_by=by,
        key_text=text,
    )


def debugging(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether `EVERLOG_DEBUG` asks for the whole story of an unexpected error."""
    return environment.get("EVERLOG_DEBUG", "").lower() not in NO


def proxy(
    settings: Settings, *, given: Mapping[str, Any] | None = None, environment: Mapping[str, str] = os.environ
) -> tuple["Configured", Path | None]:
    """Return what options, environment and file say of the proxy, and the file.

    Args:
        settings: what is said of the database.
        given: options of the command by key, such as `server.port`; None is not said.
        environment: the variables.

    Raises:
        Mistake: something is unknown, or not of its kind.
    """
    if find_spec("msgspec") is None:
        raise Mistake("the proxy needs more packages: pip install 'everlog[server]'")
    path, held = _held(settings, environment)
    made = import_module("everlog.surfaces.proxy.settings.configured").configured
    found: Configured = made(file=held, path=str(path), environment=environment, given=given)
    return found, path


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
    path, found = _held(settings, environment)
    if path is None:
        return None, {}
    refuse_unknown(found, (*config_file.OURS, *config_file.PROXY), str(path))
    _expect({name: value for name, value in found.items() if name in config_file.OURS}, config_file.OURS, f"{path}:")
    for name, shapes in (("compactor", SHAPES), ("chat", CHAT_SHAPES)):
        section = found.get(name, {})
        refuse_unknown(section, tuple(shapes), f"[{name}] of {path}")
        _expect(section, shapes, f"[{name}] of {path}:")
    if found.get("compactor", {}).get("at_once", 1) < 1:
        raise Mistake(f"[compactor] of {path}: at_once is at least 1")
    if (past := found.get("chat", {}).get("past", ChatSettings().past)) not in PASTS:
        raise Mistake(f"[chat] of {path}: past is one of {', '.join(PASTS)}, not {past!r}")
    return path, found


def _held(settings: Settings, environment: Mapping[str, str]) -> tuple[Path | None, dict[str, Any]]:
    path = config_file.find(None if settings.path is None else settings.path.parent, environment)
    return (None, {}) if path is None else (path, config_file.read(path, environment))


_WORDS: dict[type, str] = {str: "a text", bool: "true or false", int: "a whole number", dict: "a section"}


def _expect(found: Mapping[str, Any], shapes: Mapping[str, type], where: str) -> None:
    for name, value in found.items():
        if type(value) is not shapes[name]:
            raise Mistake(f"{where} {name} is {_WORDS[shapes[name]]}")
