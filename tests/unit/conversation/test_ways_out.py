"""However a turn ends, or is ended, its thread is free afterwards, and the log says what was said."""

import asyncio
import threading
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from everlog import (
    Busy,
    Erased,
    Everlog,
    Mistake,
    PartTooLarge,
    PendingCalls,
    ProtocolError,
    StoreUnavailable,
    TurnState,
    tool,
)
from everlog.conversation.recording.gate import PLACES
from everlog.log import blobs
from everlog.store import open_store
from everlog.testing import failpoints
from everlog.testing.upstream import Answer
from tests.unit.conversation.remembering import Remembering
from tests.unit.conversation.test_trouble import DOWN, down, texts

ABORTED, COMPLETE, OPEN, PARTIAL = TurnState.ABORTED, TurnState.COMPLETE, TurnState.OPEN, TurnState.PARTIAL


def beats() -> list[threading.Thread]:
    """Threads that renew leases, as soon as those that were told to stop have stopped."""
    for thread in threading.enumerate():
        if thread.name == "everlog-turn":
            thread.join(2)
    return [thread for thread in threading.enumerate() if thread.name == "everlog-turn"]


@tool(requires_approval=True)
def book(city: str) -> str:
    """Book a room."""
    return f"booked {city}"


BOOKING = Answer(calls=(("c", "book", {"city": "Roscoff"}),))


@pytest.mark.parametrize("streams", [False, True])
def test_a_redactor_that_fails_at_the_answer_leaves_the_thread_free(remembering, streams):
    def refuse(message):
        if message.kind == "assistant":
            raise ValueError("no answer")
        return message

    made = remembering(*texts("1", "2"), wait_s=0.05)
    made.home._redactor = refuse
    for _ in range(2):
        with pytest.raises(ValueError, match="no answer"):
            made.stream("one") if streams else made.turn("one")
    assert made.states == [ABORTED, ABORTED]
    assert beats() == []


class Slow:
    """Units whose names begin so stop after they are stored, or before they begin, until they are let go on."""

    def __init__(self, point: str) -> None:
        self.point = point
        self.there, self.go = threading.Event(), threading.Event()

    def __call__(self, name: str) -> None:
        if name == self.point and not self.there.is_set():
            self.there.set()
            assert self.go.wait(20)


async def cancelled(memory, slow, *, times=1):
    """A turn whose task is cancelled while a unit of it is under way in a thread."""
    task = asyncio.create_task(memory.turn("one"))
    await asyncio.to_thread(slow.there.wait, 20)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0.01)
    slow.go.set()
    with suppress(asyncio.CancelledError):
        await task


@pytest.fixture
def on_loop(memory):
    made = Remembering("async", memory, *texts("1", "2", "3"), wait_s=5, pump="none")
    yield made
    made.close()


POINTS = {
    "turn.begin.before_commit": [ABORTED, COMPLETE],
    "turn.begin.after_commit": [ABORTED, COMPLETE],
    "context.prepare.after_commit": [ABORTED, COMPLETE],
    "turn.record.before_commit": [COMPLETE, COMPLETE],
    "turn.record.after_commit": [COMPLETE, COMPLETE],
    "turn.release.after_commit": [COMPLETE, COMPLETE],
}


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("point", POINTS)
def test_a_task_that_is_cancelled_while_a_unit_is_under_way_leaves_the_thread_free(on_loop, point, times):
    slow = Slow(point)
    with failpoints._listening(slow):
        on_loop._runner.run(cancelled(on_loop.memory, slow, times=times))
    assert on_loop.turn("two").text
    assert [text for kind, text in on_loop.logged if kind == "user"] == ["one", "two"]
    assert on_loop.states == POINTS[point]
    assert on_loop.do("cost").talk.requests == len(on_loop.bodies)
    assert beats() == []


def test_a_turn_that_was_given_up_while_the_database_was_away_is_aborted(on_loop):
    slow = Slow("turn.begin.before_commit")

    def listen(name):
        slow(name)
        if name.startswith("turn.begin"):
            raise DOWN

    with failpoints._listening(listen):
        on_loop._runner.run(cancelled(on_loop.memory, slow))
    on_loop.turn("two")
    assert on_loop.states == [ABORTED, COMPLETE]


def test_a_memory_that_is_closed_says_so_and_nothing_is_asked(remembering):
    made = remembering(*texts("1", "2"))
    made.turn("one")
    made.do("close")
    for act in (partial(made.turn, "lost?"), partial(made.stream, "lost?"), partial(made.do, "resume")):
        with pytest.raises(Mistake, match="the memory was closed"):
            act()
    with pytest.raises(Mistake, match="the memory was closed"):
        made.do("fork", key="f")
    assert len(made.bodies) == 1


