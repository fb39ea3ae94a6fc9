"""A proxy as its settings make it, in this process: clients speak ASGI to it, and its upstream is a function of a test."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import everlog
from everlog import access
from everlog.conversation.database import Redactor
from everlog.memory.interface import Compactor
from everlog.pump.compactors import EXTRACTIVE, compactor_of
from everlog.surfaces.proxy.front import Front
from everlog.surfaces.proxy.relay.upstream import Outgoing
from everlog.surfaces.proxy.running import running
from everlog.surfaces.proxy.settings.configured import configured
from tests.unit.proxy import wire
from tests.unit.proxy.wire import BASE, Client, Coming

PATHS = {"chat_completions": "/v1/chat/completions", "responses": "/v1/responses", "anthropic": "/v1/messages"}

KEPT_S = 30


def protocol_of(outgoing: Outgoing) -> str:
    """Return the protocol of a request that went up."""
    return next(name for name, path in PATHS.items() if outgoing.url.endswith(path.removeprefix("/v1")))


class Inside:
    """The proxy, in mode tree unless told otherwise."""

    def __init__(
        self,
        database: Path | str,
        answer: Callable[[Outgoing], Coming | None],
        *,
        needs_keys: bool = False,
        compactor: Compactor | None = None,
        redactor: Redactor | None = None,
        **given: Any,
    ) -> None:
        """Open it.

        Args:
            database: where it keeps what goes through.
            answer: what its upstream says.
            needs_keys: whether it takes only who has a key; they are made by `key`.
            compactor: what makes lines and summaries; code if None.
            redactor: changes what is kept.
            given: settings of memory, such as `mode`.
        """
        self.upstream = wire.Upstream(answer)
        self.home = everlog.open(database, redactor=redactor)
        if needs_keys:
            self.key()
        said: Mapping[str, Any] = {"upstream": {"base_url": BASE}, "keys": {"required": needs_keys}}
        settings = {f"memory.{name}": value for name, value in ({"mode": "tree"} | given).items()}
        found = configured(file=said, environment={}, given=settings)
        compactor = compactor or compactor_of(EXTRACTIVE)
        self.front: Front = running(found, lambda: self.home, compactor=compactor, upstream=self.upstream)

    def key(self) -> str:
        """Return a new key."""
        return self.home.store.write("default", partial(access.create), name="test").token

    async def ask(self, protocol: str, body: bytes, headers: Mapping[str, str]) -> Client:
        """Send a request, and return what came of it."""
        return await self.client(protocol, body, headers).ask(self.front)

    def client(self, protocol: str, body: bytes, headers: Mapping[str, str]) -> Client:
        """Return a client that is about to send a request."""
        given = tuple((name.lower().encode(), value.encode()) for name, value in headers.items())
        return Client(path=PATHS[protocol], headers=given, pieces=(body,))

    async def kept(self) -> None:
        """Wait until all is kept that was heard; an answer waits for that a moment only."""
        await self.front.app.duties.finish(KEPT_S)

    async def stop(self) -> None:
        """End it, and close its database."""
        await self.front.app.stop()
