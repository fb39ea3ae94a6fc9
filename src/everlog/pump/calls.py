"""Asking a compactor: several requests at once, each in a daemon thread of its own, the live ones first.

One `Calls` is shared by all that one process works on, so that it never asks more at once than it should. While the
provider is down nobody is sent to it: what is asked meanwhile is told so at once. When the time is over, one request
goes alone, and the others wait for what becomes of it.
"""

import heapq
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from queue import SimpleQueue
from types import FrameType

from everlog.clock import Clock
from everlog.memory.interface import Compactor, Failure, Reply, Request, Step
from everlog.pump.claim import SLEEP_S
from everlog.store import failpoints

AT_ONCE = 8
"""Requests that one process has out at the same time."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What came of asking about a step: a reply, or what the compactor raised."""

    step: Step
    reply: Reply | BaseException | None


class Call:
    """A request on its way."""

    __slots__ = ("abandoned", "heard", "request", "settled", "step", "thread")

    def __init__(self, step: Step, request: Request, heard: "SimpleQueue[Heard]") -> None:
        self.step = step
        self.request = request
        self.heard = heard
        self.thread: threading.Thread | None = None
        self.abandoned = False
        self.settled = False


@dataclass(slots=True, order=True)
class _Place:
    backfill: bool
    number: int
    call: Call = field(compare=False)


class Calls:
    """Asks one compactor for everybody in a process. Thread-safe."""

    def __init__(self, compactor: Compactor, clock: Clock, *, at_once: int = AT_ONCE) -> None:
        self.compactor = compactor
        self.inline: bool = getattr(compactor, "inline", False)
        self._clock = clock
        self._at_once = at_once
        self._lock = threading.Lock()
        self._queue: list[_Place] = []
        self._numbers = count()
        self._running = 0
        self._down_until: datetime | None = None
        self._doubted = False
        self.wasted = 0
        """Steps in a row, of all subjects, that were settled without an answer that could be used, and runs that asked less
        for that."""

    def note(self, *, usable: bool) -> None:
        """Note that a step was settled, by an answer that could be used or without one."""
        with self._lock:
            self.wasted = 0 if usable else self.wasted + 1

    def passed_over(self, known: int) -> None:
        """Note that a run asks less, for what is known to be in vain."""
        with self._lock:
            self.wasted = max(self.wasted, known) + 1

    def doubt(self) -> None:
        """Send the next request alone, since the provider was down when it was asked last."""
        with self._lock:
            self._doubted = True

    def ask(self, step: Step, heard: "SimpleQueue[Heard]", *, live: bool) -> Call:
        """Ask about a step; what comes of it is put into the queue, unless it is abandoned before."""
        assert step.request is not None
        call = Call(step, step.request, heard)
        with self._lock:
            heapq.heappush(self._queue, _Place(not live, next(self._numbers), call))
        self._fill()
        return call

    def withdraw(self, calls: Sequence[Call]) -> list[Call]:
        """Take back those calls that have not begun, and return the rest."""
        mine = set(map(id, calls))
        with self._lock:
            waiting = {id(place.call) for place in self._queue} & mine
            self._queue = [place for place in self._queue if id(place.call) not in waiting]
            heapq.heapify(self._queue)
        return [call for call in calls if id(call) not in waiting]

    def abandon(self, calls: Sequence[Call]) -> list[str]:
        """Wait for some calls no longer; return where those that run stand: file, line and function."""
        stuck: list[int | None] = []
        for call in self.withdraw(calls):
            with self._lock:
                if call.settled or call.abandoned:
                    continue
                call.abandoned = True
                self._running -= 1
            stuck.append(None if call.thread is None else call.thread.ident)
        self._fill()
        return _places(stuck)

    def _fill(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    return
                refusal = self._refusal()
                if refusal is None and self._running >= (1 if self._doubted else self._at_once):
                    return
                call = heapq.heappop(self._queue).call
                call.settled = refusal is not None
                self._running += refusal is None
            if refusal is not None:
                call.heard.put(Heard(call.step, refusal))
                continue
            call.thread = threading.Thread(target=self._serve, args=(call,), name="everlog-call", daemon=True)
            call.thread.start()

    def _serve(self, call: Call) -> None:
        reply: Reply | BaseException
        try:
            failpoints.hit("pump.ask.before")
            reply = self.compactor(call.request)
            failpoints.hit("pump.ask.after")
        except BaseException as error:  # noqa: BLE001 -- whoever asked decides what it means
            reply = error
        with self._lock:
            if call.abandoned:
                return
            call.settled = True
            self._running -= 1
            self._learn(reply)
        call.heard.put(Heard(call.step, reply))
        self._fill()

    def _learn(self, reply: Reply | BaseException) -> None:
        down = isinstance(reply, Failure) and reply.kind == "unavailable"
        self._doubted = down
        self._down_until = None
        if down:
            assert isinstance(reply, Failure)
            self._down_until = reply.retry_at or self._clock.now() + timedelta(seconds=SLEEP_S)

    def _refusal(self) -> Failure | None:
        """Return what the provider would say, while it is known to be down."""
        if self._down_until is None or self._clock.now() >= self._down_until:
            return None
        return Failure(kind="unavailable", retry_at=self._down_until)


def _places(threads: Sequence[int | None]) -> list[str]:
    """Return where threads stand. Nobody is looked for where none is stuck: all threads are stopped for the look."""
    if not threads:
        return []
    frames = sys._current_frames()  # noqa: SLF001 -- there is no other way to say where a thread hangs
    return [_place(None if ident is None else frames.get(ident)) for ident in threads]


def _place(frame: FrameType | None) -> str:
    if frame is None:
        return "?"
    return f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}"
