"""Claude Code's sessions, of version 1.0 with subagents in the same file, and of 2.1 with a line for each block."""

import json
from pathlib import Path
from typing import Any

from everlog.importers import Problem
from everlog.messages import Call, Conversation, Media, Origin, Result, Unknown
from tests.unit.importers.saying import PNG, SAMPLES, said, take

FIRST = "5e550000-0000-4000-8000-000000000001"
SECOND = "5e550000-0000-4000-8000-000000000002"
OLD = SAMPLES / "claude_code" / "1.0" / f"{FIRST}.jsonl"
NEW = SAMPLES / "claude_code" / "2.1" / f"{SECOND}.jsonl"
AGENT = SAMPLES / "claude_code" / "2.1" / "agent-7f3a.jsonl"
SONNET = "claude-sonnet-4-20250514"
OPUS = "claude-opus-4-8"


def test_a_session_of_version_1_comes_in_with_its_branch_and_its_subagent_beside_it():
    taken = take(OLD)
    origin = Origin(session=FIRST, cwd="/home/mara/slipway")
    start = (
        said(
            "note",
            "Caveat: the messages below were made by the user while running local commands.",
            at="2025-07-01T09:00:00Z",
            id="c-u0",
            author="client",
        ),
        said("user", "Parse the timetable in times.txt.", at="2025-07-01T09:00:05Z", id="c-u1"),
        said(
            "assistant",
            "I will send a helper.",
            at="2025-07-01T09:00:08Z",
            id="c-a1",
            model=SONNET,
            meta={"message_id": "msg_1"},
        ),
        said(
            "tool_call",
            'Task {"prompt":"Read times.txt"}',
            at="2025-07-01T09:00:08Z",
            id="c-a1#1",
            model=SONNET,
            parts=(Call(call_id="toolu_1", name="Task", arguments='{"prompt":"Read times.txt"}'),),
            meta={"message_id": "msg_1"},
        ),
        said(
            "tool_result",
            "Two sailings.",
            at="2025-07-01T09:00:13Z",
            id="c-r1",
            parts=(Result(call_id="toolu_1"),),
        ),
        said(
            "assistant",
            "There are two sailings: 08:10 Tern, 09:40 Puffin.",
            at="2025-07-01T09:00:15Z",
            id="c-a2",
            model=SONNET,
            meta={"message_id": "msg_2"},
        ),
    )
    assert taken.format == "claude-code"
    assert taken.found == [
        Conversation(
            key=f"claude-code:{FIRST}",
            title="Ferry timetable parser",
            origin=origin,
            messages=(
                *start,
                said("user", "Write it to a JSON file.", at="2025-07-01T09:02:00Z", id="c-u3"),
                said(
                    "assistant",
                    "Done: times.json.",
                    at="2025-07-01T09:02:09Z",
                    id="c-a3",
                    model=SONNET,
                    meta={"message_id": "msg_3"},
                ),
            ),
        ),
        Conversation(
            key=f"claude-code:{FIRST}#c-u2",
            title="Ferry timetable parser",
            origin=origin,
            parent=f"claude-code:{FIRST}",
            shared=6,
            messages=(
                *start,
                said("user", "Write it to a CSV file.", at="2025-07-01T09:01:00Z", id="c-u2"),
                said(
                    "assistant",
                    "Which separator?",
                    at="2025-07-01T09:01:04Z",
                    id="c-a4",
                    model=SONNET,
                    meta={"message_id": "msg_4"},
                ),
            ),
        ),
        Conversation(
            key=f"claude-code:{FIRST}#s-u1",
            title="Read times.txt",
            origin=origin,
            messages=(
                said("user", "Read times.txt", at="2025-07-01T09:00:09Z", id="s-u1"),
                said(
                    "tool_call",
                    'Read {"file_path":"times.txt"}',
                    at="2025-07-01T09:00:10Z",
                    id="s-a1",
                    model=SONNET,
                    parts=(Call(call_id="toolu_s1", name="Read", arguments='{"file_path":"times.txt"}'),),
                    meta={"message_id": "msg_s1"},
                ),
                said(
                    "tool_result",
                    "08:10 Tern\n09:40 Puffin",
                    at="2025-07-01T09:00:11Z",
                    id="s-r1",
                    parts=(Result(call_id="toolu_s1"),),
                ),
                said(
                    "assistant",
                    "Two sailings.",
                    at="2025-07-01T09:00:12Z",
                    id="s-a2",
                    model=SONNET,
                    meta={"message_id": "msg_s2"},
                ),
            ),
        ),
    ]
    assert taken.counts() == {
        "unknown": {},
        "skipped": {
            "toolUseResult": 2,
            "repeated message": 1,
            "system message": 1,
            "summary of another session": 1,
        },
        "assumed": {},
    }


