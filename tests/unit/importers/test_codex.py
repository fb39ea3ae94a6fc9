"""Codex's sessions: bare items (until September 2025), and lines with an envelope since."""

import json
from pathlib import Path
from typing import Any

from everlog.importers import Problem, detect
from everlog.messages import Call, Conversation, Media, Origin, Result, Unknown
from tests.unit.importers.saying import PNG, SAMPLES, said, take

FIRST = "c0de0000-0000-4000-8000-000000000001"
SECOND = "c0de0000-0000-4000-8000-000000000002"
OLD = SAMPLES / "codex" / f"rollout-2025-08-20T10-00-00-{FIRST}.jsonl"
NEW = SAMPLES / "codex" / f"rollout-2026-04-02T10-00-00-{SECOND}.jsonl"
SOL = "gpt-5.6-sol"


def test_a_session_of_bare_items_comes_in_at_the_time_of_its_header():
    taken = take(OLD)
    at = "2025-08-20T10:00:00Z"
    shell = '{"type":"exec","command":["bash","-lc","cat boats.txt"],"timeout_ms":1000}'
    assert taken.format == "codex"
    assert taken.found == [
        Conversation(
            key=f"codex:{FIRST}",
            title="List the boats.",
            origin=Origin(session=FIRST, cwd="/home/mara/slipway"),
            messages=(
                said("system", "Prefer small commits.", at=at),
                said(
                    "note",
                    "<environment_context>\n  <cwd>/home/mara/slipway</cwd>\n</environment_context>",
                    at=at,
                    author="client",
                ),
                said("user", "List the boats.", at=at, meta={"git_branch": "main"}),
                said(
                    "tool_call",
                    f"local_shell {shell}",
                    at=at,
                    id="lsh_1",
                    parts=(Call(call_id="call_1", name="local_shell", arguments=shell),),
                ),
                said(
                    "tool_result",
                    '{"output":"Tern\\nPuffin\\n","metadata":{"exit_code":0}}',
                    at=at,
                    parts=(Result(call_id="call_1"),),
                ),
                said("assistant", "Tern and Puffin.", at=at, id="msg_1"),
            ),
        )
    ]
    assert taken.counts() == {"unknown": {}, "skipped": {"state": 2, "reasoning": 1}, "assumed": {}}


