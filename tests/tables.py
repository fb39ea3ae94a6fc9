"""The tables of a new SQLite file, made by the revisions once for all tests, and after that from what they made.

The toolkit of the revisions takes most of the time that a new file takes, and nearly every test makes one. PostgreSQL
and files that hold something already are left to the revisions. `revisions` gives a test the real thing each time.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Connection

from everlog.store import migrate

Run = Callable[[Connection, dict[str, Any]], None]
RUN = migrate._run


def remembering(run: Run) -> Run:
    """Return what does the same to an empty file as `run` did to the first one of its form."""
    made: dict[bool, list[str]] = {}

    def quick(connection: Connection, attributes: dict[str, Any]) -> None:
        raw = connection.connection.driver_connection
        if connection.dialect.name != "sqlite" or raw is None or migrate.sqlite_version(raw, None) is not None:
            run(connection, attributes)
        elif (form := bool(attributes["encrypted"])) in made:
            for statement in made[form]:
                raw.execute(statement)
        else:
            run(connection, attributes)
            made[form] = [line for line in raw.iterdump() if line not in {"BEGIN TRANSACTION;", "COMMIT;"}]

    return quick


@pytest.fixture(scope="session", autouse=True)
def quick_tables() -> Iterator[None]:
    """Make the tables of new files from memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate, "_run", remembering(RUN))
        yield


@pytest.fixture
def revisions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the tables by the revisions in this test."""
    monkeypatch.setattr(migrate, "_run", RUN)