def test_a_fork_whose_database_was_closed_says_so(tmp_path):
    home = Everlog(open_store(tmp_path / "log.db"))
    made = Remembering("sync", home, *texts("1", "2"))
    made.turn("one")
    fork = made.memory.fork(key="f")
    home.close()
    with pytest.raises(Mistake, match="the database of the memory was closed"):
        fork.turn("lost?")
    made.close()
    assert len(made.upstream.requests) == 1


def test_what_a_turn_says_after_its_memory_was_closed_is_recorded(remembering):
    def script(received):
        made.memory._close()
        return Answer(text="late")

    made = remembering(script)
    with down("turn.record"):
        made.turn("one")
    assert [text for _, text in made.logged] == ["one", "late"]


@pytest.mark.parametrize("way", ["waiting", "tool"])
@pytest.mark.covers("A93")
def test_the_required_protocol_is_looked_at_before_each_request(remembering, way):
    def switch(city: str) -> str:
        """Book a room, and ask elsewhere from now on."""
        elsewhere()
        return "booked"

    def elsewhere():
        made.chat.with_model("claude-haiku-5-5", provider="anthropic")

    made = remembering(BOOKING, Answer(text="Booked."), required_protocol="chat_completions")
    if way == "waiting":
        made.chat.with_tools(book)
        made.turn("secret words")
        elsewhere()
        made.chat.approve("c")
        act = partial(made.do, "resume")
    else:
        made.chat.with_tools(tool(name="book")(switch))
        act = partial(made.turn, "secret words")
    with pytest.raises(ProtocolError):
        act()
    assert [one.protocol for one in made.upstream.requests] == ["chat_completions"]
    assert made.states == [PARTIAL]


def test_who_resumes_and_finds_the_thread_taken_may_try_again(remembering):
    made = remembering(BOOKING, Answer(text="Booked."), wait_s=0.02)
    made.chat.with_tools(book)
    made.turn("Book.")
    names = (made.memory._room.place,)
    assert PLACES.take(names)
    with pytest.raises(Busy):
        made.do("resume")
    PLACES.leave(names)
    assert made.memory.is_awaiting_approval
    made.chat.approve("c")
    assert made.do("resume").text == "Booked."
    assert made.states == [COMPLETE]


def test_a_turn_that_waits_for_one_which_parks_does_not_close_it(memory):
    asked, go = threading.Event(), threading.Event()

    def script(received):
        asked.set()
        assert go.wait(20)
        return BOOKING

    made = Remembering("sync", memory, script, wait_s=10)
    made.chat.with_tools(book)
    first = threading.Thread(target=made.turn, args=("Book.",))
    first.start()
    assert asked.wait(20)
    threading.Timer(0.1, go.set).start()
    with pytest.raises(PendingCalls, match="book"):
        made.turn("What is up?")
    first.join()
    assert made.memory.is_awaiting_approval
    assert made.states == [OPEN]
    made.close()


def test_an_approval_that_was_not_carried_out_is_not_one_of_a_later_call(remembering):
    made = remembering(BOOKING, BOOKING)
    made.chat.with_tools(book)
    made.turn("Book.")
    made.chat.approve("c")
    made.memory._room.bench.rise(made.memory._room.bench.turn)  # as where the turn was closed elsewhere
    made.turn("Another.")
    assert made.memory.is_awaiting_approval
    assert not any("booked" in text for _, text in made.logged)


def test_a_fork_of_a_memory_whose_chat_is_made_has_a_chat_of_its_own(remembering):
    made = remembering(BOOKING, Answer(text="elsewhere"), Answer(text="Booked."))
    memory = made.attach(lambda: made.new_chat().with_tools(book))
    made.memory = memory
    made.turn("Book.")
    fork = made.do("fork", key="f")
    made.memory = fork
    made.turn("Elsewhere.")
    made.memory = memory
    assert memory.chat is not fork.chat
    memory.chat.approve(memory.chat.pending_approvals[0])
    assert made.do("resume").text == "Booked."


def test_what_the_log_refuses_is_refused_before_anything_is_asked_or_waits(remembering, monkeypatch):
    made = remembering(*texts("1"))
    with pytest.raises(Mistake, match="200 printable"):
        made.attach(made.new_chat(), user="u" * 300)
    monkeypatch.setattr(blobs, "LIMIT_BYTES", 10)
    with down(), pytest.raises(PartTooLarge):
        made.turn("look", with_=b"\x89PNG\r\n\x1a\n" + b"x" * 100)
    assert made.bodies == []
    assert made.do("status").waiting == 0
    made.turn("more")