def test_a_session_of_2026_comes_in_with_what_was_rolled_back_as_a_fork():
    taken = take(NEW)
    origin = Origin(session=SECOND, cwd="/home/mara/slipway")
    start = (
        said("system", "You are a coding agent.", at="2026-04-02T10:00:00Z"),
        said(
            "system",
            "<permissions instructions>Ask first.</permissions instructions>",
            at="2026-04-02T10:00:01Z",
            id="msg_dev",
        ),
        said(
            "note",
            "# AGENTS.md instructions for /home/mara/slipway\n\n<INSTRUCTIONS>\nBe kind.\n</INSTRUCTIONS>\n"
            "<environment_context>\n  <cwd>/home/mara/slipway</cwd>\n</environment_context>",
            at="2026-04-02T10:00:01Z",
            id="msg_env",
            author="client",
        ),
        said(
            "user",
            "Repair the ferry clock.",
            at="2026-04-02T10:00:03Z",
            id="msg_u1",
            parts=(Media(media_type="image/png", content=PNG, offset=23),),
            meta={
                "git_branch": "winter",
                "forked_from": "c0de0000-0000-4000-8000-0000000000ff",
                "parent_thread": "c0de0000-0000-4000-8000-0000000000fe",
            },
        ),
        said(
            "assistant",
            "I look at the clock first.",
            at="2026-04-02T10:00:05Z",
            id="msg_a1",
            model=SOL,
            meta={"phase": "commentary"},
        ),
        said(
            "tool_call",
            'exec_command {"cmd":"cat clock.py"}',
            at="2026-04-02T10:00:06Z",
            id="fc_1",
            model=SOL,
            parts=(Call(call_id="call_1", name="exec_command", arguments='{"cmd":"cat clock.py"}'),),
            meta={"namespace": "shell"},
        ),
        said(
            "tool_call",
            "apply_patch *** Begin Patch\n*** End Patch",
            at="2026-04-02T10:00:06Z",
            id="ctc_1",
            model=SOL,
            parts=(Call(call_id="call_2", name="apply_patch", arguments="*** Begin Patch\n*** End Patch"),),
        ),
        said("tool_result", "Success.", at="2026-04-02T10:00:07Z", parts=(Result(call_id="call_2"),)),
        said("tool_result", "no such file", at="2026-04-02T10:00:08Z", parts=(Result(call_id="call_1", failed=True),)),
        said(
            "tool_call",
            'web_search {"type":"search","query":"tide clock drift"}',
            at="2026-04-02T10:00:09Z",
            id="ws_1",
            model=SOL,
            parts=(Call(call_id="ws_1", name="web_search", arguments='{"type":"search","query":"tide clock drift"}'),),
            meta={"status": "failed"},
        ),
        said(
            "tool_call",
            "image_generation a tide clock",
            at="2026-04-02T10:00:10Z",
            id="ig_1",
            model=SOL,
            parts=(Call(call_id="ig_1", name="image_generation", arguments="a tide clock"),),
        ),
        said(
            "tool_result",
            "",
            at="2026-04-02T10:00:10Z",
            id="ig_1#1",
            author="image_generation",
            parts=(
                Result(call_id="ig_1", name="image_generation"),
                Media(media_type="image/png", content=PNG),
            ),
        ),
        said(
            "assistant",
            "The clock runs again.",
            at="2026-04-02T10:00:11Z",
            id="msg_a2",
            model=SOL,
            meta={"phase": "final_answer"},
        ),
    )
    assert taken.found == [
        Conversation(
            key=f"codex:{SECOND}",
            title="Ferry clock",
            origin=origin,
            messages=(
                *start,
                said("user", "Paint it green.", at="2026-04-02T10:02:00Z", id="msg_u3"),
                said("assistant", "Painted green.", at="2026-04-02T10:02:01Z", id="msg_a4", model="gpt-5.6-luna"),
                said(
                    "note",
                    "The clock was repaired and painted.",
                    at="2026-04-02T10:03:00Z",
                    author="client",
                    meta={"compact": "summary"},
                ),
                said(
                    "tool_call",
                    'tool_search {"query":"brush"}',
                    at="2026-04-02T10:03:02Z",
                    model="gpt-5.6-luna",
                    parts=(Call(call_id="call_9", name="tool_search", arguments='{"query":"brush"}'),),
                ),
                said("tool_result", '[{"name":"brush"}]', at="2026-04-02T10:03:03Z", parts=(Result(call_id="call_9"),)),
                said(
                    "note",
                    "",
                    at="2026-04-02T10:03:04Z",
                    parts=(Unknown(source="codex", value={"type": "hum", "tune": "low"}),),
                ),
            ),
        ),
        Conversation(
            key=f"codex:{SECOND}#msg_u2",
            title="Ferry clock",
            origin=origin,
            parent=f"codex:{SECOND}",
            shared=13,
            messages=(
                *start,
                said("user", "Paint it red.", at="2026-04-02T10:01:00Z", id="msg_u2"),
                said("assistant", "Painted red.", at="2026-04-02T10:01:01Z", id="msg_a3", model=SOL),
            ),
        ),
    ]
    assert taken.counts() == {
        "unknown": {"hum": 1, "line whistle": 1},
        "skipped": {
            "session_meta of the forked thread": 1,
            "turn_context": 2,
            "state": 1,
            "event user_message": 1,
            "reasoning": 1,
            "event thread_name_updated": 1,
            "event thread_rolled_back": 1,
            "replaced message": 1,
            "compaction": 1,
        },
        "assumed": {},
    }


def item(role: str, words: str, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": words}]} | more


def test_items_without_a_header_are_named_after_their_first_words(tmp_path: Path):
    path = tmp_path / "items.json"
    path.write_text(json.dumps([item("user", "Hello"), item("assistant", "Hi")]))
    assert detect(path) == "codex"
    first = take(path).only.key
    path.write_text(json.dumps([item("user", "Hello"), item("assistant", "Hi"), item("user", "Bye")]))
    assert take(path).only.key == first
    path.write_text(json.dumps([item("user", "Good day"), item("assistant", "Hi")]))
    assert take(path).only.key != first


def test_who_made_a_message_in_the_persons_name_is_told_by_what_the_client_says_of_it(tmp_path: Path):
    tagged = "<environment_context>\n</environment_context>"
    own = {"internal_chat_message_metadata_passthrough": {"content_item_kinds": ["user.text"]}}
    made = {"internal_chat_message_metadata_passthrough": {"content_item_kinds": ["host_skills.instructions"]}}
    path = tmp_path / "items.json"
    path.write_text(
        json.dumps(
            [
                item("user", tagged),
                item("user", tagged, **own),
                item("user", "Use the skill.", **made),
                item("user", f"{tagged} is what it says"),
            ]
        )
    )
    assert [message.kind for message in take(path).only.messages] == ["note", "user", "note", "user"]


def test_more_turns_rolled_back_than_there_are_leave_an_empty_thread_to_go_on_with(tmp_path: Path):
    back = {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 7}}
    path = tmp_path / "items.jsonl"
    lines = [item("user", "One", id="i1"), item("assistant", "Two", id="i2"), back, item("user", "Three", id="i3")]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = take(path).conversations
    assert [[message.text for message in each.messages] for each in found] == [["Three"], ["One", "Two"]]
    assert [each.parent for each in found] == [None, None]


def test_a_line_that_is_no_object_is_a_problem(tmp_path: Path):
    path = tmp_path / "items.jsonl"
    path.write_text(json.dumps(item("user", "One")) + "\n7\n")
    taken = take(path)
    assert taken.problems == [Problem(where="items.jsonl", reason="it is not an object", position=2)]
    assert len(taken.conversations) == 1
