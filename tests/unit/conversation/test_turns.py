"""Turns: what is recorded, what is sent, and what remains when one does not end well. Each test runs by both drivers."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from everlog import (
    BadRequest,
    Cancelled,
    ContextTooLong,
    Erased,
    Everlog,
    Media,
    Mistake,
    PendingCalls,
    TurnState,
    UnknownThread,
    tool,
)
from everlog.context import rows
from everlog.testing.upstream import Answer, Broken, Cut, Refused, Stalled
from tests.unit.conversation.remembering import PROTOCOLS, numbered

COMPLETE, PARTIAL, ABORTED, OPEN = TurnState.COMPLETE, TurnState.PARTIAL, TurnState.ABORTED, TurnState.OPEN


def prompts(made):
    return [body["messages"] for body in made.bodies]


@pytest.mark.covers("A20", "A21", "A25")
def test_a_turn_records_what_the_user_says_and_the_reply(remembering):
    made = remembering(Answer(text="Hello."))
    assert made.turn("Hi").text == "Hello."
    assert made.logged == [("user", "Hi"), ("assistant", "Hello.")]
    assert made.states == [COMPLETE]
    assert [entry.message.model for entry in made.memory.thread.entries()] == [None, "m-1"]


def test_the_next_turn_is_shown_the_one_before(remembering):
    made = remembering(Answer(text="Hello."), Answer(text="You said hi."))
    made.turn("Hi")
    made.turn("What did I say?")
    assert [one["content"] for one in prompts(made)[1][2:]] == ["Hi", "Hello.", "What did I say?"]


@pytest.mark.covers("A26", "A27", "A53")
def test_the_model_is_told_of_its_memory_and_given_its_tools(remembering):
    made = remembering(Answer(text="Hello."))
    made.turn()
    body = made.bodies[0]
    assert [one["role"] for one in body["messages"]] == ["system", "system", "user"]
    assert body["messages"][0]["content"] == "You are terse."
    assert "<chat>" in body["messages"][1]["content"]
    assert [one["function"]["name"] for one in body["tools"]] == ["zoom", "read", "date"]


@pytest.mark.covers("A47", "A24")
def test_words_that_were_said_in_the_chat_itself_are_not_sent(remembering):
    made = remembering(Answer(text="Hello."))
    made.chat.add_message({"role": "user", "content": "of before"})
    made.turn()
    assert "of before" not in str(made.bodies[0])
    assert [one.text for one in made.chat.messages][-2:] == ["Hi", "Hello."]


@pytest.mark.covers("report 1")
def test_instructions_and_tools_of_the_chat_are_those_of_the_moment(remembering):
    made = remembering(Answer(text="1"), Answer(text="2"))
    made.turn()
    made.chat.with_instructions("You sing.").with_tools(weather)
    made.turn()
    assert prompts(made)[1][0]["content"] == "You sing."
    assert [one["role"] for one in prompts(made)[1]].count("system") == 2
    assert [one["function"]["name"] for one in made.bodies[1]["tools"]] == ["weather", "zoom", "read", "date"]
    assert "zoom" not in made.chat.tools


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"Sun in {city}."


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_turn_goes_on_from_the_log_after_a_restart_in_every_protocol(remembering, protocol):
    made = remembering(
        Answer(text="First."), Answer(text="Second."), Answer(text="Third."), protocol=protocol, budget=4_000
    )
    made.turn("one")
    made.turn("two")
    made.again()
    made.turn("three")
    field = "input" if protocol == "responses" else "messages"
    before, after = (str(body[field]) for body in made.bodies[1:])
    assert [word in after for word in ("one", "First.", "two", "Second.", "three")] == [True] * 5
    assert [word in before for word in ("one", "First.", "two", "three")] == [True, True, True, False]


def test_requests_of_an_epoch_begin_with_the_one_before_also_after_a_restart(remembering):
    made = remembering(numbered, budget=1_500)
    epochs = []
    for n in range(14):
        if n % 4 == 3:
            made.again()
        made.turn(f"number {n}")
        epochs.append(made.do("status").epoch)
    assert epochs[-1] >= 2
    for n, (before, after) in enumerate(pairwise(prompts(made))):
        if epochs[n] == epochs[n + 1]:
            assert after[: len(before)] == before
    assert all(context_bytes(made, number) <= 1_500 for number in range(len(made.bodies)))


def context_bytes(made, number):
    """Bytes of all that is memory's in a request: all but instructions and the newest message."""
    return sum(len(one["content"].encode()) for one in prompts(made)[number][2:-1])


