"""What a summary carries over, what yields, and how it reads."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from everlog.errors import Damaged
from everlog.memory.rolling import codec
from everlog.memory.rolling.markdown import numbered, render
from everlog.memory.rolling.outline import Additions, Closing, Item, Outline, fitted, merged, pointed, united, unsaid
from everlog.memory.rolling.toollines import lines
from everlog.messages import Call, Message, Result
from tests.unit.memory.rolling import entries

PROTECTED = ("decisions", "commitments", "uncertainties")


def item(text: str, source: int | None = 3, first: int = 0) -> Item:
    return Item(text=text, source=source, first=first)


def add(before: Outline, new: Additions, cap: int = 8_000, tools: tuple[str, ...] = ()) -> Outline:
    return merged(before, new, tools, render, cap)


FULL = Outline(
    guide=("a parser", "the lexer", "the grammar", "tests"),
    topics=("lexer", "grammar"),
    decisions=(item("Use PEG.", 2), item("No left recursion.", None)),
    commitments=(
        Item(text="Ann reviews by Friday.", source=4, first=0, closed="she did", closed_by=9),
        item("Bob asks legal.", 5),
    ),
    uncertainties=(item("Is 3.11 enough?", 6),),
    tools=("[Tool: run(tests) → 3 failed]",),
    strands=(item("lunch", 7),),
    pointers=((8, 8), (10, 14)),
    state="Half done.",
)


@pytest.mark.covers("B13", "B14", "B15", "B16", "B17", "B18", "B19", "B20", "B21")
def test_a_summary_reads_as_the_outline_of_the_original():
    assert render(FULL) == snapshot("""\
## Chat Summary

### Guide
- Topic horizon: a parser
- Last completed: the lexer
- Current task: the grammar
- Next steps: tests

### Main Topics
- lexer
- grammar

