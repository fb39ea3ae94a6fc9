"""Names and attachments that cannot be kept as they are cost no word of a conversation."""

import base64
import json
from pathlib import Path

import pytest

from everlog.importers import Limits, fitted
from everlog.importers.fitting import NAME_LENGTH
from everlog.jsonl import Transcript
from everlog.log.threads import KEY_LENGTH
from everlog.messages import Media
from tests.unit.importers.saying import SAMPLES, take


def test_names_are_as_long_as_the_log_takes_them():
    assert NAME_LENGTH == KEY_LENGTH


@pytest.mark.parametrize("name", ["m" * 201, "m" * 100_000, "a\nb", "\ud800", "\x00" * 300, ""])
def test_a_name_that_cannot_be_kept_becomes_one_that_can_and_two_stay_apart(name: str):
    found = fitted(name)
    assert 0 < len(found) <= NAME_LENGTH
    assert found.isprintable()
    assert found == fitted(name) != fitted(f"{name}x")
    assert fitted(found) == found


@pytest.mark.parametrize("name", ["m", "m" * 200, "naïve/…", "gpt 5"])
def test_a_name_that_can_be_kept_stays(name: str):
    assert fitted(name) == name


def line(**fields: object) -> dict[str, object]:
    at = "2026-01-05T09:12:00Z"
    return {
        "i": 0,
        "kind": "assistant",
        "author": None,
        "text": "words",
        "time": at,
        "thread": "t",
        "turn": 0,
        **fields,
    }


def test_odd_names_of_our_own_form_are_cut_counted_and_whole_in_entries_and_messages(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    origin = dict.fromkeys(["request", "session", "project", "user", "cwd"], "o" * 201)
    path.write_text(json.dumps(line(thread="k" * 300, model="a\nb", origin=origin, fork={"of": "p" * 300, "at": 0})))
    taken = take(path)
    only = taken.only
    assert isinstance(only, Transcript)
    assert (only.key, only.parent, only.messages[0].model) == (fitted("k" * 300), fitted("p" * 300), fitted("a\nb"))
    assert only.messages == tuple(entry.message for entry in only.entries)
    assert only.origin == only.entries[0].origin
    assert (only.origin.session, only.origin.project) == (fitted("o" * 201),) * 2
    assert (only.origin.user, only.origin.cwd) == ("o" * 201, "o" * 201), "whose it is must be found by that very name"
    assert taken.tally.assumed["name too long or not printable, cut"] > 0


def test_an_attachment_above_the_limit_is_only_named(tmp_path: Path):
    path = tmp_path / "t.json"
    data = f"data:image/png;base64,{base64.b64encode(bytes(300)).decode()}"
    parts = [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": data}}]
    path.write_text(json.dumps([{"role": "user", "content": parts}]))
    taken = take(path, limits=Limits(attachment_bytes=299))
    (message,) = taken.only.messages
    assert message.text == "Look"
    assert message.parts == (Media(media_type="image/png", offset=4),)
    assert taken.tally.skipped == {"attachment above the limit": 1}
    (whole,) = take(path, limits=Limits(attachment_bytes=300)).only.messages
    assert whole.parts == (Media(media_type="image/png", content=bytes(300), offset=4),)


def test_branches_go_by_the_names_that_their_parents_got(tmp_path: Path):
    sample = json.loads((SAMPLES / "chatgpt/2023/conversations.json").read_text("utf-8"))[:1]
    for name in ("conversation_id", "id"):
        sample[0][name] = "c" * 250
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(sample))
    found = take(path).conversations
    assert len({one.key for one in found}) == 4
    assert found[1].parent == found[0].key
    assert found[3].parent == found[2].key
