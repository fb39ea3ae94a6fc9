"""Claude.ai's export, as text only (2024) and as blocks with parents (2026)."""

import json
from pathlib import Path

from everlog.importers import Problem
from everlog.messages import Call, Conversation, Media, Origin, Result, Unknown
from tests.unit.importers.saying import SAMPLES, said, take

OLD = SAMPLES / "claude_ai" / "2024" / "conversations.json"
NEW = SAMPLES / "claude_ai" / "2026" / "conversations.json"
ACCOUNT = "acc00000-0000-4000-8000-000000000001"
TIDES = "0b2c0000-0000-4000-8000-00000000000a"


def test_an_export_of_2024_comes_in_with_attachments_as_a_line_of_messages():
    taken = take(OLD)
    assert taken.format == "claude-ai"
    assert taken.found == [
        Conversation(
            key="claude:0b2c0000-0000-4000-8000-000000000001",
            title="Names for a dinghy",
            origin=Origin(session="0b2c0000-0000-4000-8000-000000000001", user=ACCOUNT),
            messages=(
                said(
                    "user",
                    "Suggest three names for a green dinghy.",
                    at="2024-03-01T08:00:01Z",
                    id="m1",
                    parts=(
                        Media(media_type="text/plain", content=b"Sorrel\nFen\nTeasel\n", name="taken.txt", offset=39),
                        Media(media_type="image/jpeg", name="dinghy.jpg", offset=39),
                    ),
                ),
                said("assistant", "Rush, Lovage, Mallard.", at="2024-03-01T08:00:09.5Z", id="m2"),
                said("user", "Mallard it is.", at="2024-03-01T08:01:00Z", id="m4"),
            ),
        ),
        Problem(where="conversations.json", reason="its message 1 is not an object", position=2),
    ]
    assert taken.counts() == {
        "unknown": {},
        "skipped": {"repeated message": 1, "empty user message": 1},
        "assumed": {"time without zone, taken as UTC": 1},
    }


def test_an_export_of_2026_comes_in_with_tools_branches_and_no_thinking():
    taken = take(NEW)
    at = "2026-02-01T07:00:20Z"
    start = (
        said(
            "user",
            "When is high water at the Innet on Sunday?",
            at="2026-02-01T07:00:01Z",
            id="h1",
            parts=(
                Media(media_type="image/png", url="/api/files/f-1/preview", name="chart.png", offset=42),
                Media(media_type="text/csv", name="tides.csv", offset=42),
            ),
            meta={"files": ["f-1", "f-2"]},
        ),
        said("assistant", "Let me look.", at=at, id="a1"),
        said(
            "tool_call",
            'tides {"place":"Innet","day":"2026-02-01"}',
            at=at,
            id="a1#1",
            parts=(Call(call_id="toolu_01", name="tides", arguments='{"place":"Innet","day":"2026-02-01"}'),),
        ),
        said(
            "tool_result",
            "HW 11:42 4.1 m\nAdd 12 minutes in spring.",
            at=at,
            id="a1#2",
            author="tides",
            parts=(
                Result(call_id="toolu_01", name="tides"),
                Media(
                    media_type="application/octet-stream", url="https://tides.example/innet", name="Innet", offset=40
                ),
                Unknown(source="claude-ai", value={"type": "chart", "points": [1, 2]}, offset=40),
            ),
        ),
        said(
            "tool_call",
            "weather {}",
            at=at,
            id="a1#3",
            parts=(Call(call_id="toolu_02", name="weather", arguments="{}"),),
        ),
        said(
            "tool_result",
            "no route to the service",
            at=at,
            id="a1#4",
            author="weather",
            parts=(Result(call_id="toolu_02", name="weather", failed=True),),
        ),
        said("assistant", "High water is at 11:42, plus 12 minutes: 11:54.", at=at, id="a1#5"),
    )
    origin = Origin(session=TIDES, project="prj00000-0000-4000-8000-000000000001", user=ACCOUNT)
    assert taken.found == [
        Conversation(
            key=f"claude:{TIDES}",
            title="Tide tables",
            origin=origin,
            messages=(
                *start,
                said("user", "And on Monday?", at="2026-02-01T07:15:00Z", id="h2b"),
                said(
                    "assistant",
                    "At 12:40.",
                    at="2026-02-01T07:15:05Z",
                    id="a3",
                    parts=(Unknown(source="claude-ai", value={"type": "mood_ring", "colour": "blue"}, offset=9),),
                ),
                said("note", "Closed for the night.", at="2026-02-01T07:16:00Z", id="x1", author="moderator"),
            ),
        ),
        Conversation(
            key=f"claude:{TIDES}#h2",
            title="Tide tables",
            origin=origin,
            parent=f"claude:{TIDES}",
            shared=7,
            messages=(
                *start,
                said("user", "And low water?", at="2026-02-01T07:10:00Z", id="h2"),
                said("assistant", "At 17:58.", at="2026-02-01T07:10:05Z", id="a2", meta={"truncated": True}),
            ),
        ),
        Problem(where="conversations.json", reason="it has no uuid", position=2),
    ]
    assert taken.counts() == {
        "unknown": {"tool_result:chart": 1, "mood_ring": 1, "sender moderator": 1},
        "skipped": {"summary": 1, "reasoning": 1, "token_budget": 1, "empty conversation": 1},
        "assumed": {},
    }


def test_a_message_whose_id_came_before_with_other_words_is_kept_as_one_of_its_own(tmp_path: Path):
    (conversation, _) = json.loads(OLD.read_text())
    conversation["chat_messages"][2]["text"] = "Reed, Heron, Osier."
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([conversation]))
    taken = take(path)
    assert [message.text for message in taken.only.messages] == [
        "Suggest three names for a green dinghy.",
        "Rush, Lovage, Mallard.",
        "Reed, Heron, Osier.",
        "Mallard it is.",
    ]
    assert taken.tally.assumed["duplicate id, kept as a message of its own"] == 1