@pytest.mark.covers("tree fault 19")
def test_tools_run_and_their_calls_and_results_are_entries(remembering):
    made = remembering(Answer(text="I look.", calls=(("c1", "weather", {"city": "Roscoff"}),)), Answer(text="Sunny."))
    made.chat.with_tools(weather)
    assert made.turn("Weather?").text == "Sunny."
    assert made.logged == [
        ("user", "Weather?"),
        ("assistant", "I look."),
        ("tool_call", 'weather {"city":"Roscoff"}'),
        ("tool_result", "Sun in Roscoff."),
        ("assistant", "Sunny."),
    ]
    assert made.states == [COMPLETE]
    first, second = prompts(made)
    assert second[: len(first)] == first
    assert [one["role"] for one in second[len(first) :]] == ["assistant", "tool"]


@pytest.mark.covers("report 34", "report 35")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_calls_of_memorys_own_tools_are_sent_again_but_are_no_entries(remembering, protocol):
    calls: Any = (("z1", "zoom", {"id": 0, "n": 1}), ("w1", "weather", {"city": "Roscoff"}))
    made = remembering(
        Answer(text="Hello."),
        Answer(calls=calls[:1]),
        Answer(text="And now.", calls=calls, thinking="Hm."),
        Answer(text="Done."),
        Answer(text="Later."),
        protocol=protocol,
    )
    made.chat.with_tools(weather)
    made.turn("remember the lighthouse")
    made.turn("What was it?")
    assert [kind for kind, _ in made.logged] == [
        *("user", "assistant", "user", "assistant", "tool_call", "tool_result", "assistant")
    ]
    made.again()
    made.chat.with_tools(weather)
    made.turn("More?")
    field = "input" if protocol == "responses" else "messages"
    bodies = [without_marks(body[field]) for body in made.bodies]
    for before, after in pairwise(bodies[1:]):
        assert after[: len(before)] == before
    assert str(bodies[-1]).count("'zoom'") == 2
    assert str(bodies[-1]).count("remember the lighthouse") >= 2


def without_marks(value):
    if isinstance(value, dict):
        return {name: without_marks(one) for name, one in value.items() if name != "cache_control"}
    return [without_marks(one) for one in value] if isinstance(value, list) else value


def test_attachments_are_recorded_and_sent(remembering):
    made = remembering(Answer(text="A dot."), Answer(text="A dot again."), budget=20_000)
    made.turn("What is it?", with_=Media(media_type="image/png", content=b"\x89PNG\r\n\x1a\n" + b"0" * 40))
    made.again()
    made.turn("Look again.")
    assert [len(entry.message.parts) for entry in made.memory.thread.entries()] == [1, 0, 0, 0]
    assert all("image_url" in str(prompt) for prompt in prompts(made))


def test_a_failure_keeps_the_users_message_and_the_next_turn_works(remembering):
    made = remembering(Refused(status=400), Answer(text="Hello."))
    with pytest.raises(BadRequest):
        made.turn("one")
    assert (made.logged, made.states) == ([("user", "one")], [ABORTED])
    made.turn("two")
    assert made.states == [ABORTED, COMPLETE]
    assert [one["content"] for one in prompts(made)[1][2:]] == ["one", "two"]


def test_a_stream_that_breaks_keeps_the_words_that_came(remembering):
    made = remembering(Broken(answer=Answer(text="The sea is warm in June."), events=4), Answer(text="Yes."))
    with pytest.raises(Exception, match=r"error|broke|failed"):
        made.stream("When?")
    assert made.states == [PARTIAL]
    kind, words = made.logged[-1]
    assert kind == "assistant"
    assert words
    assert "The sea is warm in June.".startswith(words)
    assert made.turn("Really?").text == "Yes."


@pytest.mark.covers("A25")
def test_a_stream_that_is_given_up_keeps_the_words_that_came(remembering):
    made = remembering(Answer(text="The sea is warm in June."), Answer(text="Yes."))
    words = made.stream("When?", pieces=3)
    assert made.logged == [("user", "When?"), ("assistant", words)]
    assert made.states == [PARTIAL]
    assert made.turn("Really?").text == "Yes."


def test_a_turn_that_is_cancelled_keeps_what_came(remembering):
    made = remembering(Answer(text="The sea is warm in June."), Answer(text="Yes."))
    with pytest.raises(Cancelled):
        made.turn("When?", on_chunk=lambda chunk: made.memory.cancel())
    assert made.states == [PARTIAL]
    assert made.logged[-1] == ("assistant", "The ")
    assert made.turn("Really?").text == "Yes."


