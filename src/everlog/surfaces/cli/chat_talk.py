"""A conversation as `everlog chat` holds it: one thread at a time, and what the last turn came to."""

import signal
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Self

from everlog import ChatMessage, Chunk, Everlog, EverlogError, Memory, MemoryStatus, StoreUnavailable, UnknownThread
from everlog.chat.cost import Cost, sum_usages
from everlog.protocols.exchange import Usage
from everlog.surfaces.cli.console import note
from everlog.surfaces.cli.output import count

LAST_LINES_S = 3.0
"""How long the end of a conversation, or a look at its memory, waits for lines that are being built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a turn came to."""

    thread: str
    reply: ChatMessage | None
    """None where it failed or was stopped."""
    words: str
    """All that was said in it, the words before calls of tools included."""
    usage: Usage
    """Tokens of all its requests."""
    cost: Cost
    error: EverlogError | None
    before: MemoryStatus
    after: MemoryStatus

    @property
    def turned(self) -> str | None:
        """Why the prompt was begun anew; None if it went on, or was the first here."""
        same = self.before.epoch in {None, self.after.epoch}
        return None if same else self.after.reason

    @property
    def is_kept(self) -> bool:
        """Whether it failed, and can be asked for again."""
        return bool(getattr(self.error, "__notes__", ()))

    @property
    def missing(self) -> list[str]:
        """What is not as it should be, in words."""
        met = {place: n - self.before.trouble.get(place, 0) for place, n in self.after.trouble.items()}
        found = [_MISSING[place] for place, n in met.items() if n > 0 and place in _MISSING]
        if self.after.waiting:
            found.append(f"{count(self.after.waiting, 'message')} not recorded yet")
        if self.after.placeholders:
            found.append(f"{count(self.after.placeholders, 'line')} not built yet")
        if self.after.hidden:
            found.append(f"the oldest {count(self.after.hidden, 'message')} not in the prompt")
        return found


_MISSING = {"prepare": "asked without the memory", "derive": "lines could not be built"}


class Talk:
    """A conversation that goes on until it is ended."""

    def __init__(self, home: Everlog, memory: Memory) -> None:
        self.home = home
        self.memory = memory
        self._memories = [memory]
        self._last: Turn | None = None
        self._ends = ExitStack()
        self._ends.callback(memory.close)

    @property
    def last(self) -> Turn:
        """The last turn."""
        assert self._last is not None, "something was said"
        return self._last

    @property
    def length(self) -> int:
        """How many messages there are."""
        try:
            return self.memory.thread.row().next
        except UnknownThread:
            return 0

    @property
    def model(self) -> str:
        """Whom one talks with: provider and id."""
        chat = self.memory.chat
        return f"{chat.wires[0][0]}/{chat.model.id}"

    @property
    def greeting(self) -> str:
        """What is said when it begins: which thread it is, and with whom."""
        there = count(self.length, "message") if self.length else "new"
        return f"{self.memory.key} ({there}), with {self.model}; /help says what else can be typed"

    def say(self, words: str | None, on_chunk: Callable[[Chunk], None]) -> None:
        """Say something, or ask again where the last turn broke off; `last` is what it came to, also where it fails.

        Raises:
            Cancelled: it was stopped by Ctrl-C; what came is kept.
            EverlogError: it failed; what came is kept.
        """
        memory, before, pieces = self.memory, self.memory.status(), list[str]()
        reply: ChatMessage | None = None
        failure: EverlogError | None = None

        def heard(chunk: Chunk) -> None:
            pieces.append(chunk.text)
            on_chunk(chunk)

        try:
            with _stopped_by_ctrl_c(memory):
                reply = memory.turn(words, on_chunk=heard)
        except EverlogError as error:
            failure = error
            raise
        finally:
            self._last = Turn(
                thread=memory.key,
                reply=reply,
                words="".join(pieces),
                usage=sum_usages(one.usage for one in memory.chat.attempts),
                cost=memory.chat.cost,
                error=failure,
                before=before,
                after=memory.status(),
            )

    def settle(self) -> None:
        """Wait a little for what is being built."""
        self.memory.wait(LAST_LINES_S)

    def fork(self, key: str | None = None) -> None:
        """Go on in a new thread, which shares what was said so far.

        Raises:
            UnknownThread: nothing was said yet.
            Conflict: there is such a thread.
        """
        self.memory = self.memory.fork(key=key or self._free_key())
        self._memories.append(self.memory)
        self._ends.callback(self.memory.close)

    def _free_key(self) -> str:
        taken, n = set(self.home.keys().values()), 2
        while f"{self.memory.key}-{n}" in taken:
            n += 1
        return f"{self.memory.key}-{n}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        waited = self._waiting()
        with self._ends, suppress(KeyboardInterrupt):  # another Ctrl-C waits no longer
            self.settle()
        lost = self._waiting()
        if lost and error is None:
            raise StoreUnavailable(
                f"{count(lost, 'message')} could not be recorded, and nothing keeps them: they are lost"
            )
        if waited and not lost:
            note("what waited is recorded by now, or when a conversation in the same thread begins")

    def _waiting(self) -> int:
        return sum(memory.status().waiting for memory in self._memories)


class _stopped_by_ctrl_c:  # noqa: N801 -- reads as what it does
    """While the block runs, the first Ctrl-C cancels the turn; the second does what it always does."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._before: Any = None

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGINT, self._told)

    def __exit__(self, *error: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _told(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 -- the interface of signals
        signal.signal(signal.SIGINT, self._before)
        self._memory.cancel(hard=True)
