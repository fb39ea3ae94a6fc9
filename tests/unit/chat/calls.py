"""Calls of a fake upstream, through both drivers and in each protocol."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from everlog.chat.attempts import exchange
from everlog.chat.cancel import Cancel
from everlog.chat.drivers import AsyncDriver, SyncDriver
from everlog.chat.ledger import Ledger
from everlog.chat.prepared import Prepared
from everlog.chat.providers import endpoint
from everlog.messages import Message
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Settings, TextDelta, said
from everlog.registry import Model, builtin
from everlog.testing import FrozenClock

PROVIDERS = {"chat_completions": "deepseek", "responses": "openai", "anthropic": "anthropic"}

KEY = "key-of-the-test"

each_protocol = pytest.mark.parametrize("protocol", list(PROVIDERS))


def prepared(url: str, protocol: str, *, stream: bool = False, **fields: Any) -> Prepared:
    """A request with one user message."""
    provider = builtin().provider(PROVIDERS[protocol])
    settings = Settings(model="m-1", stream=stream, names=provider.names)
    return Prepared(
        **{
            "endpoint": endpoint(provider, environ={}, api_key=KEY, base_url=url),
            "model": Model(id="m-1", provider=provider.name),
            "protocol": protocol,
            "body": FORMATS[protocol].render_request(said([Message(kind="user", text="Hello?")]), settings),
            **fields,
        }
    )


@dataclass
class Calling:
    """One driver with all that a call needs; pauses are noted and not made."""

    is_async: bool
    ledger: Ledger = field(default_factory=Ledger)
    cancel: Cancel = field(default_factory=Cancel)
    clock: FrozenClock = field(default_factory=FrozenClock)
    pauses: list[float] = field(default_factory=list)

    def sleep(self, seconds: float, cancel: Cancel) -> None:
        self.pauses.append(seconds)

    async def sleep_async(self, seconds: float, cancel: Cancel) -> None:
        self.pauses.append(seconds)

    def run(self, program):
        """Run a program to its end."""
        if self.is_async:
            return asyncio.run(AsyncDriver(sleep=self.sleep_async).run(program))
        return SyncDriver(sleep=self.sleep).run(program)

    def stream(self, program, emitted=None):
        """Run a program; return what it emitted, and its result."""
        emitted = [] if emitted is None else emitted
        result: list[Any] = []
        if self.is_async:

            async def read():
                async for value in AsyncDriver(sleep=self.sleep_async).stream(program, result.append):
                    emitted.append(value)

            asyncio.run(read())
        else:

            def read_all():
                result.append((yield from SyncDriver(sleep=self.sleep).stream(program)))

            for value in read_all():
                emitted.append(value)
        return emitted, result[0]

    def ask(self, url, protocol, **fields):
        """Ask whole; return the answer."""
        return self.run(self.exchange(prepared(url, protocol, **fields)))

    def listen(self, url, protocol, emitted=None, **fields):
        """Ask streamed; return what came, and the answer."""
        return self.stream(self.exchange(prepared(url, protocol, stream=True, **fields)), emitted)

    def exchange(self, request):
        return exchange(request, ledger=self.ledger, cancel=self.cancel, clock=self.clock)

    @property
    def statuses(self):
        return [one.status for one in self.ledger.attempts]


def text_of(deltas):
    return "".join(one.text for one in deltas if isinstance(one, TextDelta))