def test_a_tool_that_raises_ends_the_turn_and_keeps_the_call(remembering):
    def broken(city: str) -> str:
        """Tell the weather."""
        raise RuntimeError("no network")

    made = remembering(
        Answer(calls=(("c1", "broken", {"city": "Roscoff"}),)), Answer(text="I could not look."), Answer(text="No.")
    )
    made.chat.with_tools(broken)
    with pytest.raises(RuntimeError, match="no network"):
        made.turn("Weather?")
    assert made.states == [PARTIAL]
    assert [kind for kind, _ in made.logged] == ["user", "tool_call"]
    assert made.turn("And now?").text == "I could not look."


def test_an_answer_that_is_cut_by_its_length_is_partial(remembering):
    made = remembering(Answer(text="The sea is", finish="length"))
    made.turn("When?")
    assert made.states == [PARTIAL]


def test_a_call_that_waits_for_approval_leaves_the_turn_open_until_it_goes_on(remembering):
    made = remembering(Answer(text="I book.", calls=(("b1", "book", {"city": "Roscoff"}),)), Answer(text="Booked."))
    made.chat.with_tools(tool(requires_approval=True)(book))
    reply = made.turn("Book it.")
    assert [call.name for call in reply.calls] == ["book"]
    assert made.memory.is_awaiting_approval
    assert made.states == [OPEN]
    with pytest.raises(PendingCalls, match="book"):
        made.turn("Something else.")
    made.chat.approve("b1")
    assert made.do("resume").text == "Booked."
    assert made.states == [COMPLETE]
    assert [kind for kind, _ in made.logged] == ["user", "assistant", "tool_call", "tool_result", "assistant"]


def book(city: str) -> str:
    """Book a train."""
    return f"A train to {city}."


def test_a_turn_that_waited_goes_on_after_a_restart(remembering):
    made = remembering(Answer(text="I book.", calls=(("b1", "book", {"city": "Roscoff"}),)), Answer(text="Booked."))
    made.chat.with_tools(tool(requires_approval=True)(book))
    made.turn("Book it.")
    made.again()
    made.chat.with_tools(tool(requires_approval=True)(book))
    assert made.do("resume").calls
    made.chat.approve("b1")
    assert made.turn(None).text == "Booked."
    assert made.states == [COMPLETE]


def test_calls_that_wait_are_seen_by_a_process_that_did_not_begin_their_turn(remembering):
    calls: Any = (("b1", "book", {"city": "Roscoff"}), ("b2", "book", {"city": "Brest"}), ("f", "free", {}))
    made = remembering(Answer(text="I book.", calls=calls), Answer(text="Booked."))

    def free() -> str:
        """Cost nothing."""
        return "free"

    made.chat.with_tools(tool(requires_approval=True)(book), free)
    assert (made.do("pending"), made.do("status").is_open) == ([], False)
    made.turn("Book it.")
    there = made.do("pending")
    made.again()
    made.chat.with_tools(tool(requires_approval=True)(book), free)
    assert [(call.id, call.arguments) for call in there] == [("b1", {"city": "Roscoff"}), ("b2", {"city": "Brest"})]
    assert [(call.id, call.arguments) for call in made.do("pending")] == [(call.id, call.arguments) for call in there]
    assert made.do("status").is_open
    for call in made.do("pending"):
        made.chat.approve(call)
    assert made.do("resume").text == "Booked."
    assert (made.do("pending"), made.do("status").is_open) == ([], False)


def test_calls_of_a_turn_that_is_under_way_wait_for_nobody(remembering):
    seen: list[Any] = []

    def look() -> str:
        """Look."""
        other = made.attach(made.new_chat())
        seen.append(other._pending())
        seen.append(other._status().is_open)
        return "seen"

    made = remembering(Answer(calls=(("c", "look", {}),)), Answer(text="Yes."))
    made.chat.with_tools(look)
    made.turn()
    assert seen == [[], False]


def test_before_the_first_turn_there_is_an_empty_memory_to_look_at_and_nothing_to_fork(remembering):
    made = remembering(Answer(text="Hello."))
    context = made.do("context")
    assert (context.memory_bytes, context.hidden) == (0, 0)
    assert [one.messages[0].kind for one in context.said] == ["system", "system"]
    assert made.memory.tree.view(300) == "<chat>\n</chat>"
    assert made.memory.tree.view_lines(300) == []
    assert made.memory.tree.is_current
    with pytest.raises(UnknownThread, match="nothing to open"):
        made.memory.tree.zoom(0)
    with pytest.raises(UnknownThread, match="nothing to fork; attach to 'f'"):
        made.do("fork", key="f")
    assert made.home.keys() == {}
    made.turn()
    assert made.do("context").said[2].messages[0].text == "Hi"
    assert "Hello." in made.memory.tree.view(300)


