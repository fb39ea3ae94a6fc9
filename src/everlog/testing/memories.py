"""What every memory must do, as checks that any implementation can run.

    @pytest.mark.parametrize("check", memories.CHECKS, ids=lambda check: check.__name__)
    def test_my_memory(check):
        check(MemoryCase(store=…, tenant=…, subject=…, memory=…, model=…, say=…, drop=…, erase=…, stored=…))

Each check gets a case of its own, with nothing said yet, and raises `AssertionError` where the memory fails it.
"""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

from everlog.errors import Erased
from everlog.memory.interface import (
    Accept,
    Again,
    Compactor,
    Failure,
    Memory,
    Plan,
    Reject,
    Reply,
    Stale,
    Step,
    Subject,
)
from everlog.pump import Ran, run
from everlog.store import Store, Unit

MANY = 12
MOST_TRIES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCase:
    """A memory with something to remember."""

    store: Store
    tenant: str
    subject: Subject
    memory: Memory[Any]
    model: Compactor
    """A compactor whose answer is a function of the request, such as `EchoModel`."""
    say: Callable[[int], object]
    """Says so many further things, each of which gives the memory at least one step; some that need an answer."""
    drop: Callable[[], object]
    """Drops what was derived, so that it is derived again."""
    erase: Callable[[], object]
    """Erases something that was said, but not everything."""
    stored: Callable[[], Sequence[Any]]
    """Returns everything that the memory has stored about the subject, in an order of its own, as it is read back."""

    def state(self) -> Any:
        """Return a snapshot."""
        return self.store.read(self.tenant, partial(self.memory.read, subject=self.subject))

    def plan(self, state: Any = None, room: int = 1000) -> Plan:
        """Return what is pending a day from now, when nothing waits for its time any more."""
        state = self.state() if state is None else state
        return self.memory.plan(state, self.store.clock.now() + timedelta(days=1), room)

    def asked(self, step: Step) -> Reply | None:
        """Return what the model answers."""
        return None if step.request is None else self.model(step.request)

    def judged(self, state: Any, step: Step) -> Accept:
        """Return a step done."""
        verdict = self.memory.judge(state, step, self.asked(step))
        assert isinstance(verdict, Accept), f"{step.name} of a good answer: {type(verdict).__name__}"
        return verdict

    def write(self, verdicts: Sequence[Accept | Again]) -> None:
        """Write in one unit."""

        def act(unit: Unit) -> None:
            self.memory.write(unit, self.subject, verdicts)

        self.store.write(self.tenant, act, name="test.write")

    def pumped(self) -> Ran:
        """Let the pump do all there is to do."""
        return run(self.store, self.tenant, self.subject.key, self.memory, self.model)


def a_snapshot_is_planned_and_judged_without_effect(case: MemoryCase) -> None:
    """Planning and judging are pure: done twice they come to the same, and nothing is stored."""
    case.say(MANY)
    state = case.state()
    plan = case.plan(state)
    assert plan.steps
    assert plan.remaining >= len(plan.steps)
    assert case.plan(state) == plan
    for step in plan.steps:
        reply = case.asked(step)
        assert case.memory.judge(state, step, reply) == case.memory.judge(state, step, reply)
    assert case.plan(case.state()) == plan, "the same log is planned in the same way"
    assert list(case.stored()) == []


def steps_are_data_with_names_of_their_own(case: MemoryCase) -> None:
    """A step survives a restart, and its name is not another's."""
    case.say(MANY)
    steps = case.plan().steps
    assert pickle.loads(pickle.dumps(steps)) == steps  # noqa: S301 -- our own values
    assert len({step.name for step in steps}) == len(steps)
    assert all(step.subject == case.subject for step in steps)
    for room in range(3):
        assert len(case.plan(room=room).steps) <= room


def everything_pending_is_done_once(case: MemoryCase) -> None:
    """The pump comes to an end, and there is nothing to do for the next run."""
    case.say(MANY)
    ran = case.pumped()
    assert ran.done
    assert ran.steps >= MANY
    assert case.plan().steps == ()
    assert case.plan().remaining == 0
    whole = list(case.stored())
    assert case.pumped() == Ran(steps=0, done=True)
    assert list(case.stored()) == whole
    case.say(1)
    assert case.plan().steps
    assert case.pumped().done
    assert all(one in case.stored() for one in whole), "what was derived stays as it is"