def test_a_session_of_version_2_comes_in_as_one_line_of_talk():
    """Blocks of one message and results of calls made at once are no branches; a compaction cuts nothing off."""
    taken = take(NEW)
    assert taken.found == [
        Conversation(
            key=f"claude-code:{SECOND}",
            title="Timetables",
            origin=Origin(session=SECOND, cwd="/home/mara/slipway"),
            messages=(
                said(
                    "user",
                    "Compare the two tables.",
                    at="2026-03-01T09:00:00.5Z",
                    id="d-u1",
                    parts=(Media(media_type="image/png", content=PNG, offset=23),),
                    meta={"git_branch": "main"},
                ),
                said(
                    "note",
                    "",
                    at="2026-03-01T09:00:00.7Z",
                    id="d-t2",
                    author="client",
                    parts=(Media(media_type="text/markdown", content=b"# Notes\n", name="notes.md"),),
                ),
                said(
                    "assistant",
                    "I read both.\nAt once.",
                    at="2026-03-01T09:00:03.5Z",
                    id="d-a2",
                    model=OPUS,
                    meta={"message_id": "msg_a"},
                ),
                said(
                    "tool_call",
                    'Read {"file_path":"summer.txt"}',
                    at="2026-03-01T09:00:04Z",
                    id="d-a3",
                    model=OPUS,
                    parts=(Call(call_id="toolu_a", name="Read", arguments='{"file_path":"summer.txt"}'),),
                    meta={"message_id": "msg_a"},
                ),
                said(
                    "tool_call",
                    'Read {"file_path":"winter.txt"}',
                    at="2026-03-01T09:00:04.5Z",
                    id="d-a4",
                    model=OPUS,
                    parts=(Call(call_id="toolu_b", name="Read", arguments='{"file_path":"winter.txt"}'),),
                    meta={"message_id": "msg_a"},
                ),
                said(
                    "tool_result",
                    "winter.txt: no such file",
                    at="2026-03-01T09:00:05Z",
                    id="d-r2",
                    parts=(Result(call_id="toolu_b", failed=True),),
                ),
                said(
                    "tool_result",
                    "08:10 Tern",
                    at="2026-03-01T09:00:05.5Z",
                    id="d-r1",
                    parts=(
                        Result(call_id="toolu_a"),
                        Unknown(source="claude-code", value={"type": "tool_reference", "tool_name": "Glob"}, offset=10),
                    ),
                ),
                said(
                    "assistant",
                    "Only the summer table exists.",
                    at="2026-03-01T09:00:08Z",
                    id="d-a5",
                    model=OPUS,
                    meta={"message_id": "msg_b"},
                ),
                said("user", "Then write the winter one.", at="2026-03-01T09:00:09Z", id="d-q1"),
                said(
                    "assistant",
                    "Written.",
                    at="2026-03-01T09:00:20Z",
                    id="d-a6",
                    model=OPUS,
                    meta={"message_id": "msg_c"},
                ),
                said(
                    "note",
                    "<task-notification>build finished</task-notification>",
                    at="2026-03-01T09:00:21Z",
                    id="d-n1",
                    author="client",
                    meta={"origin": "task-notification"},
                ),
                said(
                    "note",
                    "API Error: 529",
                    at="2026-03-01T09:00:22Z",
                    id="d-e1",
                    author="client",
                    meta={"error": True},
                ),
                said(
                    "note",
                    "Conversation compacted",
                    at="2026-03-01T09:10:00Z",
                    id="d-b1",
                    author="client",
                    meta={"compact": "boundary", "trigger": "manual"},
                ),
                said(
                    "note",
                    "This session is being continued from a previous conversation. Summary: two tables, one missing.",
                    at="2026-03-01T09:10:00.1Z",
                    id="d-b2",
                    author="client",
                    meta={"compact": "summary"},
                ),
                said(
                    "note",
                    "<command-name>/compact</command-name>",
                    at="2026-03-01T09:10:01Z",
                    id="d-l1",
                    author="client",
                ),
                said("user", "Go on.", at="2026-03-01T09:11:00Z", id="d-u9", meta={"git_branch": "winter"}),
                said(
                    "assistant",
                    "Going on.",
                    at="2026-03-01T09:11:04Z",
                    id="d-a9",
                    model=OPUS,
                    parts=(Unknown(source="claude-code", value={"type": "server_note", "colour": "red"}, offset=9),),
                    meta={"message_id": "msg_f"},
                ),
            ),
        )
    ]
    assert taken.counts() == {
        "unknown": {"tool_result:tool_reference": 1, "line rainbow": 1, "server_note": 1},
        "skipped": {
            "permission-mode": 1,
            "file-history-snapshot": 1,
            "queue-operation": 1,
            "attachment todo_reminder": 1,
            "reasoning": 1,
            "progress": 2,
            "toolUseResult": 1,
            "system turn_duration": 1,
        },
        "assumed": {},
    }


def test_a_file_of_a_subagent_is_a_conversation_beside_its_session():
    assert take(AGENT).found == [
        Conversation(
            key=f"claude-code:{SECOND}#7f3a",
            title="Find the winter table.",
            origin=Origin(session=SECOND, cwd="/home/mara/slipway"),
            messages=(
                said(
                    "user",
                    "Find the winter table.",
                    at="2026-03-01T09:00:30Z",
                    id="g-u1",
                    meta={"git_branch": "main"},
                ),
                said(
                    "assistant",
                    "There is none.",
                    at="2026-03-01T09:00:34Z",
                    id="g-a1",
                    model="claude-haiku-4-5",
                    meta={"message_id": "msg_g"},
                ),
            ),
        )
    ]


