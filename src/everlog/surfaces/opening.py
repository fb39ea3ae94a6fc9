"""The database that settings name, opened: by a command, and by the proxy in any server."""

import os
from importlib.util import find_spec

import everlog
from everlog.errors import KeyTrouble, Mistake
from everlog.surfaces import models
from everlog.surfaces.config import Settings

_NO_KEY = "this database is encrypted; name the file of its master key by --key-file, or set EVERLOG_MASTER_KEY"


def opened(settings: Settings, *, create: bool = False, encrypting: bool = False) -> everlog.Everlog:
    """Open the database; one that is made is encrypted if there is a master key, and so is one that is still empty.

    Raises:
        Mistake: it is a file that is not there, and `create` does not ask to make it.
    """
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
            required_protocol=models.required_protocol(settings),
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
