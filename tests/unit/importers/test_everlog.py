"""Everlog's own export comes in as what it was: threads, turns, origins, forks, erasures."""

from datetime import datetime
from pathlib import Path

import pytest

from everlog.importers import Problem
from everlog.jsonl import Transcript, lines
from everlog.messages import Call, Entry, Media, Message, Origin, Result, Unknown
from tests.unit.importers.saying import PNG, SAMPLES, said, take

THREADS = SAMPLES / "everlog" / "threads.jsonl"


def entry(i: int, message: Message, turn: int = 0, origin: Origin | None = None, *, erased: bool = False) -> Entry:
    assert message.at is not None
    return Entry(i=i, turn=turn, message=message, at=message.at, origin=origin or Origin(), erased=erased)


def transcript(key: str, *entries: Entry, title: str | None = None, parent: str | None = None, shared: int = 0):
    return Transcript(
        key=key,
        title=title,
        messages=tuple(each.message for each in entries),
        parent=parent,
        shared=shared,
        origin=entries[0].origin,
        entries=entries,
    )


def test_threads_come_in_as_they_were_and_unnamed_ones_are_named_after_the_file():
    taken = take(THREADS)
    words = "Look: ⛵ and a lone half \ud83d"
    assert taken.format == "everlog"
    assert taken.found == [
        transcript(
            "boat",
            entry(
                0,
                said(
                    "user",
                    words,
                    at="2026-01-05T09:12:00.000001Z",
                    id="m1",
                    author="Ada",
                    parts=(
                        Media(media_type="image/png", content=PNG, name="a.png", offset=5),
                        Media(media_type="image/jpeg", url="https://pictures.example/a.jpg"),
                        Unknown(source="chatgpt", value={"x": [1.5, None, True]}, offset=2),
                    ),
                    meta={"lang": "en"},
                ),
                origin=Origin(session="s1", user="u1"),
            ),
            entry(
                1,
                said(
                    "tool_call",
                    'look {"n":1}',
                    at="2026-01-05T09:12:01Z",
                    model="some-model",
                    parts=(Call(call_id="c1", name="look", arguments='{"n":1}'),),
                ),
            ),
            entry(
                2,
                said(
                    "tool_result",
                    "a boat\x00",
                    at="2026-01-05T09:12:02Z",
                    parts=(Result(call_id="c1", failed=True),),
                ),
            ),
            entry(3, said("assistant", "", at="2026-01-05T09:12:03Z"), erased=True),
            title="The boat",
        ),
        transcript(
            "boat-2",
            entry(0, said("user", words, at="2026-01-05T09:12:00.000001Z", author="Ada")),
            entry(1, said("assistant", "Which boat?", at="2026-01-05T09:30:00Z")),
            parent="boat",
            shared=1,
        ),
        transcript(
            "everlog:threads",
            entry(0, said("user", "No turn, no name.", at="2026-01-06T08:12:00Z"), turn=0),
            entry(1, said("assistant", "Still a thread.", at="2026-01-06T08:12:05Z"), turn=0),
            entry(2, said("user", "Two turns.", at="2026-01-06T08:13:00Z"), turn=1),
        ),
    ]
    assert taken.counts() == {
        "unknown": {},
        "skipped": {},
        "assumed": {"time without zone, taken as UTC": 1},
    }


def thread(key: str | None, count: int) -> list[bytes]:
    at = datetime.fromisoformat("2026-01-05T09:12:00Z")
    entries = [Entry(i=i, turn=i, message=Message(kind="user", text=f"{key} {i}", at=at), at=at) for i in range(count)]
    return list(lines(entries, key=key))


def outcome(path: Path, *pieces: list[bytes]) -> list[object]:
    path.write_bytes(b"".join(b"".join(piece) for piece in pieces))
    return [found if isinstance(found, Problem) else (found.key, len(found.messages)) for found in take(path).found]


