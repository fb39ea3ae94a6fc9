"""What the environment, the files it names, and the options of a command say: which database, whose threads, which keys.

Read here and in what builds on it. An option wins over the environment, that over the file of settings, and the file over what is
usual; a key file wins over a key in the environment.

| variable | option | says |
|---|---|---|
| `EVERLOG_DB` | `--db` | the database: a file, or `postgresql://user@host/database`; else `memory.database_path`, else `everlog.db` here |
| `EVERLOG_TENANT` | `--tenant` | whose threads; else `memory.tenant`, else `default` |
| `EVERLOG_KEY_FILE` | `--key-file` | a file with master keys, the newest first |
| `EVERLOG_MASTER_KEY` | | the same keys themselves, separated by spaces or commas |
| `EVERLOG_DEBUG` | `--debug` | show where an unexpected error came from |
| `EVERLOG_CONFIG` | | a file of settings, YAML or TOML; else `everlog.yaml` or `everlog.toml` beside the database that is named, else here |
| `EVERLOG_COMPACTOR` | `--compactor` | what answers the pump; else the file's `model` in `[compactor]`, else `extractive` |
| `EVERLOG_REQUIRED_PROTOCOL` | | the only protocol in which models may be asked; else the file's `required_protocol` |
| `EVERLOG_UPSTREAM` | `--upstream` | the base URL of the server before which the proxy stands; more in `proxy/settings/configured.py` |
| `EVERLOG_MODEL` | `--model` | whom `everlog chat` talks with; else the file's `model` in `[chat]` |
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from everlog.errors import Mistake
from everlog.store.newfile import expanded
from everlog.store.store import scheme_of
from everlog.surfaces import config_file

DEFAULT_DATABASE = "everlog.db"
DEFAULT_TENANT = "default"
NOBODY = "the default"
"""What is said to name a thing that nobody names."""

NO = {"", "0", "false", "no", "off"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where to work, and with which keys."""

    database: str
    """A file path, or the URL of a server's database."""
    named_by: str
    """What named the database: `--db`, `EVERLOG_DB`, the file of settings, or `the default`."""
    tenant: str = DEFAULT_TENANT
    """Whose threads."""
    tenant_named_by: str = NOBODY
    """What named the tenant: `--tenant`, `EVERLOG_TENANT`, the file of settings, or `the default`."""
    folder: Path | None = Path()
    """Where the file of settings lies if nobody names it: beside the database that an option or a variable names, else here;
    None for a server's."""
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
        return _path(self.database)

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
    """Return what the options say, the environment where they are silent, and the file of settings where both are.

    Raises:
        Mistake: the database is named so that nothing can be kept in it, a path begins with a home folder that is none, or
            the file cannot be read.
    """
    named = database if database is not None else environment.get("EVERLOG_DB") or None
    by = "--db" if database is not None else "EVERLOG_DB" if named else NOBODY
    whose = tenant if tenant is not None else environment.get("EVERLOG_TENANT") or None
    whose_by = "--tenant" if tenant is not None else "EVERLOG_TENANT" if whose else NOBODY
    folder = _folder(named or DEFAULT_DATABASE)
    if named is None or whose is None:
        path, said = _place(folder, environment)
        if named is None and said.get("database_path"):
            named, by = said["database_path"], str(path)
        if whose is None and said.get("tenant"):
            whose, whose_by = said["tenant"], str(path)
    if named is not None:
        _refuse_useless(named)
    file, text = environment.get("EVERLOG_KEY_FILE") or None, environment.get("EVERLOG_MASTER_KEY", "").strip() or None
    keys_by = "--key-file" if key_file else "EVERLOG_KEY_FILE" if file else "EVERLOG_MASTER_KEY" if text else None
    key_path = key_file or (Path(file) if file else None)
    return Settings(
        database=named or DEFAULT_DATABASE,
        named_by=by,
        tenant=whose if whose is not None else DEFAULT_TENANT,
        tenant_named_by=whose_by,
        folder=folder,
        key_file=None if key_path is None else expanded(key_path),
        keys_named_by=keys_by,
        key_text=text,
    )


def _folder(database: str) -> Path | None:
    path = _path(database)
    return None if path is None else path.parent


def _path(database: str) -> Path | None:
    """Return the file of an embedded database; None for a server's."""
    if re.match(r"sqlite:", database):
        return expanded(Path(re.sub(r"^sqlite://(/)?", "", database)))
    return None if "://" in database else expanded(Path(database))


def _place(folder: Path | None, environment: Mapping[str, str]) -> tuple[Path | None, dict[str, str]]:
    """Return the file of settings, if there is one, and what it says of database and tenant."""
    path, found = _held(folder, environment)
    memory = found.get("memory", {})
    expect({"memory": memory}, {"memory": dict}, f"{path}:")
    said = {name: value for name, value in memory.items() if name in PLACE}
    expect(said, PLACE, f"[memory] of {path}:")
    return path, said


def _refuse_useless(named: str) -> None:
    """Make sure that something can be kept in a database of this name.

    Raises:
        Mistake: it cannot.
    """
    if named == "":
        raise Mistake("--db is empty; name a file, or leave it out")
    if named == ":memory:":
        raise Mistake("a database in memory is gone when the command ends; name a file")
    if not scheme_of(named):
        expanded(Path(named))


def debugging(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether `EVERLOG_DEBUG` asks for the whole story of an unexpected error."""
    return environment.get("EVERLOG_DEBUG", "").lower() not in NO


PLACE: dict[str, type] = {"database_path": str, "tenant": str}
"""What every command reads in `[memory]`."""


def held(settings: Settings, environment: Mapping[str, str]) -> tuple[Path | None, dict[str, Any]]:
    """Return the file of settings, if there is one, and what it holds."""
    return _held(settings.folder, environment)


def _held(folder: Path | None, environment: Mapping[str, str]) -> tuple[Path | None, dict[str, Any]]:
    path = config_file.find(folder, environment)
    return (None, {}) if path is None else (path, config_file.read(path, environment))


_WORDS: dict[type, str] = {str: "a text", bool: "true or false", int: "a whole number", dict: "a section"}


def expect(found: Mapping[str, Any], shapes: Mapping[str, type], where: str) -> None:
    """Make sure that each value is of its kind.

    Raises:
        Mistake: one is not.
    """
    for name, value in found.items():
        if type(value) is not shapes[name]:
            raise Mistake(f"{where} {name} is {_WORDS[shapes[name]]}")
