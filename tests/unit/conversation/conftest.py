"""A log in memory: no disk, and a clock in the test's hands."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from everlog import Everlog
from everlog.store import open_store
from everlog.testing import FrozenClock
from tests.unit.conversation.remembering import DRIVERS, Remembering


@pytest.fixture
def clock() -> FrozenClock:
    """A clock that moves by a millisecond at each reading."""
    return FrozenClock(step=timedelta(milliseconds=1))


@pytest.fixture
def memory(clock: FrozenClock) -> Iterator[Everlog]:
    """An empty log."""
    with Everlog(open_store(":memory:", clock=clock)) as memory:
        yield memory


@pytest.fixture(params=DRIVERS)
def remembering(request: pytest.FixtureRequest, memory: Everlog) -> Iterator[Callable[..., Remembering]]:
    """Makes memories of the test's log, by both drivers."""
    with ExitStack() as stack:

        def make(*script: Any, **wishes: Any) -> Remembering:
            made = Remembering(request.param, memory, *script, **wishes)
            stack.callback(made.close)
            return made

        yield make