def test_nothing_goes_on_where_no_turn_waits(remembering):
    made = remembering(Answer(text="Hello."))
    with pytest.raises(Mistake, match="no turn waits"):
        made.do("resume")
    made.turn()
    with pytest.raises(Mistake, match="no turn waits"):
        made.do("resume")


def test_a_turn_that_was_left_open_is_closed_by_the_next(remembering):
    made = remembering(Answer(calls=(("b1", "book", {"city": "Roscoff"}),)), Answer(text="Hello."))
    made.chat.with_tools(tool(requires_approval=True)(book))
    made.turn("Book it.")
    made.again()
    made.turn("Hi")
    assert made.states == [PARTIAL, COMPLETE]


def test_a_prompt_that_the_provider_finds_too_long_is_made_shorter_once(remembering):
    too_long = Refused(status=400, message="maximum context length is 8192 tokens")
    made = remembering(*[Answer(text="word " * 40)] * 6, too_long, Answer(text="Short."), budget=3_000)
    for n in range(6):
        made.turn(f"number {n}")
    assert made.turn("Now?").text == "Short."
    assert made.do("status").reason == "estimate"
    assert len(str(prompts(made)[-1])) < len(str(prompts(made)[-2]))
    assert made.states == [COMPLETE] * 7


def test_each_request_has_a_report_and_what_became_of_it(remembering, memory):
    made = remembering(Answer(text="Hello.", input_tokens=50, output_tokens=7), Refused(status=400))
    made.turn("one")
    with pytest.raises(BadRequest):
        made.turn("two")
    thread = made.memory.thread.id
    found = memory.store.read(memory.name, lambda unit: unit.rows(rows.REQUESTS, thread=thread, limit=10))
    assert [(row[8], row[9], row[12]) for row in reversed(found)] == [(50, 7, 1), (None, None, 2)]


def test_the_cut_stream_is_no_reason_to_lose_the_turn(remembering):
    made = remembering(Cut(answer=Answer(text="The sea is warm."), events=3), Answer(text="Yes."))
    with pytest.raises(Exception, match=r"ended before|broke"):
        made.stream("When?")
    assert made.states == [PARTIAL]
    made.turn("Really?")
    assert made.states == [PARTIAL, COMPLETE]


def redacting(made, memory, act):
    """The same memory in a log that redacts."""
    home = Everlog(memory.store, redactor=act)
    made.memory = home.attach(made.chat, **made.wishes)
    return home


def test_what_is_redacted_is_stored_nowhere_and_not_sent_again(remembering, memory):
    secret = Answer(text="Your number is 4711.", thinking="It is 4711.", calls=(("z", "zoom", {"id": 0}),))
    made = remembering(secret, Answer(text="4711, as I said."), Answer(text="Yes."))
    redacting(made, memory, lambda one: replace(one, text=one.text.replace("4711", "####")))
    made.turn("Mine is 4711.")
    made.turn("Sure?")
    assert [text for _, text in made.logged] == [
        *("Mine is ####.", "Your number is ####.", "####, as I said.", "Sure?", "Yes.")
    ]
    assert "4711" not in str(made.bodies[-1]["messages"])


def test_a_redactor_that_fails_ends_the_turn_and_the_thread_goes_on(remembering, memory):
    def redact(message):
        if "secret" in message.text:
            raise RuntimeError("cannot redact")
        return message

    made = remembering(Answer(text="a secret"), Answer(text="Fine."))
    redacting(made, memory, redact)
    with pytest.raises(RuntimeError, match="cannot redact"):
        made.turn("a secret")
    assert not made.bodies
    with pytest.raises(RuntimeError, match="cannot redact"):
        made.turn("one")
    assert made.states == [ABORTED]
    assert made.turn("two").text == "Fine."
    assert [text for _, text in made.logged] == ["one", "two", "Fine."]


def test_nothing_is_spent_on_a_thread_in_which_nothing_was_said(remembering):
    assert remembering().do("cost").tokens == 0


@pytest.mark.covers("tree fault 79")
def test_a_turn_that_is_cancelled_while_it_waits_keeps_the_users_words_once(remembering):
    def script(received):
        if len(made.bodies) > 1:
            return Answer(text="Yes.")
        made.memory.cancel(hard=True)
        return Stalled(answer=Answer(text="never"), events=0)

    made = remembering(script)
    with pytest.raises(Cancelled):
        made.turn("When?")
    assert (made.logged, made.states) == ([("user", "When?")], [ABORTED])
    assert made.turn("Really?").text == "Yes."


