"""The file of settings: where it is, YAML or TOML, with variables of the environment put in.

`EVERLOG_CONFIG` names it, or the older names of seed 003; else it is `everlog.yaml` or `everlog.toml` beside the
database. In any text of it `${NAME}` is the value of a variable, empty if there is none, and `${NAME:-words}` is the words then.
"""

import re
import tomllib
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from everlog.errors import Mistake
from everlog.store.newfile import expanded

VARIABLES = ("EVERLOG_CONFIG", "INFINITUM_CONFIG", "CONTEXT_RUNTIME_CONFIG")
"""Variables that name the file, the first that is set counts."""

NAMES = ("everlog.yaml", "everlog.yml", "everlog.toml")

OURS: dict[str, type] = {"required_protocol": str, "compactor": dict, "chat": dict}
"""What stands in the file for every command."""

PROXY = (
    *("server", "upstream", "upstreams", "keys", "memory", "requests", "request_context"),
    *("context", "learning", "embeddings", "retrieval_weights"),
)
"""Sections about the proxy, which `proxy/settings/schema.py` describes; other commands leave them alone."""

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}", re.ASCII)


def find(folder: Path | None, environment: Mapping[str, str]) -> Path | None:
    """Return the file of settings; None where there is none.

    Args:
        folder: where it lies if nobody names it, which is beside the database; None for a server's.
        environment: the variables.

    Raises:
        Mistake: there are two in the folder.
    """
    named = next((value for name in VARIABLES if (value := environment.get(name))), None)
    if named is not None:
        return expanded(Path(named))
    there = [] if folder is None else [path for name in NAMES if (path := folder / name).is_file()]
    if len(there) > 1:
        raise Mistake(f"{there[0]} and {there[1].name} both hold settings; keep one of them")
    return there[0] if there else None


def read(path: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what a file of settings holds.

    Raises:
        Mistake: it cannot be read, or is none.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = (
            "it is no text"
            if isinstance(error, UnicodeDecodeError)
            else (error.strerror or type(error).__name__).lower()
        )
        raise Mistake(f"the settings in {path} cannot be read: {why}") from error
    found = _toml(path, text) if path.suffix == ".toml" else _yaml(path, text)
    if not isinstance(found, dict):
        raise Mistake(
            f"the settings in {path} are no sections with names, such as `upstream:` and below it `base_url: …`"
        )
    filled = _filled(found, environment)
    assert isinstance(filled, dict)
    return filled


def _toml(path: Path, text: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Mistake(f"the settings in {path} are no TOML: {error}") from error


def _yaml(path: Path, text: str) -> Any:
    if find_spec("yaml") is None:
        raise Mistake(f"to read {path}, pip install 'everlog[server]', or write it as everlog.toml")
    yaml = import_module("yaml")
    try:
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark is not None else ""
        raise Mistake(f"the settings in {path} are no YAML{where}") from None
    except (ValueError, RecursionError) as error:
        raise Mistake(f"the settings in {path} are no YAML ({type(error).__name__})") from None


def _filled(value: Any, environment: Mapping[str, str]) -> Any:
    """Return a value with variables put in; what says nothing, as `key:` in YAML does, is left out."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: environment.get(found[1]) or found[2] or "", value)
    if isinstance(value, dict):
        return {str(name): _filled(one, environment) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_filled(one, environment) for one in value]
    return value