### Decisions & Results
- Use PEG. [#2]
- No left recursion.

### Open Commitments
- closed: she did [#9] — Ann reviews by Friday. [#4]
- Bob asks legal. [#5]

### Uncertainties
- Is 3.11 enough? [#6]

### Tool Calls
- [Tool: run(tests) → 3 failed]

### Omitted
- lunch [#7]
- [#8] [#10–#14]

### Current State
Half done.\
""")
    assert "- (c1) Bob asks legal. [#5]" in numbered(FULL)
    assert "(c0)" not in numbered(FULL)


@pytest.mark.covers("B13")
def test_empty_sections_are_dropped():
    assert render(Outline(state="Here.")) == "## Chat Summary\n\n### Current State\nHere."
    assert render(Outline()) == ""


@pytest.mark.covers("B23", "B24")
def test_what_is_protected_is_carried_over_and_the_rest_is_what_was_said_last():
    new = Additions(
        guide=("", "the grammar", "errors", ""),
        topics=("errors",),
        decisions=(item("Use  peg", 21), item("Errors carry spans.", 22)),
        closings=(Closing(item=1, reason="legal agreed", source=23), Closing(item=0, reason="again", source=24)),
        state="Nearly done.",
    )
    after = add(FULL, new)
    assert after.guide == ("a parser", "the grammar", "errors", "tests")
    assert after.topics == ("errors",)
    assert after.decisions == (*FULL.decisions, item("Errors carry spans.", 22)), "the same thing twice is one"
    assert after.commitments[0] == FULL.commitments[0], "what is closed stays closed as it was"
    assert after.commitments[1] == replace(FULL.commitments[1], closed="legal agreed", closed_by=23)
    assert after.uncertainties == FULL.uncertainties
    assert after.state == "Nearly done."


@pytest.mark.covers("B47")
def test_what_is_not_protected_yields_first_then_the_oldest_closed_commitment_then_the_oldest_item():
    cap = 1_000
    big = Outline(
        topics=("topic",),
        tools=("[Tool: one() → two]",),
        decisions=tuple(item(f"decision {n} " + "d" * 190, n) for n in range(3)),
        commitments=(item("promise " + "p" * 190, 0), replace(item("done " + "q" * 190, 30), closed="so it is")),
        state="s" * 300,
    )
    some = fitted(big, render, cap)
    assert (some.tools, some.topics) == ((), ())
    assert len(some.state) <= cap // 20
    assert [one.text[:4] for one in some.commitments] == ["prom"], "a closed one goes before an older open one"
    assert (some.decisions, some.pointers) == (big.decisions, ((30, 30),))
    less = fitted(big, render, 800)
    assert [one.text[:10] for one in less.decisions] == ["decision 1", "decision 2"]
    assert less.pointers == ((0, 0), (30, 30))
    assert less.commitments, "of the same message, decisions go before commitments"


@st.composite
def additions(draw: st.DrawFn, start: int) -> Additions:
    text = st.text(st.sampled_from("abcdefgh ä漢"), min_size=1, max_size=120).map(lambda said: f"{said}.")

    def some(most: int) -> tuple[Item, ...]:
        sources = st.one_of(st.none(), st.integers(start, start + 9))
        return tuple(draw(st.lists(st.builds(Item, text=text, source=sources, first=st.just(start)), max_size=most)))

    return Additions(
        guide=(draw(text), "", draw(text), ""),
        topics=tuple(draw(st.lists(text, max_size=3))),
        decisions=some(3),
        commitments=some(2),
        uncertainties=some(2),
        strands=some(2),
        state=draw(text),
    )


@pytest.mark.covers("B20", "B23", "B26", "B47")
@given(st.data(), st.sampled_from([500, 900, 2_000]), st.integers(1, 12))
def test_the_cap_holds_always_and_what_was_protected_is_there_whole_or_pointed_at(draws: Any, cap: int, rounds: int):
    """Reports 2 and 3: however often and however much is folded."""
    outline = Outline()
    known: list[Item] = []
    for n in range(rounds):
        new = draws.draw(additions(start=n * 10))
        closable = [i for i, one in enumerate(outline.commitments) if one.closed is None]
        if closable and draws.draw(st.sampled_from([True, False])):
            new = replace(new, closings=(Closing(item=closable[0], reason="done", source=n * 10),))
        outline = add(outline, new, cap, tools=(f"[Tool: t({n}) → ok]",) * 3)
        known += [one for name in PROTECTED for one in getattr(new, name)]
        assert len(render(outline)) <= cap
        there = {same(one) for name in PROTECTED for one in getattr(outline, name)}
        places: dict[str, list[int]] = {}
        for one in known:
            places.setdefault(same(one), []).append(one.pointer[0])
        for words, said in places.items():  # an item that is said twice is one
            pointed_at = any(first <= at <= last for first, last in outline.pointers for at in said)
            assert pointed_at or words in there
        assert all(last < first for (_, last), (first, _) in pairwise(outline.pointers))
        assert codec.decode(codec.encode(outline)) == outline


def same(item: Item) -> str:
    """Return what is alike in an item that is said again."""
    return " ".join(item.text.casefold().split()).rstrip(".")


def test_what_could_not_be_summarised_is_pointed_at():
    after = unsaid(FULL, 15, 21, render, 8_000)
    assert after == replace(FULL, pointers=((8, 8), (10, 20)))


def test_pointers_that_meet_are_one():
    assert united([(5, 7), (1, 1), (8, 8), (2, 3), (20, 20), (6, 6)]) == ((1, 3), (5, 8), (20, 20))
    assert pointed(((1, 3), (20, 20))) == "[#1–#3] [#20]"


@pytest.mark.parametrize("damaged", [b"", b"[]", b"{}", b'{"guide":1}', b"\xff"])
def test_a_stored_summary_that_cannot_be_read_is_damage(damaged: bytes):
    with pytest.raises(Damaged, match="cannot be read"):
        codec.decode(damaged)
    whole = codec.encode(FULL)
    assert codec.decode(whole) == FULL
    for wrong in (
        whole.replace(b'"tests"', b"3"),
        whole.replace(b",2,0,", b',"x",0,'),
        whole.replace(b"[8,8]", b"[8]"),
    ):
        assert wrong != whole
        with pytest.raises(Damaged):
            codec.decode(wrong)


@pytest.mark.covers("B19")
def test_lines_of_tool_calls_are_made_by_code_and_pair_by_id():
    def call(n: int, name: str = "look", arguments: str = '{"at":\n1}') -> Message:
        return Message(
            kind="tool_call", text=f"{name} {arguments}", parts=(Call(call_id=f"c{n}", name=name, arguments=arguments),)
        )

    def result(n: int, text: str, failed: bool = False) -> Message:
        return Message(kind="tool_result", text=text, parts=(Result(call_id=f"c{n}", failed=failed),))

    piece = entries(
        [
            call(1),
            call(2),
            result(2, "second"),
            result(1, "x" * 500),
            call(3),
            result(3, "no", failed=True),
            call(4, "zoom"),
        ]
    )
    assert lines(piece, lambda call: False) == [
        '[Tool: look({"at": 1}) → ' + "x" * 118 + " …]",
        '[Tool: look({"at": 1}) → second]',
        '[Tool: look({"at": 1}) → failed: no]',
        '[Tool: zoom({"at": 1}) → no result]',
    ]
    assert (
        lines(piece[:3], lambda call: call.name == "look")[1]
        == '[Tool: look({"at": 1}) → (recalled from this conversation)]'
    )


def test_lines_of_tools_are_the_newest_that_fit_in_their_share():
    after = add(Outline(), Additions(state="x"), 800, tools=tuple(f"[Tool: t({n}) → ok]" for n in range(50)))
    assert after.tools == tuple(f"[Tool: t({n}) → ok]" for n in range(46, 50))
