"""Public data comes in with every text, author and time; files of 100,000 messages come in fast and in little memory.

`EVERLOG_DATA` names the folder that holds locomo/locomo3.json and beam100k/N/chat.json.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from everlog.jsonl import Transcript, lines
from everlog.messages import Entry, Media
from tests.unit.importers.saying import take

pytestmark = pytest.mark.long

MESSAGES = 100_000
MEMORY_MB = 150
MESSAGES_PER_SECOND = 30_000

READ = """
import re, sys, time
from pathlib import Path
from everlog.importers import read
began = time.process_time()
with read(Path(sys.argv[1])) as reading:
    count = sum(len(found.messages) for found in reading)
seconds = time.process_time() - began
memory_kb = int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])  # ours, not our parent's
print(count, count / seconds, memory_kb / 1024)
"""


@pytest.fixture
def data() -> Path:
    if "EVERLOG_DATA" not in os.environ:
        pytest.skip("EVERLOG_DATA does not name the folder of public data")
    return Path(os.environ["EVERLOG_DATA"])


def test_the_talks_of_locomo_come_in_whole(data: Path):
    path = data / "locomo" / "locomo3.json"
    found = {talk.key: talk for talk in take(path).conversations}
    samples = json.loads(path.read_text("utf-8"))
    assert len(samples) == len(found) == 3
    for sample in samples:
        talk = sample["conversation"]
        expected = []
        for number in range(1, 100):
            for turn in talk.get(f"session_{number}", []):
                at = datetime.strptime(talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
                links = list(turn.get("img_url", []))
                expected.append((turn["text"], turn["speaker"], at, turn["dia_id"], links))
        messages = found[f"locomo:{sample['sample_id']}"].messages
        assert [
            (each.text, each.author, each.at, each.id, [part.url for part in each.parts if isinstance(part, Media)])
            for each in messages
        ] == expected


def test_the_talks_of_beam_come_in_whole(data: Path):
    paths = sorted((data / "beam100k").glob("*/chat.json"))
    assert len(paths) == 4
    for path in paths:
        at = None
        expected = []
        for batch in json.loads(path.read_text("utf-8")):
            for message in (message for turn in batch["turns"] for message in turn):
                if "time_anchor" in message:
                    at = datetime.strptime(message["time_anchor"], "%B-%d-%Y").replace(tzinfo=UTC)
                expected.append((message["content"], message["role"], at, str(message["id"])))
        messages = take(path).only.messages
        assert [(each.text, each.kind, each.at, each.id) for each in messages] == expected


def test_public_talks_come_back_equal_from_our_own_export(data: Path, tmp_path: Path):
    for path in [data / "locomo" / "locomo3.json", *sorted((data / "beam100k").glob("*/chat.json"))]:
        for talk in take(path).conversations:
            entries = [
                Entry(i=i, turn=i, message=message, at=message.at)
                for i, message in enumerate(talk.messages)
                if message.at is not None
            ]
            assert len(entries) == len(talk.messages)
            target = tmp_path / "talk.jsonl"
            target.write_bytes(b"".join(lines(entries, key=talk.key)))
            back = take(target).only
            assert isinstance(back, Transcript)
            assert (back.key, back.messages, list(back.entries)) == (talk.key, talk.messages, entries)


def text(i: int) -> str:
    return f"{i} the ferry leaves at ten past eight and comes back before noon ".ljust(120, "~")


def own(i: int) -> dict[str, Any]:
    kind = "assistant" if i % 2 else "user"
    return {
        "i": i,
        "kind": kind,
        "author": None,
        "text": text(i),
        "time": "2026-01-05T09:12:00.000000Z",
        "turn": i // 2,
    }


def openai(i: int) -> dict[str, Any]:
    return {"role": "assistant" if i % 2 else "user", "content": text(i)}


def claude_code(i: int) -> dict[str, Any]:
    role = "assistant" if i % 2 else "user"
    content: Any = [{"type": "text", "text": text(i)}] if i % 2 else text(i)
    return {
        "type": role,
        "uuid": f"u{i}",
        "parentUuid": f"u{i - 1}" if i else None,
        "sessionId": "s",
        "timestamp": "2026-01-05T09:12:00.000Z",
        "message": {"role": role, "id": f"m{i}", "content": content},
    }


def chatgpt(number: int) -> dict[str, Any]:
    nodes: dict[str, Any] = {}
    for i in range(100):
        author: dict[str, Any] = {"role": "assistant" if i % 2 else "user", "name": None, "metadata": {}}
        content = {"content_type": "text", "parts": [text(number * 100 + i)]}
        message = {
            "id": f"n{i}",
            "author": author,
            "create_time": 1.7e9,
            "content": content,
            "metadata": {},
            "recipient": "all",
        }
        nodes[f"n{i}"] = {"id": f"n{i}", "parent": f"n{i - 1}" if i else None, "children": [], "message": message}
    return {"conversation_id": f"c{number}", "title": "t", "mapping": nodes, "current_node": "n99"}


def as_lines(make: Callable[[int], Any]) -> str:
    return "\n".join(json.dumps(make(i)) for i in range(MESSAGES))


@pytest.mark.parametrize(
    ("content", "fast"),
    [
        pytest.param(lambda: as_lines(own), True, id="everlog lines"),
        pytest.param(lambda: as_lines(openai), True, id="openai lines"),
        pytest.param(lambda: json.dumps([openai(i) for i in range(MESSAGES)]), True, id="openai list"),
        pytest.param(lambda: json.dumps({"messages": [openai(i) for i in range(MESSAGES)]}), True, id="openai object"),
        pytest.param(lambda: json.dumps([chatgpt(i) for i in range(MESSAGES // 100)]), True, id="chatgpt"),
        pytest.param(lambda: as_lines(claude_code), False, id="claude-code"),
    ],
)
def test_a_hundred_thousand_messages_come_in_fast_and_in_little_memory(
    content: Callable[[], str], fast: bool, tmp_path: Path
):
    path = tmp_path / "large.json"
    path.write_text(content())
    finished = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True)
    count, rate, memory_mb = map(float, finished.stdout.split())
    assert count == MESSAGES
    assert memory_mb <= MEMORY_MB
    assert rate >= MESSAGES_PER_SECOND * (1 if fast else 0.5)
