"""Making the table of the tally in a database, for as long as a block lasts."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from everlog.store import Store, metadata, sealed
from everlog.store.sqlite import SQLiteEngine
from everlog.testing.tally import rows


@contextmanager
def installed(store: Store) -> Iterator[None]:
    """Let a database have the table inside the block, and let erasure, rotation and forks know of it."""
    _execute(store, rows.ddl(store.engine.dialect))
    rows.tally.to_metadata(metadata)
    _look_again()
    try:
        yield
    finally:
        metadata.remove(metadata.tables[rows.tally.name])
        _look_again()
        _execute(store, [f"DROP TABLE {rows.tally.name}"])


def _look_again() -> None:
    sealed.tables.cache_clear()
    sealed.sealed_tables.cache_clear()


def _execute(store: Store, statements: Sequence[str]) -> None:
    engine = store.engine
    if isinstance(engine, SQLiteEngine):
        engine.maintain(lambda raw: [raw.execute(statement) for statement in statements])
        return
    with engine.maintain() as raw:
        for statement in statements:
            raw.execute(statement)
