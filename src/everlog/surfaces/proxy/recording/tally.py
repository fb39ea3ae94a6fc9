"""What requests took that are no conversations, such as embeddings: counted under the key they came with, and kept nowhere."""

import asyncio
from functools import partial
from typing import Literal

from everlog import access
from everlog.protocols.shapes import Record, loads, record
from everlog.protocols.sse import Frames
from everlog.store import Unit
from everlog.surfaces.proxy.incoming import Headers, Incoming
from everlog.surfaces.proxy.recording.recorder import Recorder
from everlog.surfaces.proxy.recording.terminal import begins_as_stream
from everlog.tokens import BYTES_PER_TOKEN

MOST_READ = 16 * 2**20
"""Bytes of an answer that are kept to look for what it took; behind them tokens are estimated."""

SUMS = ("total_tokens",)
PARTS = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens")
"""What providers call the tokens that a request took, as a sum or in parts."""


class Tally:
    """Hears one exchange, for its numbers."""

    def __init__(self, recorder: Recorder, incoming: Incoming, *, tenant: str, key: str) -> None:
        self.whole = False
        self._recorder = recorder
        self._tenant, self._key = tenant, key
        self._asked = len(incoming.body)
        self._status = 0
        self._pieces: list[bytes] = []
        self._size = 0

    def head(self, status: int, headers: Headers) -> None:  # noqa: ARG002 -- the interface of ears
        """Hear how the answer begins."""
        self._status = status

    def said(self) -> Headers:
        """Return nothing: no client asks for it."""
        return ()

    def piece(self, data: bytes) -> int:
        """Hear more of the body; nothing of it waits."""
        self._size += len(data)
        if self._size <= MOST_READ:
            self._pieces.append(data)
        return len(data)

    async def commit(self) -> None:
        """Count what it took."""
        if 200 <= self._status < 300:
            await asyncio.wrap_future(self._recorder.threads.begin(self._count))

    async def leave(self, why: Literal["client", "upstream"]) -> None:  # noqa: ARG002 -- the interface of ears
        """Count what it took so far, if it was answered."""
        await self.commit()

    def _count(self) -> None:
        said = taken(b"".join(self._pieces)) if self._size <= MOST_READ else None
        tokens = self._asked // BYTES_PER_TOKEN if said is None else said
        self._recorder.store.write(self._tenant, partial(_use, key=self._key, tokens=tokens), name="tally")


def taken(answer: bytes) -> int | None:
    """Return the tokens that an answer says it took; None where it does not say."""
    text = answer.decode("utf-8", "replace")
    told = [event.data for event in Frames().feed(answer)] if begins_as_stream(answer) else [text]
    for data in reversed(told):
        found = _tokens(record(record(loads(data)).get("usage")))
        if found is not None:
            return found
    return None


def _tokens(usage: Record) -> int | None:
    for names in (SUMS, PARTS):
        numbers = [number for name in names if type(number := usage.get(name)) is int]
        if numbers:
            return sum(numbers)
    return None


def _use(unit: Unit, key: str, tokens: int) -> None:
    access.use(unit, key, tokens=tokens, nano_usd=None)
