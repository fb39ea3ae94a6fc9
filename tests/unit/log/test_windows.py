"""What is told by a thread's end alone is what alignment says after a look at all of it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from everlog.log import Append, Nothing, align, prints, window
from everlog.messages import Message

SECRET = b"a key of the windows of a thread"
LONG = "and so on, as it goes with such talks, which are long and never quite end "


def user(text: str) -> Message:
    return Message(kind="user", text=text)


def reply(text: str) -> Message:
    return Message(kind="assistant", text=text)


def talk(turns: int) -> list[Message]:
    return [one for n in range(turns) for one in (user(f"Question {n}?"), reply(f"Answer {n}, {LONG}"))]


def told(log: list[Message], history: list[Message], end: int = 40) -> int | None:
    all_of_it = prints(SECRET, log)
    return window(all_of_it[:8], all_of_it[-end:], prints(SECRET, history))


def test_the_last_turns_and_a_new_question_are_a_window():
    log = talk(50)
    assert told(log, [*log[-6:], user("And now?")]) == 6
    assert told(log, log[-6:]) == 6


def test_a_summary_may_stand_before_it():
    log = talk(50)
    assert told(log, [user("A summary."), *log[-4:], user("And now?")]) == 5


def test_where_it_is_not_plain_nothing_is_said():
    log = talk(50)
    edited = [*log[-6:-2], user("Another question?"), log[-1], user("And now?")]
    for history in (
        [user("And now?")],
        [*log[:6], user("And now?")],
        [*log[-8:-2], user("And now?")],
        [reply("Words of nobody."), *log[-4:], user("And now?")],
        [user("1"), user("2"), user("3"), *log[-4:], user("And now?")],
        edited[:2],
        [log[-1], user("And now?")],
    ):
        assert told(log, history) is None


USERS = st.sampled_from(["Yes", "No", "Go on", "Why?"]).map(user)
REPLIES = st.sampled_from([f"{word}, {LONG}" for word in ("Well", "Then", "So")] + ["ok"]).map(reply)
TALKS = st.lists(st.tuples(USERS, st.booleans()), min_size=2, max_size=9).map(
    lambda turns: [
        one
        for n, (asked, is_long) in enumerate(turns)
        for one in (asked, reply(f"Answer {n}, {LONG}" if is_long else "ok"))
    ]
)
"""Long answers are told once, as in any talk; where even they repeat, alignment says nothing."""


@settings(max_examples=300)
@given(
    log=TALKS,
    size=st.integers(1, 12),
    changed=st.none() | st.tuples(st.integers(0, 11), USERS | REPLIES),
    more=st.lists(USERS, max_size=2),
    front=st.lists(st.just(user("Summary")), max_size=2),
)
def test_what_is_said_is_what_alignment_says(log, size, changed, more, front):
    history = [*front, *log[-size:], *more]
    if changed is not None:
        history[changed[0] % len(history)] = changed[1]
    start = told(log, history)
    if start is not None:
        decision = align(prints(SECRET, log), prints(SECRET, history))
        assert decision in (Append(start=start), Nothing(at=len(log)))
