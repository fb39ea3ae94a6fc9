"""One ear beside one answer: guarded, so that nothing that it does reaches the answer, and what is held for it.

What is held goes out when the ear has committed, when it fails, or when `hold_s` is over; always all of it, in order.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine
from typing import Any, Literal

from everlog.access import Principal
from everlog.surfaces.proxy.incoming import Headers, Incoming, values
from everlog.surfaces.proxy.relay.encodings import Decoder
from everlog.surfaces.proxy.relay.hearing import DEGRADED, LATE, NOT_KEPT, REQUEST_ID, Ear, Ears
from everlog.surfaces.proxy.settings.options import Target

log = logging.getLogger(__name__)


class Duties:
    """What goes on beside answers, and what is counted of it."""

    def __init__(self, hold_s: float) -> None:
        """Begin; `hold_s` is how long an answer waits for an ear."""
        self.hold_s = hold_s
        self.counts: Counter[str] = Counter()
        """Events by name."""
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, act: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run an act of an ear by itself; what it raises is counted."""
        task = asyncio.create_task(act)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def finish(self, timeout_s: float) -> None:
        """Wait for all of them, so long at most."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)

    def failed(self, act: str, error: BaseException) -> None:
        """Count and log what an ear raised; without its words, which may quote a conversation."""
        self.counts["ear_failed"] += 1
        log.warning("an ear failed", extra={"act": act, "error": type(error).__name__})

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed("keep", error)


class Hearing:
    """What one ear hears."""

    def __init__(
        self,
        ears: Ears | None,
        incoming: Incoming,
        protocol: str | None,
        principal: Principal,
        target: Target,
        duties: Duties,
    ) -> None:
        """Ask for an ear, if somebody listens."""
        self._duties = duties
        self._ear: Ear | None = None
        self._failed = False
        self._decoder = Decoder(b"")
        self._held: list[bytes] = []
        self.is_holding = False
        """Whether something is held, or was."""
        self._is_begun = self._is_released = False
        self._is_whole_held = False
        """Whether nothing of the body was let out: a client waits for its last byte, and for no frame."""
        self._commit: asyncio.Task[None] | None = None
        self.deadline: float | None = None
        """Until when what is held is held, by the clock of the loop; None where nothing is but what waits for the commit."""
        if ears is not None:
            try:
                self._ear = ears.listen(incoming, protocol, principal, target)
            except Exception as error:  # noqa: BLE001 -- the edge: an ear never breaks an answer
                self._drop("listen", error)

    @property
    def hold_s(self) -> float:
        """How long something may be held, in seconds."""
        return self._duties.hold_s

    @property
    def whole(self) -> bool:
        """Whether nothing more is needed to commit."""
        return self._ear is None or self._ear.whole

    @property
    def ear(self) -> Ear | None:
        """Who listens."""
        return self._ear

    @property
    def is_heard(self) -> bool:
        """Whether somebody listens, who may hold the answer."""
        return self._ear is not None

    @property
    def request_id(self) -> str | None:
        """Our id of the request; None where nobody listens."""
        found = next(values(self.said(), REQUEST_ID), None)
        return None if found is None else found.decode()

    def head(self, status: int, headers: Headers) -> None:
        """Tell how the answer begins."""
        self._decoder = Decoder(next(values(headers, b"content-encoding"), b""))
        if self._ear is not None:
            try:
                self._ear.head(status, headers)
            except Exception as error:  # noqa: BLE001 -- the edge: an ear never breaks an answer
                self._drop("head", error)

    def said(self) -> Headers:
        """Return what the head of the answer says besides, as far as is known by now."""
        more: Headers = ()
        if self._ear is not None:
            try:
                more = self._ear.said()
            except Exception as error:  # noqa: BLE001 -- the edge: an ear never breaks an answer
                self._drop("said", error)
        is_deaf = self._ear is not None and not self._decoder.reads
        degraded = NOT_KEPT if self._failed or is_deaf else self._held_for
        return more if degraded is None else (*(one for one in more if one[0] != DEGRADED), *degraded)

    @property
    def _held_for(self) -> Headers | None:
        """What came of what is held for; None where nothing is, or it has not begun."""
        if self._commit is None or not self.is_holding:
            return None
        if not self._commit.done():
            return LATE
        is_kept = not self._commit.cancelled() and self._commit.exception() is None
        return None if is_kept else NOT_KEPT

    def piece(self, data: bytes) -> bytes:
        """Tell a piece, as it came; return what of it may go out now. What may not is held."""
        free = self._told(data)
        is_first, self._is_begun = not self._is_begun, True
        if self._is_released:
            return data
        if not self.is_holding:
            if free >= len(data):
                return data
            self.is_holding, self._is_whole_held = True, free == 0 and is_first
        else:
            free = 0
        if self.deadline is None:
            self.deadline = asyncio.get_running_loop().time() + self._duties.hold_s
        self._held.append(data[free:] if free else data)
        return data[:free]

    def _told(self, data: bytes) -> int:
        """Tell a piece; return how many of its bytes may go out, all or none where they are compressed."""
        if self._ear is None:
            return len(data)
        try:
            if self._decoder.is_plain:
                return max(0, self._ear.piece(data))
            decoded = self._decoder.feed(data)
            if not (decoded and self._decoder.reads):
                return len(data)
            free = max(0, self._ear.piece(decoded))
        except Exception as error:  # noqa: BLE001 -- the edge: an ear never breaks an answer
            self._drop("piece", error)
            return len(data)
        return len(data) if free >= len(decoded) else 0

    def keep(self) -> None:
        """Have the exchange kept: it is whole."""
        if self._ear is not None and self._commit is None:
            self._commit = self._duties.begin(self._ear.commit())

    async def committed(self, timeout_s: float) -> bool:
        """Have the exchange kept, and wait until it is, so long at most; return whether it is. Only the waiting ends."""
        self.keep()
        if self._commit is None:
            return True
        await asyncio.wait((self._commit,), timeout=max(0, timeout_s))
        return self._commit.done()

    def leave(self, why: Literal["client", "upstream"]) -> None:
        """Have kept what there is of an exchange that ends here, if it is not being kept as a whole."""
        if self._ear is not None and self._commit is None:
            self._duties.begin(self._ear.leave(why))
        self._ear = None

    def overdue(self, *, is_over: bool = False) -> bytes:
        """Return what waited as long as it may; the last byte stays, where without it a client goes on waiting.

        Args:
            is_over: whether all has come that is to be kept, so that the last byte alone waits for the commit.
        """
        self.deadline = None
        held, self._held = b"".join(self._held), []
        if (is_over or self._is_whole_held) and held:
            held, self._held = held[:-1], [held[-1:]]
        return held

    def late(self) -> None:
        """Count that the commit took longer than an answer may wait."""
        self._duties.counts["held_too_long"] += 1

    def release(self) -> bytes:
        """Return what is held; from here on nothing is."""
        self._is_released = True
        held, self._held = b"".join(self._held), []
        return held

    def _drop(self, act: str, error: Exception) -> None:
        self._failed, self._ear = True, None
        self._duties.failed(act, error)
