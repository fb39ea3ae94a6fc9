"""Chats for tests: `talk` through both drivers and all protocols, `chatting` through both drivers; `calling` for calls."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from everlog.testing.upstream import Manner, Upstream
from tests.unit.chat.calls import Calling
from tests.unit.chat.talking import DRIVERS, PROTOCOLS, Talk

Make = Callable[..., Talk]


def maker(driver: str, protocol: str) -> Iterator[Make]:
    with ExitStack() as stack:

        def make(*script: Any, manner: Manner | None = None, **options: Any) -> Talk:
            told = script[0] if len(script) == 1 and callable(script[0]) else script
            upstream = stack.enter_context(Upstream(told, manner=manner or Manner()))
            talk = Talk(driver, protocol, upstream, **options)
            stack.callback(talk.close)
            return talk

        yield make


@pytest.fixture(params=[(driver, protocol) for driver in DRIVERS for protocol in PROTOCOLS], ids="-".join)
def talk(request: pytest.FixtureRequest) -> Iterator[Make]:
    yield from maker(*request.param)


@pytest.fixture(params=DRIVERS)
def chatting(request: pytest.FixtureRequest) -> Iterator[Make]:
    yield from maker(request.param, "chat_completions")


@pytest.fixture(params=DRIVERS)
def calling(request: pytest.FixtureRequest) -> Calling:
    return Calling(is_async=request.param == "async")
