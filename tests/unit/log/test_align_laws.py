"""The laws of alignment, over prints made from invented talk.

A law that holds for any message draws from few words, so that messages repeat; one that needs to tell messages apart
numbers them.
"""

import json

from hypothesis import assume, given
from hypothesis import strategies as st

from everlog.log.align import Append, Compacted, Decision, Fork, Nothing, Sibling, align
from everlog.log.fingerprints import BLANK, ERASED, Fingerprints, Print, prints, quoted
from everlog.messages import Call, Kind, Media, Message, Result, Unknown

SECRET = b"the laws of alignment, 32 bytes."
SPEAKERS: tuple[Kind, ...] = ("user", "assistant")

few_words = st.sampled_from(
    ["", "ok", "yes", "Done.", "go on", "a sentence that is long enough to stand for itself, word by word"]
)
any_message = st.one_of(
    st.builds(Message, kind=st.sampled_from(["user", "assistant", "system", "note"]), text=few_words),
    st.builds(
        lambda n, name: Message(kind="tool_call", parts=(Call(call_id=f"c{n}", name=name, arguments="{}"),)),
        st.integers(0, 9),
        st.sampled_from(["read", "list"]),
    ),
    st.builds(
        lambda n, text: Message(kind="tool_result", text=text, parts=(Result(call_id=f"c{n}"),)),
        st.integers(0, 9),
        few_words,
    ),
)
histories = st.lists(any_message, max_size=12)


def printed(messages: list[Message]) -> list[Print]:
    return prints(SECRET, messages)


def talk(label: str, n: int, *, first: int = 0, filler: str = "") -> list[Message]:
    """Return n messages in which user and assistant take turns, no two alike."""
    return [Message(kind=SPEAKERS[i % 2], text=f"{label} {i} {filler}") for i in range(first, first + n)]


def applied(log: list[Print], incoming: list[Print], decision: Decision) -> list[Print]:
    """Return the log of the thread that goes on after a decision."""
    match decision:
        case Append(start=start):
            return log + incoming[start:]
        case Fork(at=at, start=start):
            return log[:at] + incoming[start:]
        case Nothing():
            return log
        case _:
            raise AssertionError(decision)


@given(log=histories, more=histories)
def test_what_follows_the_whole_log_is_appended_exactly(log, more):
    incoming = printed(log + more)
    assert align(printed(log), incoming) == (Append(start=len(log)) if more else Nothing(at=len(log)))


@given(log=histories)
def test_the_log_itself_is_nothing_new(log):
    assert align(printed(log), printed(log)) == Nothing(at=len(log))


@given(log=histories, stop=st.integers(0, 12))
def test_a_history_that_ends_earlier_is_nothing_new(log, stop):
    assert isinstance(align(printed(log), printed(log[:stop])), Nothing)


@given(st.data())
def test_a_message_rendered_anew_before_a_match_adds_nothing(data):
    """Whatever was said before and after it, as often as it was said, and however short the match is."""
    kinds = st.sampled_from(["user", "assistant", "tool_result"])
    spoken = st.builds(Message, kind=kinds, text=few_words.filter(bool))
    log = data.draw(st.lists(spoken, min_size=3, max_size=12))
    place = data.draw(st.integers(1, len(log) - 2))
    assume(log[place].kind != "assistant")
    anew = [*log]
    anew[place] = Message(kind=log[place].kind, text="the same message in other words")
    more = talk("more", data.draw(st.integers(0, 3)), first=len(log))
    decision = align(printed(log), printed(anew + more))
    assert decision == (Append(start=len(log)) if more else Nothing(at=len(log)))
    assert not decision.shown.whole


@given(
    n=st.integers(2, 40),
    at=st.integers(1, 39),
    more=st.lists(st.integers(0, 39) | st.sampled_from(["ok", "go on"]), min_size=1, max_size=20),
)
def test_an_edit_forks_exactly_where_it_is(n, at, more):
    """Even where the person says later what the log has too, since what the assistant answers is new."""
    at = min(at, n - 1)
    log = talk("log", n, filler="said at some length, so that it could count as a match if anything does")
    log[-1 - (n + 1) % 2] = Message(kind="user", text="ok")
    edited = Message(kind=log[at].kind, text="an edited message")
    tail = [edited]
    for i, said in enumerate(more):
        tail.append(Message(kind="assistant", text=f"a new reply {i}"))
        users = [m for m in log if m.kind == "user"]
        tail.append(users[said % len(users)] if isinstance(said, int) else Message(kind="user", text=said))
    at = next(i for i, m in enumerate(log) if i >= at or m == edited)
    assert align(printed(log), printed(log[:at] + tail)) == Fork(at=at, start=at)


