"""A turn that failed, or broke off, is asked for again without saying its words again."""

import pytest

from everlog import BadRequest, Cancelled, Mistake, SpendCapReached, TurnState, context
from everlog.conversation.turn.again import AGAIN
from everlog.testing.upstream import Answer, Broken, Refused
from tests.unit.conversation.remembering import PROTOCOLS
from tests.unit.conversation.test_trouble import down, texts

COMPLETE, PARTIAL, ABORTED, OPEN = TurnState.COMPLETE, TurnState.PARTIAL, TurnState.ABORTED, TurnState.OPEN

SEA = Answer(text="The sea is warm in June.")
WAYS = ("resume", "turn", "stream")


def again(made, way):
    """The words of the answer that is asked for again."""
    if way == "stream":
        return made.stream(None)
    return (made.do("resume") if way == "resume" else made.turn(None)).text


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_turn_that_failed_is_asked_for_again_and_its_words_are_recorded_once(remembering, way, restarts):
    made = remembering(*texts("1"), Refused(status=400), SEA, *texts("3"))
    made.turn("one")
    with pytest.raises(BadRequest) as failed:
        made.turn("When?")
    assert "resume()" in failed.value.__notes__[0]
    assert made.states == [COMPLETE, ABORTED]
    if restarts:
        made.again()
    assert again(made, way) == "The sea is warm in June."
    assert made.states == [COMPLETE, COMPLETE]
    assert made.logged[2:] == [("user", "When?"), ("assistant", "The sea is warm in June.")]
    assert made.bodies[2]["messages"] == made.bodies[1]["messages"]
    made.turn("Really?")
    assert made.bodies[3]["messages"][: len(made.bodies[2]["messages"])] == made.bodies[2]["messages"]
    with pytest.raises(Mistake, match="no turn waits"):
        made.do("resume")


@pytest.mark.parametrize("restarts", [False, True])
def test_whether_the_last_turn_can_go_on_is_part_of_the_status(remembering, restarts):
    made = remembering(*texts("1"), Refused(status=400), SEA)
    assert not made.do("status").can_resume
    made.turn("one")
    assert not made.do("status").can_resume
    with pytest.raises(BadRequest):
        made.turn("When?")
    if restarts:
        made.again()
    assert (made.do("status").can_resume, made.do("status").is_open) == (True, False)
    made.do("resume")
    assert not made.do("status").can_resume


def test_a_turn_that_failed_while_the_database_was_away_can_go_on(remembering):
    made = remembering(*texts("1"), Refused(status=400), SEA)
    made.turn("one")
    with down(), pytest.raises(BadRequest):
        made.turn("When?")
    assert made.do("status").waiting
    assert made.do("status").can_resume
    made.do("resume")
    assert not made.do("status").can_resume


def test_a_turn_that_fails_again_is_asked_for_once_more(remembering):
    made = remembering(Refused(status=400), Refused(status=400), SEA)
    with pytest.raises(BadRequest):
        made.turn("When?")
    with pytest.raises(BadRequest):
        made.do("resume")
    assert made.states == [ABORTED]
    made.do("resume")
    assert (made.logged, made.states) == ([("user", "When?"), ("assistant", SEA.text)], [COMPLETE])


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_answer_that_broke_off_stays_as_it_is_and_a_whole_one_follows(remembering, protocol, restarts):
    begun = Broken(answer=SEA, events=8 if protocol == "responses" else 4)
    made = remembering(begun, SEA, *texts("Yes."), protocol=protocol)
    with pytest.raises(Exception, match=r"error|broke|failed"):
        made.stream("When?")
    words = made.logged[1][1]
    if restarts:
        made.again()
    assert again(made, "resume") == SEA.text
    assert made.logged == [("user", "When?"), ("assistant", words), ("assistant", SEA.text)]
    assert made.states == [COMPLETE]
    turns = "input" if protocol == "responses" else "messages"
    assert AGAIN in str(made.bodies[1][turns][-1])
    made.turn("Really?")
    sent = made.bodies[1][turns]
    if protocol != "anthropic":  # marks move there
        assert made.bodies[2][turns][: len(sent)] == sent


