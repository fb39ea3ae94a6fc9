"""The command line for every test here: `everlog` from an empty folder, `harbour` from one with the sample in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from everlog.store.migrate import upgrade
from everlog.store.postgres import PostgresEngine
from tests.acceptance.cli import ENVIRONMENT, HARBOUR, Everlog
from tests.quick import Quick, serving


@pytest.fixture(scope="session")
def quick() -> Iterator[Quick]:
    """The process that forks for each command."""
    with serving(ENVIRONMENT) as quick:
        yield quick


@pytest.fixture
def everlog(quick: Quick, tmp_path: Path) -> Everlog:
    """The command, in an empty folder."""
    return Everlog(quick, tmp_path)


@pytest.fixture(scope="session")
def harbour(quick: Quick, tmp_path_factory: pytest.TempPathFactory) -> Everlog:
    """The command, in a folder whose everlog.db has the sample conversation; for tests that only read."""
    command = Everlog(quick, tmp_path_factory.mktemp("harbour"))
    command.good("import", HARBOUR)
    command.good("pump")
    return command


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database, of each engine."""
    if request.param == "sqlite":
        return str(tmp_path / "everlog.db")
    url: str = request.getfixturevalue("postgres_url")
    upgrade(PostgresEngine(url), encrypted=False)
    return url
