"""What every command has in common: the shared options, and the database they lead to."""

import os
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer

import everlog
from everlog.errors import KeyTrouble, Mistake
from everlog.surfaces import config
from everlog.surfaces.config import Settings

_NO_KEY = "this database is encrypted; name the file of its master key by --key-file, or set EVERLOG_MASTER_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One call of `everlog`, as far as its options are the same for every command."""

    db: str | None = None
    tenant: str | None = None
    key_file: Path | None = None
    json: bool = False
    """Whether the answer is to be JSON."""

    def over(self, **given: Any) -> "Session":
        """Return the same with what was given after the command's name, which wins."""
        return replace(self, **{name: value for name, value in given.items() if value})

    @property
    def settings(self) -> Settings:
        """What the options and the environment say."""
        return config.settings(database=self.db, tenant=self.tenant, key_file=self.key_file)

    @property
    def own_files(self) -> list[Path]:
        """The files that must not be written over: the database, and its master keys."""
        settings = self.settings
        return [path for path in (settings.path, settings.key_file) if path is not None]

    def open(self, *, create: bool = False, encrypting: bool = False) -> everlog.Everlog:
        """Open the database; one that is made is encrypted if there is a master key, and so is one that is still empty.

        Raises:
            Mistake: it is a file that is not there, and `create` does not ask to make it.
        """
        settings = self.settings
        if not create:
            require(settings)
        if settings.path is None and find_spec("psycopg") is None:
            raise Mistake("a PostgreSQL database needs its driver: pip install 'everlog[postgres]'")
        given = keys(settings)
        try:
            if create and given is not None:
                _seal_if_empty(settings, given)
            return everlog.open(
                settings.database,
                tenant=settings.tenant,
                keys=given,
                encrypting=encrypting,
                required_protocol=config.required_protocol(settings),
            )
        except KeyTrouble as error:
            if given is None:
                raise KeyTrouble(_NO_KEY) from error
            raise


def _seal_if_empty(settings: Settings, given: everlog.MasterKeys) -> None:
    """Turn encryption on where nothing is stored yet, so that it makes no difference who made the tables, and with what."""
    with everlog.open(settings.database, keys=given, encrypting=True) as memory:
        if memory.store.encryption() == "off" and not memory.store.tenants(erased=True):
            for _ in memory.encrypt():
                pass


def of(context: typer.Context) -> Session:
    """Return the session that a command runs in."""
    assert isinstance(context.obj, Session)
    return context.obj


def require(settings: Settings) -> None:
    """Make sure that the database is there, so that a command that reads never makes an empty one.

    Raises:
        Mistake: it is not.
    """
    path = settings.path
    if path is None or is_there(settings):
        return
    if not os.path.exists(path):  # noqa: PTH110 -- a name that is too long is no file, and no error here
        how = f"it is named by {settings.named_by}" if settings.named_by != "the default" else "that is the default"
        raise Mistake(
            f"there is no database {path.absolute()} ({how}); `everlog import FILE` makes it, --db names another"
        )
    raise Mistake(f"the database {path.absolute()} is an empty file; `everlog import FILE` fills it")


def is_there(settings: Settings) -> bool:
    """Return whether there is something to open: a server, or what is no empty file."""
    path = settings.path
    if path is None:
        return True
    return os.path.exists(path) and not (path.is_file() and not path.stat().st_size)  # noqa: PTH110 -- as in `require`


def keys(settings: Settings) -> everlog.MasterKeys | None:
    """Return the master keys that the settings name.

    Raises:
        KeyTrouble: they cannot be read.
    """
    if settings.key_file is not None:
        return everlog.MasterKeys.read(settings.key_file)
    if settings.key_text is None:
        return None
    try:
        return everlog.MasterKeys.parse(settings.key_text)
    except KeyTrouble as error:
        raise KeyTrouble(f"EVERLOG_MASTER_KEY: {error}") from error
