"""An ear that holds what it is told to, and fails where it is told to."""

import asyncio
from dataclasses import dataclass, field

from everlog.access import Principal
from everlog.surfaces.proxy.incoming import Headers, Incoming
from everlog.surfaces.proxy.settings.options import Target


class Broke(Exception):
    """What a broken ear raises."""


@dataclass
class Ear:
    """Lets out so many bytes, and calls the answer whole behind so many."""

    free: int = 1 << 60
    whole_at: int = 1 << 60
    trouble: str = ""
    """The name of the method that raises, or `late` for a piece behind what is held; `slow` commits when `go_on` is set."""
    heard: bytes = b""
    told: list[str] = field(default_factory=list)
    """What was called, in order, without pieces."""
    whole: bool = False
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it begins to commit."""
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    def head(self, status: int, headers: Headers) -> None:
        self._act(f"head {status}")

    def said(self) -> Headers:
        if self.trouble == "said":
            raise Broke
        return ((b"x-everlog-request-id", b"r-1"),)

    def piece(self, data: bytes) -> int:
        before = len(self.heard)
        if self.trouble == "piece" or (self.trouble == "late" and before > self.free):
            raise Broke
        self.heard += data
        self.whole = len(self.heard) >= self.whole_at
        return min(len(data), max(0, self.free - before))

    async def commit(self) -> None:
        self.begun.set()
        if self.trouble == "slow":
            await self.go_on.wait()
        self._act("commit")

    async def leave(self, why: str) -> None:
        self._act(f"leave {why}")

    def _act(self, name: str) -> None:
        self.told.append(name)
        if self.trouble == name.split(maxsplit=1)[0]:
            raise Broke


@dataclass
class Ears:
    """Gives all exchanges the same ear."""

    ear: Ear
    asked: list[tuple[Incoming, str | None]] = field(default_factory=list)

    def listen(self, incoming: Incoming, protocol: str | None, principal: Principal, target: Target) -> Ear:
        self.asked.append((incoming, protocol))
        if self.ear.trouble == "listen":
            raise Broke
        return self.ear