def test_a_tool_that_raised_runs_again(remembering):
    tries = []

    def weather(city: str) -> str:
        """Tell the weather."""
        tries.append(city)
        if len(tries) == 1:
            raise RuntimeError("no network")
        return "sunny"

    made = remembering(Answer(calls=(("c1", "weather", {"city": "Roscoff"}),)), *texts("Sunny."))
    made.chat.with_tools(weather)
    with pytest.raises(RuntimeError, match="no network") as failed:
        made.turn("Weather?")
    assert "resume()" in failed.value.__notes__[0]
    assert made.do("resume").text == "Sunny."
    assert [kind for kind, _ in made.logged] == ["user", "tool_call", "tool_result", "assistant"]
    assert made.states == [COMPLETE]


def test_a_turn_that_was_cancelled_or_cut_by_its_length_is_asked_for_again(remembering):
    made = remembering(SEA, SEA, Answer(text="The tide", finish="length"), SEA)
    with pytest.raises(Cancelled):
        made.turn("When?", on_chunk=lambda chunk: made.memory.cancel())
    made.do("resume")
    made.turn("And the tide?")
    assert made.states == [COMPLETE, PARTIAL]
    made.do("resume")
    assert made.states == [COMPLETE, COMPLETE]
    assert [text for kind, text in made.logged if kind == "user"] == ["When?", "And the tide?"]


def status_of_request(made):
    """What became of the newest request, as `everlog context` says it."""
    thread = made.memory.thread.id
    return made.home.store.read(made.home.name, lambda unit: context.request(unit, thread)).status


def test_what_was_stopped_by_a_spend_cap_goes_on_with_a_higher_one(remembering):
    made = remembering(SEA, spend_cap_usd=0.0)
    with pytest.raises(SpendCapReached):
        made.turn("When?")
    assert status_of_request(made) == "not sent"
    made.again(spend_cap_usd=None)
    assert made.do("resume").text == SEA.text
    assert status_of_request(made) == "answered"
    assert made.logged == [("user", "When?"), ("assistant", SEA.text)]


def test_only_the_last_turn_is_asked_for_again(remembering):
    made = remembering(Refused(status=400), *texts("2"))
    with pytest.raises(BadRequest):
        made.turn("one")
    made.turn("two")
    with pytest.raises(Mistake, match="no turn waits to go on, and none broke off"):
        made.do("resume")
    assert made.states == [ABORTED, COMPLETE]


def test_a_turn_is_asked_for_again_also_while_the_database_is_away(remembering):
    made = remembering(*texts("1"), Refused(status=400), SEA)
    made.turn("one")
    with pytest.raises(BadRequest):
        made.turn("When?")
    with down():
        assert made.do("resume").text == SEA.text
    made.do("close")
    assert made.states == [COMPLETE, COMPLETE]
    assert made.logged[2:] == [("user", "When?"), ("assistant", SEA.text)]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("kind", ["note", "system"])
def test_a_note_to_a_turn_that_failed_does_not_end_it(remembering, kind, restarts):
    made = remembering(Refused(status=400), SEA)
    with pytest.raises(BadRequest):
        made.turn("When?")
    made.memory.thread.append(kind, "the model was away")
    assert made.states == [ABORTED]
    if restarts:
        made.again()
    assert made.do("resume").text == SEA.text
    assert made.states == [COMPLETE]
    assert [kind for kind, _ in made.logged] == ["user", kind, "assistant"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_turn_that_was_erased_while_it_failed_is_not_asked_for_again(remembering, restarts):
    def erased(received):
        made.home.erase(user="u")
        return Refused(status=400)

    made = remembering(erased, user="u")
    with pytest.raises(BadRequest):
        made.turn("When?")
    assert made.states == [TurnState.ERASED]
    if restarts:
        made.again()
    with pytest.raises(Mistake, match="no turn waits"):
        made.do("resume")
    assert len(made.bodies) == 1