def test_what_turns_out_to_be_refused_for_good_stops_nothing_that_is_said_later(remembering, monkeypatch):
    made = remembering(*texts("1", "2", "3"))
    with down():
        made.turn("one")
        made.turn("two")
    waiting = made.memory._recorder.spool.waiting[0]
    monkeypatch.setattr(type(made.memory._recorder.spool), "first", property(partial(spoiled, waiting.of)))
    made.turn("three")
    assert [text for _, text in made.logged] == ["two", "2", "three", "3"]
    status = made.do("status")
    assert (status.waiting, status.refused, status.is_well) == (0, 2, False)


def spoiled(name, spool):
    """The first that waits, with an id that cannot be stored if it is of a turn of that name."""
    first = spool.waiting[0] if spool.waiting else None
    if first is None or first.of != name:
        return first
    return replace(first, turn=replace(first.turn, client_key="k" * 300))


def test_a_resumed_turn_sees_what_the_model_opened_before_and_after(remembering):
    zoom = [Answer(calls=((f"z{n}", "zoom", {"id": 0, "n": 1}),)) for n in range(4)]
    made = remembering(*texts("1"), *zoom, Answer(text="Found."))
    made.turn("one")
    program = made.memory._said("open it", None)
    sent: list[Any] = []
    driver = type(made.memory)._driver
    if made.driver == "async":
        program.close()
        return
    answer = None
    while len(made.bodies) < 3 or type(sent[-1]).__name__ != "Send":
        sent.append(program.send(answer))
        answer = None if len(made.bodies) == 3 and type(sent[-1]).__name__ == "Send" else driver._perform(sent[-1])
    program.close()
    made.again()
    assert made.do("resume").text == "Found."
    results = [[one["tool_call_id"] for one in body["messages"] if one["role"] == "tool"] for body in made.bodies]
    assert results[-1] == ["z0", "z1", "z2", "z3"] or results[-1][-2:] == ["z2", "z3"]
    assert all(len(set(one)) == len(one) for one in results)


def test_an_approved_call_runs_as_it_was_shown_and_is_logged_as_it_is_redacted(remembering):
    def hide(message):
        if message.call is not None:
            arguments = message.call.arguments.replace("Roscoff", "#")
            text = message.text.replace("Roscoff", "#")
            return replace(message, text=text, parts=(replace(message.call, arguments=arguments),))
        return replace(message, text=message.text.replace("Roscoff", "#"))

    made = remembering(BOOKING, Answer(text="Booked."))
    made.home._redactor = hide
    went = []

    def note(city: str) -> str:
        """Book a room."""
        went.append(city)
        return "done"

    made.chat.with_tools(tool(name="book", requires_approval=True)(note))
    made.turn("Book.")
    (call,) = made.chat.pending_approvals
    assert "Roscoff" in call.text
    made.chat.approve(call)
    assert made.do("resume").text == "Booked."
    assert went == ["Roscoff"]
    assert "Roscoff" not in str(made.logged)
    assert "Roscoff" not in str(made.bodies[-1]["messages"])


@pytest.mark.parametrize("streams", [False, True])
def test_an_answer_is_kept_where_a_callback_fails_after_it(remembering, streams):
    def fail(message):
        if message.role == "assistant":
            raise RuntimeError("the callback")

    made = remembering(*texts("paid for", "2"))
    made.chat.after_message(fail)
    with pytest.raises(RuntimeError, match="the callback"):
        made.stream("one") if streams else made.turn("one")
    assert made.logged == [("user", "one"), ("assistant", "paid for")]
    assert made.states == [PARTIAL]


def test_a_turn_that_fails_before_its_first_request_has_nothing_of_the_turn_before(remembering, monkeypatch):
    def look() -> str:
        """Look."""
        return "seen"

    made = remembering(Answer(calls=(("c", "look", {}),)), *texts("1", "2"))
    made.chat.with_tools(look)
    made.turn("one")
    recorder = made.memory._recorder
    with monkeypatch.context() as patched:
        patched.setattr(recorder, "prepare", lambda turn, terms: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            made.turn("two")
    assert [kind for kind, _ in made.logged] == ["user", "tool_call", "tool_result", "assistant", "user"]
    assert made.states == [COMPLETE, ABORTED]


def test_a_turn_that_waits_and_is_erased_before_it_was_recorded_is_over(remembering):
    made = remembering(BOOKING, *texts("2"), user="u")
    made.chat.with_tools(book)
    with down():
        made.turn("Book.")
        with suppress(Mistake, StoreUnavailable):
            made.home.erase(user="u")
    made.memory._recorder.forget("u")
    made.chat.approve("c")
    with pytest.raises(Erased, match="before it could be recorded"):
        made.do("resume")
    assert made.turn("more").text == "2"
