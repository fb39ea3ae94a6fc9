"""A proxy as its settings make it, in this process: clients speak ASGI to it, and its upstream is a function of a test."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import everlog
from everlog import access
from everlog.pump.compactors import EXTRACTIVE, compactor_of
from everlog.surfaces.proxy.front import Front
from everlog.surfaces.proxy.relay.upstream import Outgoing
from everlog.surfaces.proxy.running import running
from everlog.surfaces.proxy.settings.configured import configured
from tests.unit.proxy import wire
from tests.unit.proxy.wire import BASE, Client, Coming

PATHS = {"chat_completions": "/v1/chat/completions", "responses": "/v1/responses", "anthropic": "/v1/messages"}


def protocol_of(outgoing: Outgoing) -> str:
    """Return the protocol of a request that went up."""
    return next(name for name, path in PATHS.items() if outgoing.url.endswith(path.removeprefix("/v1")))


class Inside:
    """The proxy, in mode tree."""

    def __init__(
        self, database: Path | str, answer: Callable[[Outgoing], Coming | None], *, needs_keys: bool = False
    ) -> None:
        """Open it; keys that open it are made by `key`."""
        self.upstream = wire.Upstream(answer)
        self.home = everlog.open(database)
        if needs_keys:
            self.key()
        said: Mapping[str, Any] = {"upstream": {"base_url": BASE}, "keys": {"required": needs_keys}}
        found = configured(file=said, environment={}, given={"memory.mode": "tree"})
        self.front: Front = running(found, lambda: self.home, compactor=compactor_of(EXTRACTIVE))
        self.front._app._given = self.upstream

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

    async def stop(self) -> None:
        """End it, and close its database."""
        await self.front._app.stop()
