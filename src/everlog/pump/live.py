"""One run: bring one subject of one memory up to date.

The run takes the subject's lease, then goes on in passes until nothing is pending: read, plan, ask, judge, write.
Steps whose sources come from earlier steps of the same snapshot are taken on before anything is written, so one
transaction keeps a few hundred rows; but an answer that was waited for is written as soon as nothing else has come.
Killed at any point, the run has lost at most the answers since the last write; the next one finds what is pending anew.

Reading, planning, judging, writing and all hooks are done in the thread that called; only requests leave it
(`calls.py`). Async callers take one hop for a whole run.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from everlog.errors import Erased
from everlog.memory.interface import Compactor, Memory, State, Subject
from everlog.pump import claim as leases
from everlog.pump.calls import Calls
from everlog.pump.claim import Lease, LeaseLost
from everlog.pump.holding import Holding, Progress
from everlog.pump.passes import Asking, Ended, Options, Pass
from everlog.pump.usefulness import Usefulness, name_of
from everlog.store import Store, Unit

ROWS = 500
"""Rows kept by one transaction (measured: 54,617 nodes a second against 2,568 with one)."""

S = TypeVar("S", bound=State)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a run came to."""

    steps: int
    """Steps whose rows it kept."""
    done: bool
    """Whether nothing was pending at its end."""
    busy: bool = False
    """Whether another worker was, or came, at it."""
    held: bool = False
    """Whether `before_pass` stopped it."""
    reason: str | None = None
    """Why it stopped early, where nobody told it to: the name of the trouble, never text."""
    remaining: int = 0
    """An estimate of the steps that are left."""
    bad: int = field(default=0, compare=False)
    """Answers in a row, at its end, that could not be used."""
    useful: bool = field(default=False, compare=False)
    """Whether it had an answer that could be used."""


def run(
    store: Store,
    tenant: str,
    key: str,
    memory: Memory[S],
    compactor: Compactor,
    *,
    options: Options | None = None,
    on_progress: Progress | None = None,
    calls: Calls | None = None,
    stop: Callable[[], bool] | None = None,
) -> Ran:
    """Bring a subject up to date.

    Args:
        store: the database.
        tenant: whose subject.
        key: the subject's key; of a thread's memories, the thread's id.
        memory: what is to be derived.
        compactor: answers the steps that need an answer.
        options: hooks and limits.
        on_progress: told after each write.
        calls: asks the compactor for all that this process works on; if None, for this run alone.
        stop: asked after each pass, and while answers are awaited, whether to leave the rest to a later run.

    Raises:
        PumpTimeout: a pass took too long; what was answered is kept, the rest is for a later run.
        StoreUnavailable: the database cannot be written; what was written before stays.
        Mistake: the compactor cannot answer at all. What it raises that is no `Exception` comes out too.
    """
    options = options or Options()
    claim = _Claim(Subject(tenant=tenant, memory=memory.name, key=key), options.lease_s)
    try:
        lease = store.write(tenant, claim, name="pump.claim")
        if lease is None:
            return Ran(steps=0, done=False, busy=True)
        if calls is None:
            calls = Calls(compactor, store.clock, at_once=options.at_once)
            if lease.reason == "unavailable":
                calls.doubt()
        worth = Usefulness(calls, lease, sparing=options.sparing)
        asking = Asking(calls, options, stop or _never, lease.failures, worth)
        ran = _held(Holding(store, memory, lease, on_progress, worth), memory, asking)
        return replace(ran, bad=worth.bad, useful=worth.found)
    except Erased:
        return Ran(steps=0, done=False, reason="erased")
    except BaseException as error:
        if not isinstance(error, Exception):  # an interrupt, which may come while nobody minds the lease
            with suppress(Exception):
                store.write(tenant, claim.give_back, name="pump.release")
        raise


class _Claim:
    """A claim that knows, also where its caller was interrupted, what it has taken."""

    def __init__(self, subject: Subject, seconds: float) -> None:
        self._subject = subject
        self._seconds = seconds
        self._worker = leases.this_worker()
        self._taken: Lease | None = None

    def __call__(self, unit: Unit) -> Lease | None:
        """Take the subject on."""
        self._taken = leases.claim(unit, self._subject, self._seconds, self._worker)
        return self._taken

    def give_back(self, unit: Unit) -> None:
        """Let go of it, unless that is done."""
        if self._taken is not None:
            leases.give_back(unit, self._taken, self._worker)


def _never() -> bool:
    return False


def _held(holding: Holding[S], memory: Memory[S], asking: Asking) -> Ran:
    """Work to the end, and let go of the subject however that comes."""
    try:
        ended = _work(holding, memory, asking)
        if ended is None:
            return Ran(steps=holding.steps, done=True)
        return _let_go(holding, ended)
    except LeaseLost:
        return Ran(steps=holding.steps, done=False, busy=True)
    except Erased:
        holding.release("erased")
        return Ran(steps=holding.steps, done=False, reason="erased")
    except BaseException as error:
        with suppress(Exception):  # the error that matters is the first; unreleased, the lease ends by time
            # What is no Exception is no fault of the subject, and does not keep it waiting.
            sleep = holding.now() + holding.lease.sleep if isinstance(error, Exception) else None
            holding.release(name_of(error), sleep_until=sleep)
        raise
    finally:
        holding.settle()


def _let_go(holding: Holding[S], ended: Ended) -> Ran:
    if ended.error is not None:
        raise ended.error
    sleep = ended.retry_at
    if ended.stopped:
        sleep = holding.now()  # to the end of the line
    elif sleep is None:
        sleep = holding.now() + holding.lease.sleep
    holding.release(None if ended.held or ended.stopped else ended.reason, sleep_until=sleep)
    return Ran(
        steps=holding.steps, done=False, held=ended.held, reason=ended.reason, remaining=max(0, holding.remaining)
    )


def _work(holding: Holding[S], memory: Memory[S], asking: Asking) -> Ended | None:
    """Write until nothing is pending, or something says to stop."""
    while True:
        before = holding.steps
        ended = _chain(holding, memory, asking)
        holding.flush()
        if ended is not None:
            return ended
        if holding.steps == before and holding.finish():
            return None
        if asking.stop():
            return Ended(stopped=True)


def _chain(holding: Holding[S], memory: Memory[S], asking: Asking) -> Ended | None:
    """Do what one snapshot leads to, and what that leads to, up to so many rows."""
    state: S | None = holding.read()
    while state is not None and holding.waiting < ROWS:
        plan = memory.plan(state, holding.now(), ROWS - holding.waiting)
        holding.remaining = plan.remaining + holding.waiting
        one = Pass(memory, state, asking, holding)
        ended = one.run(plan.steps)
        if (fatal := one.tell()) is not None:
            ended = Ended(error=fatal)
        if ended is not None or not one.accepted:
            return ended
        state = state.after(one.accepted)
    return None
