"""What the environment, the files it names, and the options of a command say: which database, whose threads, which keys.

Read here and nowhere else. An option wins over the environment, and a key file over a key in the environment.

| variable | option | says |
|---|---|---|
| `EVERLOG_DB` | `--db` | the database: a file, or `postgresql://user@host/database`; else `everlog.db` in this folder |
| `EVERLOG_TENANT` | `--tenant` | whose threads; else `default` |
| `EVERLOG_KEY_FILE` | `--key-file` | a file with master keys, the newest first |
| `EVERLOG_MASTER_KEY` | | the same keys themselves, separated by spaces or commas |
| `EVERLOG_DEBUG` | `--debug` | show where an unexpected error came from |
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from everlog.errors import Mistake
from everlog.store.newfile import expanded
from everlog.store.store import scheme_of

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
        tenant=tenant or environment.get("EVERLOG_TENANT") or DEFAULT_TENANT,
        key_file=None if key_path is None else expanded(key_path),
        keys_named_by=by,
        key_text=text,
    )


def debugging(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether `EVERLOG_DEBUG` asks for the whole story of an unexpected error."""
    return environment.get("EVERLOG_DEBUG", "").lower() not in NO
