"""One pass: the steps that one snapshot leads to, asked about all at once, judged, and taken in.

What a compactor raises is not an answer. The step is asked again in later passes; where that does not help, the memory
is told that nothing usable comes, until it settles. If nothing at all was answered it is not the step's fault, and the
run ends.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar, assert_never

from everlog.clock import monotonic
from everlog.errors import Mistake, PumpTimeout
from everlog.memory.interface import Accept, Again, Failure, Memory, Reject, Reply, Stale, State, Step, Verdict
from everlog.pump.calls import AT_ONCE, Call, Calls, Heard
from everlog.pump.claim import PATIENCE
from everlog.pump.holding import Holding
from everlog.pump.usefulness import UNUSABLE, Usefulness

_log = logging.getLogger(__name__)

RETRIES = 3
"""How often, in one run, a step is asked about whose compactor raises."""

PASS_TIMEOUT_S = 900.0
GRACE_S = 5.0
"""How long requests that are out are awaited when a run is told to stop."""

_TICK_S = 0.2
"""How often, while answers are awaited, a run looks whether it is to stop."""

S = TypeVar("S", bound=State)


class Hold(Exception):
    """Raised by `before_pass`: stop before the pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of one step: numbers, no text."""

    step: str
    """Its name: `node 3:17`."""
    ok: bool
    """Whether it is done."""
    tries: int | None
    """Answers that it took, 0 where none was needed; None if it is not done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Hooks and limits of a run. Hooks are called in the thread that called `run`."""

    before_pass: Callable[[int], bool | None] | None = None
    """Gets how many steps the next pass would ask about, before anything is asked. False, or raising `Hold`, stops the
    run there; so does any other error, of which the class is logged."""
    on_result: Callable[[Result], object] | None = None
    """Gets each result after its pass, also after one that ended in an error. What it raises is logged and ignored,
    unless it is no `Exception`."""
    at_once: int = AT_ONCE
    """Requests that are out at the same time."""
    retries: int = RETRIES
    """How often a step is asked about, in one run, if the compactor raises."""
    pass_timeout_s: float | None = PASS_TIMEOUT_S
    """How long one pass may wait for answers, in seconds; None: for ever."""
    grace_s: float = GRACE_S
    """How long, in seconds, requests that are out are awaited when the run is told to stop."""
    sparing: bool = False
    """Whether to ask less, or nothing, where the last answers were of no use, as a run should that nobody asked for."""
    lease_s: float = 30.0
    """How long, in seconds, the subject stays taken if this process dies."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Why a run ends with this pass."""

    reason: str | None = None
    held: bool = False
    stopped: bool = False
    retry_at: datetime | None = None
    error: BaseException | None = None


class Asking:
    """What all passes of a run share: whom they ask, how, and what came of it so far."""

    def __init__(
        self, calls: Calls, options: Options, stop: Callable[[], bool], failures: int, worth: Usefulness
    ) -> None:
        self.calls = calls
        self.worth = worth
        self.options = options
        self.stop = stop
        self.failures = failures
        """Runs that failed in a row before this one."""
        self.answered = False
        """Whether anything was answered in this run."""
        self.raised: Counter[str] = Counter()
        """How often the compactor raised at a step."""