def test_a_thread_ends_where_another_one_is_named_or_begins(tmp_path: Path):
    named = [replaced.replace(b'{"i"', b'{"thread":"b","i"') for replaced in thread("b", 3)]
    assert outcome(tmp_path / "x.jsonl", thread("a", 2), named, thread(None, 1), thread(None, 2)) == [
        ("a", 2),
        ("b", 3),
        ("everlog:x", 1),
        ("everlog:x:2", 2),
    ]


HOLE = "a thread of it has a hole: position {} is missing"


def test_a_thread_with_a_hole_is_a_problem_and_the_next_one_comes_in(tmp_path: Path):
    a, b = thread("a", 4), thread("b", 2)
    assert outcome(tmp_path / "x.jsonl", a[:2], a[3:], b) == [
        Problem(where="x.jsonl", reason=HOLE.format(2), position=1),
        ("b", 2),
    ]


@pytest.mark.parametrize(
    "broken", [b'{"i":0\n', b'{"i":-1,"kind":"user","author":null,"text":"","time":"2026-01-01"}\n']
)
def test_a_line_that_cannot_be_read_costs_its_own_thread_only(broken: bytes, tmp_path: Path):
    a, b = thread("a", 3), thread("b", 3)
    reason = {7: "it is not JSON at character 8"}.get(len(broken), "i is not a number of at least 0")
    problem = Problem(where="x.jsonl", reason=reason, position=4)
    missing = Problem(where="x.jsonl", reason=HOLE.format(0), position=5)
    assert outcome(tmp_path / "x.jsonl", a, [broken], b[1:]) == [problem, ("a", 3), missing]
    inside = Problem(where="x.jsonl", reason=reason, position=2)
    assert outcome(tmp_path / "x.jsonl", a[:1], [broken], a[2:], b) == [
        inside,
        Problem(where="x.jsonl", reason=HOLE.format(1), position=1),
        ("b", 3),
    ]


def test_a_lost_first_line_is_not_taken_for_the_end_of_a_thread_of_one(tmp_path: Path):
    problem = Problem(where="x.jsonl", reason="it is not JSON at character 3", position=2)
    assert outcome(tmp_path / "x.jsonl", thread("a", 1), [b"{\n"], thread("b", 3)[1:]) == [
        problem,
        ("a", 1),
        Problem(where="x.jsonl", reason=HOLE.format(0), position=3),
    ]


def test_what_is_rendered_again_is_the_same_file(tmp_path: Path):
    first = tmp_path / "first.jsonl"
    first.write_bytes(
        b"".join(
            line
            for found in take(THREADS).conversations
            if isinstance(found, Transcript)
            for line in lines(found.entries, key=found.key, title=found.title, parent=found.parent, shared=found.shared)
        )
    )
    assert take(first).found == take(THREADS).found


def test_threads_without_entries_come_in_between_others(tmp_path: Path):
    one = entry(0, said("user", "one", at="2026-01-05T09:12:00Z"))
    pieces = (
        lines([], key="a"),
        lines([one], key="b"),
        lines([], key="c", title="C", instructions=["x"]),
        lines([one]),
    )
    path = tmp_path / "all.jsonl"
    path.write_bytes(b"".join(line for piece in pieces for line in piece))
    found = take(path).found
    assert [
        (each.key, each.title, each.instructions, len(each.entries)) for each in found if isinstance(each, Transcript)
    ] == [
        ("a", None, (), 0),
        ("b", None, (), 1),
        ("c", "C", ("x",), 0),
        ("everlog:all", None, (), 1),
    ]
    assert len(found) == 4
    assert take(path).format == "everlog"


def test_instructions_of_another_form_are_reported(tmp_path: Path):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"thread":"a","entries":0}\n{"thread":"b","entries":0,"instructions":"x"}\n')
    found = take(path).found
    assert [each.reason for each in found if isinstance(each, Problem)] == ["instructions is not a list of texts"]
