"""What was said is in the log once, whatever became of each try to record it; and so is what it cost."""

from contextlib import ExitStack
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from everlog import Chat, Everlog, StoreUnavailable, TurnState
from everlog.chat.retries import Retry
from everlog.chat.routes import ChatConfig
from everlog.store import open_store
from everlog.testing import failpoints
from everlog.testing.upstream import Answer, Upstream
from tests.unit.conversation.remembering import DRIVERS, Remembering
from tests.unit.conversation.test_trouble import DOWN, down, texts

UNITS = ("turn.take", "turn.begin", "turn.record", "turn.spool", "turn.release", "context.prepare")


def look(n: int) -> str:
    """Look something up."""
    return "the same every time"


def always(received: Any) -> Answer:
    """Two rounds of a tool and an answer, in the same words in each turn."""
    said = received.body["messages"]
    begun = max(n for n, one in enumerate(said) if one["role"] == "user")
    rounds = sum(one["role"] == "tool" for one in said[begun:])
    if rounds < 2:
        return Answer(text="let me look", calls=((f"c{rounds}", "look", {"n": 1}),))
    return Answer(text="the same answer")


TURN = [
    *("user", "assistant", "tool_call", "tool_result"),
    *("assistant", "tool_call", "tool_result", "assistant"),
]


class Flaky:
    """Of each unit whose name is one of `UNITS`: does nothing, fails before it is stored, or after that, unseen."""

    def __init__(self, fates: list[int]) -> None:
        self.fates = iter(fates)
        self.fate = 0

    def __call__(self, name: str) -> None:
        unit, _, moment = name.rpartition(".")
        if unit not in UNITS:
            return
        if moment == "before_commit":
            self.fate = next(self.fates, 0)
            if self.fate == 1:
                raise StoreUnavailable("away")
        elif moment == "after_commit" and self.fate == 2:
            raise StoreUnavailable("nobody knows")


fates = st.lists(st.sampled_from([0, 0, 1, 2]), max_size=40)


@example([0, 0, 2, 1, 1, 1, 1, 1, 1], 2)
@example([1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 2], 2)
@given(fates, st.integers(1, 3))
def test_whatever_becomes_of_each_unit_the_log_is_what_was_said_once(fates, turns):
    home = Everlog(open_store(":memory:"))
    with Upstream(always) as upstream, ExitStack() as stack:
        config = ChatConfig(base_urls={"openai": upstream.url}, environ={}, retry=Retry(retries=0))
        chat = Chat("m-1", provider="openai", protocol="chat_completions", assume_model_exists=True, config=config)
        memory = home.attach(chat.with_tools(look), key="k", pump="none")
        stack.callback(home.close)
        stack.callback(memory.close)
        with failpoints._listening(Flaky(fates)):
            for _ in range(turns):
                assert memory.turn("the same question").text == "the same answer"
        memory.turn("the same question")
        kinds = [entry.kind for entry in memory.thread.entries()]
        assert kinds == TURN * (turns + 1)
        assert [entry.turn for entry in memory.thread.entries()] == [n // len(TURN) for n in range(len(kinds))]
        assert memory.status().waiting == 0
        assert memory.cost().talk.requests == len(upstream.requests)


def test_a_record_that_was_stored_unseen_while_the_rest_of_its_turn_waits_is_stored_once(remembering):
    made = remembering(always)
    made.chat.with_tools(look)
    tries: list[str] = []

    def listen(name):
        if name == "turn.record.after_commit" or (tries and name.endswith(".before_commit")):
            tries.append(name)
            raise DOWN

    with failpoints._listening(listen):
        made.turn("one")
    made.turn("two")
    assert [kind for kind, _ in made.logged] == TURN * 2
    assert made.states == [TurnState.COMPLETE] * 2


def test_what_is_in_the_spool_of_two_processes_is_recorded_once(remembering, tmp_path):
    home = Everlog(open_store(tmp_path / "log.db"))
    made = Remembering(DRIVERS[0], home, *texts("1", "2", "3", "4"))
    made.turn("one")
    with down():
        made.turn("two")
        made.do("close")
    both = [made.attach(made.new_chat()) for _ in range(2)]
    assert [memory.status().waiting for memory in both] == [2, 2]
    for n, memory in enumerate(both):
        memory.turn(f"more {n}")
    assert [text for _, text in made.logged] == ["one", "1", "two", "2", "more 0", "3", "more 1", "4"]
    made.close()
    home.close()


def test_the_rest_of_a_turn_that_another_process_went_past_is_a_turn_of_its_own(remembering):
    made = remembering(*texts("1", "2", "3"))
    other = made.attach(made.new_chat())
    with down("turn.record", "turn.spool", "turn.take", "turn.release"):
        made.turn("one")
    made.memory, first = other, made.memory
    other._recorder._holding.retakes = True  # as where the first process is gone
    made.turn("two")
    made.memory = first
    first._recorder._holding.retakes = False
    with failpoints.raising("turn.spool.after_commit", DOWN):
        made.turn("three")
    made.do("close")
    assert sorted(text for _, text in made.logged) == sorted(["one", "1", "two", "2", "three", "3"])
    assert [text for _, text in made.logged][:4] == ["one", "two", "2", "1"]
