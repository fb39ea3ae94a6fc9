"""How a turn gets into its thread and out again: one at a time, and whatever ends it, nothing stays taken."""

import threading
from collections.abc import Callable, Hashable, Sequence

from everlog.chat.cancel import Cancel
from everlog.chat.effects import Act, Program, Sleep
from everlog.clock import monotonic
from everlog.conversation.recording.gate import PLACES, Ticket
from everlog.conversation.recording.pace import Pace, Watch, too_late
from everlog.conversation.recording.recorder import Recorder
from everlog.conversation.recording.units import Turn
from everlog.conversation.turn.bench import Bench, Parked
from everlog.errors import Erased, Mistake

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.01, 0.25
"""How often is looked whether the turn before has ended."""


class Entry:
    """The way of one turn into its thread."""

    def __init__(
        self, recorder: Recorder, bench: Bench, *, names: Sequence[Hashable], wait_s: float, close: Callable[[], None]
    ) -> None:
        """Enter under names that are taken in this process; `close` is called when the turn is over."""
        self._recorder = recorder
        self._bench = bench
        self._names = names
        self._wait_s = wait_s
        self._close = close
        self.pace = Pace()
        self._inside = threading.Lock()
        """Held from the moment on when the turn is in."""

    def enter(self, parked: Parked, turn: Turn, *, is_resumed: bool) -> Program[None]:
        """Wait until the thread is free, and begin.

        Raises:
            Busy: it is not, for too long.
            PendingCalls: another turn waits for somebody to approve its calls.
        """
        until, pause, watch = monotonic() + self._wait_s, FIRST_PAUSE_S, Watch()
        while not (PLACES.take(self._names, self.pace) and (yield from self._begin(parked, turn, is_resumed))):
            before = PLACES.taken_by(self._names)
            watch.refuse_oneself(before, self._recorder.key)
            if monotonic() >= until:
                raise too_late(before, self._recorder.key, self._wait_s)
            yield Sleep(pause, Cancel())
            pause = min(LONGEST_PAUSE_S, pause * 2)
        self._inside.acquire()
        self.pace.run()
        self._bench.rise(parked)

    def exit(self, turn: Turn) -> Program[None]:
        """Let go of everything."""
        try:
            yield Act(self.leave, (turn,))
        except BaseException as error:  # it may have been cancelled before it began
            self.break_off(turn, error)
            raise

    def break_off(self, turn: Turn, error: BaseException) -> None:
        """Let go of everything where nothing more can be waited for: an act may be under way, and hold up an event loop."""
        self.pace.end()
        if isinstance(error, GeneratorExit):
            self.leave(turn)
        else:
            threading.Thread(target=self.leave, args=(turn,), name="everlog-leave").start()

    def leave(self, turn: Turn) -> None:
        """Let go of everything, here, and once."""
        self.pace.end()
        try:
            self._inside.release()
        except RuntimeError:  # another thread is at it
            return
        try:
            self._close()
        finally:
            try:
                self._recorder.release(turn)
            finally:
                PLACES.leave(self._names)

    def _begin(self, parked: Parked, turn: Turn, is_resumed: bool) -> Program[bool]:
        """Begin, if the thread is free; if not, or if it fails or is cancelled, leave nothing taken."""
        recorder, ticket = self._recorder, Ticket()
        begin, back = (recorder.reopen, recorder.release) if is_resumed else (recorder.begin, recorder.abort)
        is_in: bool = False
        try:
            self._bench.refuse(parked)
            is_in = yield Act(begin, (turn, ticket))
        except BaseException as error:
            if isinstance(error, Mistake | Erased):
                self._bench.rise(parked)
            if ticket.give_up():
                back(turn)
            raise
        finally:
            if not is_in:
                PLACES.leave(self._names)
        return is_in