def line(name: str, parent: str | None, words: str, session: str = "s1", **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": words}
    return {"type": "user", "uuid": name, "parentUuid": parent, "sessionId": session, "message": message} | more


def write(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return path


def words(conversation: Conversation) -> list[str]:
    return [message.text for message in conversation.messages]


def test_a_first_question_asked_anew_is_a_branch_that_shares_nothing(tmp_path: Path):
    taken = take(
        write(tmp_path / "s.jsonl", line("a", None, "One?"), line("b", None, "Two?"), line("c", "b", "Three?"))
    )
    assert [(found.key, words(found), found.parent) for found in taken.conversations] == [
        ("claude-code:s1", ["Two?", "Three?"], None),
        ("claude-code:s1#a", ["One?"], None),
    ]


def test_a_line_whose_parent_is_not_in_the_file_follows_the_line_before_it(tmp_path: Path):
    path = write(
        tmp_path / "s.jsonl", line("a", "elsewhere", "One."), line("b", "lost", "Two."), line("c", "b", "Three.")
    )
    assert words(take(path).only) == ["One.", "Two.", "Three."]


def test_sessions_in_one_file_are_conversations_of_their_own(tmp_path: Path):
    path = write(
        tmp_path / "all.jsonl", line("a", None, "One."), line("b", None, "Two.", "s2"), line("c", "a", "Three.")
    )
    assert [(found.key, words(found)) for found in take(path).conversations] == [
        ("claude-code:s1", ["One.", "Three."]),
        ("claude-code:s2", ["Two."]),
    ]


def test_a_session_that_goes_on_under_another_id_is_named_after_its_file(tmp_path: Path):
    path = write(tmp_path / "s2.jsonl", line("a", None, "One."), line("b", "a", "Two.", "s2"))
    assert (take(path).only.key, words(take(path).only)) == ("claude-code:s2", ["One.", "Two."])


def block(name: str, parent: str | None, wire_id: str, content: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "id": wire_id, "content": content}
    return line(name, parent, "", type="assistant", message=message) | more


def test_words_in_two_blocks_are_one_message_and_their_pictures_stay_in_place(tmp_path: Path):
    picture = {"type": "image", "source": {"type": "url", "url": "https://p.example/a.png"}}
    path = write(
        tmp_path / "s.jsonl",
        line("u", None, "Show me."),
        block("a", "u", "m1", [{"type": "text", "text": "Here:"}]),
        block("b", "a", "m1", [{"type": "text", "text": "a boat"}, picture]),
    )
    assert take(path).only.messages[1] == said(
        "assistant",
        "Here:\na boat",
        id="a",
        parts=(Media(media_type="image/png", url="https://p.example/a.png", offset=12),),
        meta={"message_id": "m1"},
    )


def test_a_message_written_again_on_another_branch_is_not_joined_to_the_first(tmp_path: Path):
    path = write(
        tmp_path / "s.jsonl",
        line("u", None, "One?"),
        block("a", "u", "m1", [{"type": "text", "text": "Yes."}]),
        line("v", None, "One?"),
        block("b", "v", "m1", [{"type": "text", "text": "Yes."}]),
    )
    assert [words(found) for found in take(path).conversations] == [["One?", "Yes."], ["One?", "Yes."]]


def test_a_subagent_that_hangs_under_a_line_of_the_session_stays_beside_it(tmp_path: Path):
    path = write(
        tmp_path / "s.jsonl",
        line("u", None, "One?"),
        line("x", "u", "Find one.", isSidechain=True),
        line("v", "u", "Two?"),
    )
    assert [(found.key, words(found)) for found in take(path).conversations] == [
        ("claude-code:s1", ["One?", "Two?"]),
        ("claude-code:s1#x", ["Find one."]),
    ]


def test_lines_that_are_each_others_parents_are_a_problem(tmp_path: Path):
    taken = take(write(tmp_path / "s.jsonl", line("a", "b", "One."), line("b", "a", "Two.")))
    assert taken.found == [Problem(where="s.jsonl", reason="messages follow each other in a circle", position=0)]


def test_a_last_line_that_was_cut_off_is_a_problem_and_the_rest_comes_in(tmp_path: Path):
    path = write(tmp_path / "s.jsonl", line("a", None, "One."), line("b", "a", "Two."))
    path.write_text(path.read_text()[:-9])
    taken = take(path)
    assert taken.problems == [Problem(where="s.jsonl", reason="it is not JSON at character 108", position=2)]
    assert [words(found) for found in taken.conversations] == [["One."]]


def test_a_file_without_talk_is_a_problem(tmp_path: Path):
    path = write(tmp_path / "s.jsonl", {"type": "summary", "summary": "Boats", "leafUuid": "elsewhere"})
    assert take(path).found == [
        Problem(where="s.jsonl", reason="it holds no conversation of the form claude-code", position=0)
    ]
