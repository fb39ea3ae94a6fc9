"""How a flat history falls into turns."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from everlog import Message, NewTurn, Origin
from everlog.log import begins, split
from everlog.messages import KINDS

KIND = {"s": "system", "u": "user", "a": "assistant", "c": "tool_call", "r": "tool_result", "n": "note"}


def said(kinds: str, authors: str = "") -> list[Message]:
    authors = authors or "-" * len(kinds)
    return [
        Message(kind=KIND[kind], text=f"{n}", author=None if author == "-" else author)  # type: ignore[arg-type]
        for n, (kind, author) in enumerate(zip(kinds, authors, strict=True))
    ]


def cut(kinds: str, authors: str = "", before: Message | None = None) -> list[str]:
    """Return the kinds of each turn, with a plus before one that goes on with the turn before."""
    by_kind = {kind: letter for letter, kind in KIND.items()}
    return [
        "+" * turn.more + "".join(by_kind[message.kind] for message in turn.messages)
        for turn in split(said(kinds, authors), before=before)
    ]


def test_a_turn_begins_with_each_user_message_that_follows_something_else():
    assert cut("ua") == ["ua"]
    assert cut("uacraua") == ["uacra", "ua"]
    assert cut("uuaua") == ["uua", "ua"]


def test_what_stands_before_the_first_user_message_is_a_turn_of_its_own():
    assert cut("aua") == ["a", "ua"]
    assert cut("sa") == ["sa"]


def test_people_who_talk_to_each_other_take_turns():
    assert cut("uuuu", "aabb") == ["uu", "uu"]
    assert cut("uuu", "aba") == ["u", "u", "u"]


def test_nothing_said_is_no_turn():
    assert cut("") == []
    assert list(split([], before=Message(kind="user", text="before"))) == []


def test_the_rest_of_a_history_goes_on_with_the_turn_it_was_cut_from():
    user = Message(kind="user", text="before")
    assert cut("a", before=user) == ["+a"]
    assert cut("aua", before=user) == ["+a", "ua"]
    assert cut("ua", before=user) == ["+ua"]
    assert cut("ua", before=Message(kind="assistant", text="before")) == ["ua"]
    assert cut("ua", "b-", before=Message(kind="user", text="before", author="a")) == ["ua"]


histories = st.lists(
    st.builds(Message, kind=st.sampled_from(KINDS), text=st.just("x"), author=st.sampled_from([None, "a", "b"]))
)


@given(history=histories, at=st.integers(0, 20))
def test_a_history_falls_into_the_same_turns_wherever_it_is_cut(history: list[Message], at: int):
    at = min(at, len(history))
    first, rest = history[:at], history[at:]
    joined: list[NewTurn] = []
    for turn in (*split(first), *split(rest, before=first[-1] if first else None)):
        if turn.more:
            joined[-1] = NewTurn(messages=joined[-1].messages + turn.messages)
        else:
            joined.append(turn)
    assert joined == list(split(history))


@given(history=histories)
def test_turns_hold_every_message_once_and_begin_where_begins_says(history: list[Message]):
    origin = Origin(session="s")
    turns = list(split(history, origin=origin))
    assert [message for turn in turns for message in turn.messages] == history
    assert all(turn.origin == origin and not turn.more for turn in turns)
    for turn in turns:
        assert not any(begins(one, other) for one, other in zip(turn.messages, turn.messages[1:], strict=False))
    for one, other in itertools.pairwise(turns):
        assert begins(one.messages[-1], other.messages[0])