@given(n=st.integers(2, 40), cut=st.integers(1, 38), more=st.integers(0, 3))
def test_a_window_of_the_newest_messages_is_found(n, cut, more):
    cut = min(cut, n - 2)
    log = talk("log", n)
    new = talk("new", more, first=n)
    decision = align(printed(log), printed(log[cut:] + new))
    assert decision == (Append(start=n - cut) if new else Nothing(at=n))
    assert decision.shown.whole == (cut == 0)


@st.composite
def told_again(draw):
    """Return a history and another that was made from it by leaving out, putting in, changing and going on."""
    log = draw(st.lists(any_message, min_size=1, max_size=12))
    other = [*log]
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(other)))
        stop = draw(st.integers(start, min(start + 3, len(other))))
        other[start:stop] = draw(st.lists(any_message, max_size=3))
    return log, other[draw(st.sampled_from([0, 0, len(other) // 2])) :]


@given(st.tuples(histories, histories) | told_again())
def test_what_was_taken_in_once_is_known_the_next_time(both):
    """Any two histories: after a decision is carried out, the same request adds nothing."""
    old, new = map(printed, both)
    decision = align(old, new)
    assume(isinstance(decision, Append | Fork | Nothing))
    assert isinstance(align(applied(old, new, decision), new), Nothing)


@given(log=histories, incoming=histories)
def test_no_decision_points_outside_the_histories(log, incoming):
    match align(printed(log), printed(incoming)):
        case Append(start=start):
            assert 0 <= start < len(incoming)
        case Fork(at=at, start=start):
            assert 0 < at < len(log)
            assert 0 < start < len(incoming)
        case Nothing(at=at):
            assert 0 <= at <= len(log)
        case Sibling():
            assert log
            assert incoming
        case Compacted():
            raise AssertionError("nothing was quoted")


@given(log=st.lists(any_message, min_size=1, max_size=12), gone=st.sets(st.integers(0, 11)), more=st.integers(0, 2))
def test_erased_entries_at_the_end_do_not_come_back(log, gone, more):
    """Erased from some place on: the same history again is nothing, and grown it brings only what grew."""
    first = min(gone, default=0) % len(log)
    stored = prints(SECRET, log, range(first, len(log)))
    new = talk("new", more, first=len(log))
    decision = align(stored, printed(log + new))
    assert decision == (Append(start=len(log)) if new else Nothing(at=len(log)))


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def turned(value: object) -> object:
    """Return the same JSON value with its keys in the opposite order and whole numbers in the other form."""
    match value:
        case dict():
            return {key: turned(value[key]) for key in reversed(value)}
        case list():
            return [turned(one) for one in value]
        case bool():
            return value
        case int():
            return float(value)
        case float() if value.is_integer() and abs(value) < 2**53:
            return int(value)
        case _:
            return value


@given(
    arguments=st.dictionaries(st.text(), values, max_size=5),
    indent=st.sampled_from([None, 0, 2]),
    escaped=st.booleans(),
)
def test_arguments_are_the_same_in_any_order_and_form(arguments, indent, escaped):
    def called(text: str, call_id: str) -> bytes:
        return prints(SECRET, [Message(kind="tool_call", parts=(Call(call_id=call_id, name="f", arguments=text),))])[
            0
        ].fp

    again = json.dumps(turned(arguments), indent=indent, ensure_ascii=escaped)
    assert called(json.dumps(arguments), "c1") == called(f" {again}\n", "c2")
    other = json.dumps({**arguments, "one more": True})
    assert "one more" in arguments or called(other, "c1") != called(again, "c1")


space = st.text(alphabet=" \t\n\r\u00a0\u2003\ufeff", max_size=5)
lines = st.lists(st.text(st.characters(exclude_characters="\r\n")), min_size=1, max_size=4)


@given(lines=lines, before=space, after=space, form=st.sampled_from(["\n", "\r\n", "\r"]))
def test_space_around_text_and_the_form_of_line_ends_do_not_matter(lines, before, after, form):
    plain, other = ("\n".join(lines), before + form.join(lines) + after)
    assert [p.fp for p in printed([Message(kind="user", text=plain)])] == [
        p.fp for p in printed([Message(kind="user", text=other)])
    ]


@given(st.lists(any_message, max_size=8), st.binary(min_size=1, max_size=64), st.binary(min_size=1, max_size=64))
def test_prints_of_two_secrets_have_nothing_in_common(messages, mine, theirs):
    assume(mine != theirs)
    open_marks = {BLANK, ERASED}

    def marks(secret: bytes) -> set[bytes]:
        found = prints(secret, messages)
        loud = {p.fp for p in found} | {p.chain for p in found if not p.quiet} | {p.call for p in found if p.call}
        return loud - open_marks

    shared = {p.chain for p in prints(mine, messages[:1]) if p.quiet}
    assert marks(mine) & marks(theirs) <= shared


parts = st.lists(
    st.builds(Media, media_type=st.just("image/png"), content=st.binary(max_size=4))
    | st.builds(
        Media, media_type=st.just("image/png"), url=st.sampled_from(["https://a.example/1", "https://a.example/2"])
    )
    | st.builds(Unknown, source=st.just("chatgpt"), value=values),
    max_size=3,
)


@given(one=st.tuples(few_words, parts), other=st.tuples(few_words, parts))
def test_messages_of_other_words_or_parts_have_other_prints(one, other):
    mine, theirs = (Message(kind="user", text=text, parts=tuple(found)) for text, found in (one, other))
    same = mine.text == theirs.text and forms(mine) == forms(theirs)
    assert (printed([mine])[0].fp == printed([theirs])[0].fp) == same


def forms(message: Message) -> list[object]:
    return [
        json.dumps(turned(turned(part.value)), sort_keys=True) if isinstance(part, Unknown) else part
        for part in message.parts
    ]


@given(messages=histories, cut=st.integers(0, 12))
def test_a_log_that_grows_message_by_message_has_the_prints_of_the_whole(messages, cut):
    whole = printed(messages)
    begun = Fingerprints(SECRET)
    first = [begun.add(message) for message in messages[:cut]]
    resumed = Fingerprints(SECRET, first[-1].chain) if first else Fingerprints(SECRET)
    assert first + [resumed.add(message) for message in messages[cut:]] == whole


@given(both=st.tuples(histories, histories) | told_again(), moved=st.lists(st.integers(0, 12), max_size=3))
def test_chains_are_equal_where_all_that_was_said_is_equal(both, moved):
    """Wherever system messages stand, and whatever they say."""

    def said(messages: list[Print]) -> list[bytes]:
        return [p.fp for p in messages if not p.quiet]

    one, other = map(list, both)
    mine, theirs = printed(one), printed(other)
    for n, place in enumerate(moved):
        one.insert(place, Message(kind="system", text=f"notice {n}"))
    again = printed(one)
    assert {p.chain for p in again} >= {p.chain for p in mine if not p.quiet}
    if again and theirs:
        assert (again[-1].chain == theirs[-1].chain) == (said(again) == said(theirs))


letters = st.text(alphabet="abcdefghijklmnopqrstuvwxyz äß 語.\n", min_size=30, max_size=120)


@given(st.data())
def test_any_run_of_200_bytes_of_a_reply_is_found_and_no_shorter_one(data):
    pieces = data.draw(st.lists(letters, min_size=12, max_size=20, unique=True))
    reply = " ".join(f"{n}{piece}" for n, piece in enumerate(pieces)).strip()
    encoded = reply.encode()
    assume(len(encoded) >= 600)
    start = data.draw(st.integers(0, len(encoded) - 240))
    run = encoded[start : start + 240].decode("utf-8", "ignore").strip()
    assume(len(run.encode()) >= 200)
    assert quoted(["THE TASK", f"THE PAST: <{run}> THE END"], ["another", reply]) == 1
    short = encoded[start : start + 190].decode("utf-8", "ignore").strip()
    assert quoted(["THE TASK", f"THE PAST: <{short}> THE END"], ["another", reply]) is None