class Pass(Generic[S]):
    """One pass over the steps of one plan."""

    def __init__(self, memory: Memory[S], state: S, asking: Asking, holding: Holding[S]) -> None:
        self.accepted: list[Accept] = []
        self._memory = memory
        self._state = state
        self._asking = asking
        self._holding = holding
        self._results: list[Result] = []
        self._ended: Ended | None = None

    def run(self, steps: Sequence[Step]) -> Ended | None:
        """Do the steps; return why the run is to end with that, if it is."""
        for step in steps:
            if step.request is None and self._ended is None:
                self._weigh(step, None)
        pending = [step for step in steps if step.request is not None]
        most = self._asking.worth.most
        if pending and most == 0:
            self._ended = self._ended or Ended(reason=UNUSABLE)
        pending = pending[:most]
        if pending and self._ended is None and self._may_begin(len(pending)):
            if self._asking.calls.inline:
                self._ask_here(pending)
            else:
                self._ask_all(pending)
        return self._ended

    def tell(self) -> BaseException | None:
        """Hand the results to the hook; return what it raised that is no `Exception`."""
        hook = self._asking.options.on_result
        fatal: BaseException | None = None
        for result in self._results if hook is not None else ():
            try:
                assert hook is not None
                hook(result)
            except Exception as error:  # noqa: BLE001 -- a hook that counts must not stop the work
                _log.warning("on_result raised", extra={"error": type(error).__name__})
            except BaseException as error:  # noqa: BLE001 -- the run ends with it, when all are told
                fatal = fatal or error
        return fatal

    def _may_begin(self, count: int) -> bool:
        hook = self._asking.options.before_pass
        try:
            if hook is None or hook(count) is not False:
                return True
            self._ended = Ended(held=True)
        except Hold:
            self._ended = Ended(held=True)
        except Exception as error:  # noqa: BLE001 -- recorded, and the run ends
            _log.warning("before_pass raised", extra={"error": type(error).__name__})
            self._ended = Ended(held=True, reason=type(error).__name__)
        return False

    def _ask_here(self, pending: Sequence[Step]) -> None:
        for step in pending:
            asked: Step | None = step
            while asked is not None and self._ended is None:
                assert asked.request is not None
                try:
                    reply: Reply | BaseException = self._asking.calls.compactor(asked.request)
                except BaseException as error:  # noqa: BLE001 -- told apart where all replies are
                    reply = error
                asked = self._hear(Heard(asked, reply))
                self._holding.hold_on()
            if self._ended is not None:
                return

    def _ask_all(self, pending: Sequence[Step]) -> None:
        heard: SimpleQueue[Heard] = SimpleQueue()
        live = self._holding.lease.live
        out = {step.name: self._asking.calls.ask(step, heard, live=live) for step in pending}
        try:
            self._gather(out, heard, live=live)
        finally:
            self._asking.calls.abandon(list(out.values()))  # none is left, unless something was raised here

    def _gather(self, out: dict[str, Call], heard: "SimpleQueue[Heard]", *, live: bool) -> None:
        limit = self._asking.options.pass_timeout_s
        until = None if limit is None else monotonic() + limit
        while out:
            if self._asking.stop() and self._ended is None:
                self._ended = Ended(stopped=True)
                until = monotonic() + self._asking.options.grace_s
            if self._ended is not None:
                self._withdraw(out)
            if heard.empty():
                self._holding.flush()  # an answer that was waited for is kept at once
            try:
                one = heard.get(timeout=_TICK_S)
            except Empty:
                self._holding.hold_on()
                if until is not None and monotonic() > until:
                    self._give_up(out)
                continue
            again = self._hear(one)
            del out[one.step.name]
            if again is not None and self._ended is None:
                out[again.name] = self._asking.calls.ask(again, heard, live=live)
        self._holding.flush()

    def _withdraw(self, out: dict[str, Call]) -> None:
        left = set(map(id, self._asking.calls.withdraw(list(out.values()))))
        for name in [name for name, call in out.items() if id(call) not in left]:
            del out[name]

    def _give_up(self, out: dict[str, Call]) -> None:
        """Wait for what is out no longer."""
        places = self._asking.calls.abandon(list(out.values()))
        out.clear()
        if self._ended is not None:
            return
        for place in places:
            _log.error("a compactor did not answer in time and was abandoned", extra={"at": place})
        limit = self._asking.options.pass_timeout_s
        self._ended = Ended(error=PumpTimeout(f"{len(places)} requests were not answered within {limit:g} s"))

    def _hear(self, heard: Heard) -> Step | None:
        """Take in what came of asking; return the step if it is to be asked about again."""
        if isinstance(heard.reply, BaseException):
            self._raised(heard.step, heard.reply)
            return None
        if heard.reply is not None:
            self._holding.bill(heard.step, heard.reply)
        if not (isinstance(heard.reply, Failure) and heard.reply.kind == "unavailable"):
            self._asking.answered = True
        return self._weigh(heard.step, heard.reply)

    def _weigh(self, step: Step, reply: Reply | None) -> Step | None:
        verdict = self._memory.judge(self._state, step, reply)
        if reply is not None:
            self._asking.worth.learn(verdict, reply)
            if self._asking.worth.ends:
                self._ended = self._ended or Ended(reason=UNUSABLE)
        if isinstance(verdict, Again):
            self._holding.keep_try(verdict)
            return verdict.step
        self._take(step, verdict)
        return None

    def _take(self, step: Step, verdict: Accept | Reject | Stale) -> None:
        match verdict:
            case Accept():
                self._holding.add(verdict)
                self.accepted.append(verdict)
                tries = 0 if step.request is None else len(step.tries) + 1
                self._results.append(Result(step=step.name, ok=True, tries=tries))
            case Reject():
                self._results.append(Result(step=step.name, ok=False, tries=None))
                self._ended = self._ended or Ended(reason=verdict.reason, retry_at=verdict.retry_at)
            case Stale():
                pass
            case _:
                assert_never(verdict)

    def _raised(self, step: Step, error: BaseException) -> None:
        self._results.append(Result(step=step.name, ok=False, tries=None))
        if isinstance(error, Mistake | MemoryError) or not isinstance(error, Exception):
            if self._ended is None or self._ended.error is None:
                self._ended = Ended(error=error)
            return
        name = type(error).__name__
        _log.warning("a compactor raised", extra={"error": name, "step": step.name})
        self._asking.raised[step.name] += 1
        if self._asking.raised[step.name] < self._asking.options.retries:
            return
        if not self._asking.answered and self._asking.failures < PATIENCE:
            self._ended = self._ended or Ended(reason=name)
            return
        self._results.pop()
        self._take(step, self._settled(step))

    def _settled(self, step: Step) -> Accept | Reject | Stale:
        """Return what the memory makes of a step about which nothing usable ever comes."""
        verdict: Verdict = Again(step=step)
        while isinstance(verdict, Again):
            step = verdict.step
            verdict = self._memory.judge(self._state, step, Failure(kind="unusable"))
        return verdict
