"""A log in memory: no disk, and a clock in the test's hands."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from everlog import Everlog
from everlog.store import open_store
from everlog.testing import FrozenClock


@pytest.fixture
def clock() -> FrozenClock:
    """A clock that moves by a millisecond at each reading."""
    return FrozenClock(step=timedelta(milliseconds=1))


@pytest.fixture
def memory(clock: FrozenClock) -> Iterator[Everlog]:
    """An empty log."""
    with Everlog(open_store(":memory:", clock=clock)) as memory:
        yield memory
