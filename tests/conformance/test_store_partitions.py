"""A server's database in eight hash partitions by tenant passes everything that the others pass."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.conftest import KEYS, Database
from tests.conformance.test_store_units import *  # noqa: F403 -- run again, over the fixture below


@pytest.fixture
def database(postgresql: Any) -> Iterator[Database]:
    with postgresql(KEYS, partitions=8) as database:
        yield database