@pytest.mark.covers("report 5")
def test_a_prompt_that_is_too_long_twice_is_an_error_once_and_the_thread_goes_on(remembering):
    too_long = Refused(status=400, message="maximum context length is 8192 tokens")
    made = remembering(too_long, too_long, Answer(text="Yes."))
    with pytest.raises(ContextTooLong):
        made.turn("one")
    assert len(made.bodies) == 2
    assert (made.logged, made.states) == ([("user", "one")], [ABORTED])
    assert made.turn("two").text == "Yes."
    assert made.states == [ABORTED, COMPLETE]


def test_a_tool_may_add_a_note_to_the_thread_while_a_turn_runs(remembering):
    def note(words: str) -> str:
        """Write something down."""
        made.memory.thread.append("note", words)
        return "noted"

    calls: Any = (("n", "note", {"words": "mind the tide"}), ("z", "zoom", {"id": 0}))
    made = remembering(
        Answer(text="I note it.", calls=calls, thinking="Hm."), Answer(text="Done."), Answer(text="Yes.")
    )
    made.chat.with_tools(note)
    made.turn("Note it.")
    made.again()
    made.chat.with_tools(note)
    made.turn("Did you?")
    assert [kind for kind, _ in made.logged] == [
        *("user", "assistant", "tool_call", "note", "tool_result", "assistant", "user", "assistant")
    ]
    last = prompts(made)[-1]
    assert [one.get("tool_call_id") for one in last if one["role"] == "tool"] == ["z", "n"]


def test_a_memory_of_a_thread_that_was_erased_is_over(remembering):
    made = remembering(Answer(text="1"), Answer(text="2"))
    made.turn("one")
    made.home.erase(thread="k")
    with pytest.raises(Erased):
        made.turn("two")
    made.again()
    made.turn("two")
    assert [text for _, text in made.logged] == ["two", "2"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_note_ends_no_turn_that_waits(remembering, restarts):
    made = remembering(Answer(calls=(("b1", "book", {"city": "Roscoff"}),)), Answer(text="Booked."))
    made.chat.with_tools(tool(requires_approval=True)(book))
    made.turn("Book it.")
    made.memory.thread.append("note", "Ann looks at it")
    assert made.states == [OPEN]
    if restarts:
        made.again()
        made.chat.with_tools(tool(requires_approval=True)(book))
    made.chat.approve("b1")
    assert made.do("resume").text == "Booked."
    made.memory.thread.append("note", "Ann has seen it")
    assert made.states == [COMPLETE]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_somebody_says_to_the_thread_while_a_turn_runs_stops_it_not(remembering, protocol, restarts):
    def relay(words: str) -> str:
        """Write down what somebody else said."""
        made.memory.thread.append("user", words, author="Ann")
        return "written"

    calls: Any = (("n", "relay", {"words": "I come too"}),)
    made = remembering(
        Answer(text="I write.", calls=calls, thinking="Hm."),
        *(Answer(text="Done."), Answer(text="Yes.")),
        protocol=protocol,
        user="u",
    )
    made.chat.with_tools(relay)
    assert made.turn("Write.").text == "Done."
    if restarts:
        made.again()
        made.chat.with_tools(relay)
    assert made.turn("Did you?").text == "Yes."
    assert [kind for kind, _ in made.logged] == [
        *("user", "assistant", "tool_call", "user", "tool_result", "assistant", "user", "assistant")
    ]
    assert made.states == [PARTIAL, COMPLETE, COMPLETE, COMPLETE]
    made.home.erase(user="u")
    assert [text for _, text in made.logged if text] == ["I come too"]


@pytest.mark.parametrize("streams", [False, True])
def test_an_answer_to_a_thread_that_somebody_else_spoke_in_is_recorded(remembering, streams):
    made = remembering(Answer(text="The sea is warm."), Answer(text="Yes."))

    def told(chunk):
        if len(made.logged) == 1:
            made.memory.thread.append("user", "I come too")

    made.turn("When?", on_chunk=told) if streams else made.chat.before_request(told) and made.turn("When?")
    assert made.logged == [("user", "When?"), ("user", "I come too"), ("assistant", "The sea is warm.")]
    assert made.states == [COMPLETE, COMPLETE, COMPLETE]
    made.turn("Really?")
    assert made.states[-1] == COMPLETE
    assert [part.faults for part in made.memory.thread.verify() if part.faults] == []