def writing_twice_is_writing_once(case: MemoryCase) -> None:
    """A write that was not acknowledged may be done again."""
    case.say(MANY)
    state = case.state()
    verdicts = [case.judged(state, step) for step in case.plan(state).steps]
    case.write(verdicts)
    once = list(case.stored())
    assert once
    case.write(verdicts)
    assert list(case.stored()) == once


def an_answer_that_comes_late_is_stale(case: MemoryCase) -> None:
    """What is done, or asked otherwise by now, is not done again."""
    case.say(MANY)
    state = case.state()
    steps = case.plan(state).steps
    case.write([case.judged(state, step) for step in steps])
    for step in steps:
        verdict = case.memory.judge(case.state(), step, case.asked(step))
        assert isinstance(verdict, Stale), f"{step.name}: {type(verdict).__name__}"


def what_is_dropped_comes_back_the_same(case: MemoryCase) -> None:
    """Law 2: the same bytes, however little is done at a time."""
    case.say(MANY)
    assert case.pumped().done
    whole = list(case.stored())
    random = Random(7)  # noqa: S311 -- the same in every run
    for _ in range(3):
        case.drop()
        assert list(case.stored()) == []
        while steps := case.plan(room=random.randint(1, 1000)).steps:
            state = case.state()
            some = steps[: random.randint(1, len(steps))]
            case.write([case.judged(state, step) for step in some])
        assert list(case.stored()) == whole


def a_provider_that_is_down_counts_against_nobody(case: MemoryCase) -> None:
    """Nothing is stored, and the step is as it was."""
    case.say(MANY)
    state = case.state()
    asking = [step for step in case.plan(state).steps if step.request is not None]
    assert asking, "some steps need an answer"
    for step in asking:
        verdict = case.memory.judge(state, step, Failure(kind="unavailable", retry_at=case.store.clock.now()))
        assert isinstance(verdict, Reject)
        assert verdict.retry_at is not None
    again = [step for step in case.plan().steps if step.request is not None]
    assert again == asking


def answers_that_cannot_be_used_come_to_an_end(case: MemoryCase) -> None:
    """After some tries each step is settled, whatever the answers are; tries that are stored are carried along."""
    case.say(MANY)
    state = case.state()
    for step in [step for step in case.plan(state).steps if step.request is not None]:
        asked = step
        for _ in range(MOST_TRIES):
            verdict = case.memory.judge(state, asked, Failure(kind="unusable"))
            if not isinstance(verdict, Again):
                break
            assert verdict.step.name == step.name
            assert verdict.step.inputs == step.inputs
            assert len(verdict.step.tries) == len(asked.tries) + 1
            asked = verdict.step
            if verdict.rows:
                case.write([verdict])
                (found,) = [one for one in case.plan().steps if one.name == step.name]
                assert found == asked
        else:
            raise AssertionError(f"{step.name} is asked for ever")
        assert isinstance(verdict, Accept)
        case.write([verdict])
    assert case.pumped().done


def what_is_erased_is_gone_and_does_not_come_back(case: MemoryCase) -> None:
    """Rows go with the words, and an answer that was on its way is not kept."""
    case.say(MANY)
    assert case.pumped().done
    before = list(case.stored())
    case.say(2)
    state = case.state()
    late = [case.judged(state, step) for step in case.plan(state).steps]
    case.erase()
    after = list(case.stored())
    assert len(after) < len(before)
    assert all(one in before for one in after)
    try:
        case.write(late)
    except Erased:
        assert list(case.stored()) == after
    else:
        raise AssertionError("an answer to what was read before an erasure was written after it")
    assert case.pumped().done
    case.drop()
    assert case.pumped().done


def tenants_do_not_meet(case: MemoryCase) -> None:
    """Another tenant's subject of the same name has nothing to do, and nothing of this one's."""
    case.say(MANY)
    other = Subject(tenant="somebody-else", memory=case.subject.memory, key=case.subject.key)
    try:
        state = case.store.read(other.tenant, partial(case.memory.read, subject=other))
    except Erased:
        return
    assert case.plan(state).steps == ()


CHECKS: tuple[Callable[[MemoryCase], None], ...] = (
    a_snapshot_is_planned_and_judged_without_effect,
    steps_are_data_with_names_of_their_own,
    everything_pending_is_done_once,
    writing_twice_is_writing_once,
    an_answer_that_comes_late_is_stale,
    what_is_dropped_comes_back_the_same,
    a_provider_that_is_down_counts_against_nobody,
    answers_that_cannot_be_used_come_to_an_end,
    what_is_erased_is_gone_and_does_not_come_back,
    tenants_do_not_meet,
)
"""All of them, in the order in which they build on each other."""
