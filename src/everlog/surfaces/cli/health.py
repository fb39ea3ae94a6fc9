"""What doctor and stats say of a database beside its threads: its engine, files, encryption and pending work."""

from functools import partial

from everlog import Everlog
from everlog.pump import rows as pump_rows
from everlog.store import Unit
from everlog.store import rows as store_rows
from everlog.store.sqlite import SQLiteEngine
from everlog.surfaces.config import Settings

_ENCRYPTION = {"off": "off", "on": "begun, not finished", "complete": "on"}


def engine(memory: Everlog) -> str:
    """Return the engine and its version, such as `SQLite 3.40.1`."""
    found = memory.store.engine
    if isinstance(found, SQLiteEngine):
        (version,) = found.maintain(lambda raw: raw.execute("SELECT sqlite_version()").fetchone())
        return f"SQLite {version}"
    with found.maintain() as raw:
        row = raw.execute("SHOW server_version").fetchone()
    return f"PostgreSQL {row[0] if row else ''}".strip()


def encryption(memory: Everlog) -> str:
    """Return whether what is stored is sealed: `off`, `on`, or `begun, not finished`."""
    return _ENCRYPTION[memory.store.encryption()]


def files(settings: Settings) -> dict[str, int]:
    """Return the files of an embedded database, and their bytes."""
    if settings.path is None:
        return {}
    found = [settings.path.with_name(settings.path.name + ending) for ending in ("", "-wal")]
    return {path.name: path.stat().st_size for path in found if path.exists()}


def wrappers(memory: Everlog) -> set[str]:
    """Return the names of the master keys that tenants' keys are wrapped with."""
    return {name for (name,) in memory.store.everywhere(lambda unit: unit.rows(store_rows.WRAPPERS))}


def due(memory: Everlog) -> int:
    """Return how many of the tenant's threads have lines to build."""
    ids = [memory.thread(one.key).id for one in memory.threads()]
    return sum(memory.store.read(memory.name, partial(_is_due, thread=thread)) for thread in ids)


def _is_due(unit: Unit, thread: str) -> bool:
    row = unit.row(pump_rows.DUE, memory="tree", subject=thread)
    return row is not None and row[1] is not None
