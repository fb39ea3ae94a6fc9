"""Messages in the form of OpenAI's chat API, in each layout that programs dump."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from everlog.importers import Problem, detect
from everlog.messages import Call, Conversation, Media, Origin, Result, Unknown
from tests.unit.importers.saying import PNG, SAMPLES, said, take

LIST = SAMPLES / "openai" / "messages.json"
OLD = SAMPLES / "openai" / "2023.jsonl"
SEVERAL = SAMPLES / "openai" / "conversations.jsonl"


def test_a_list_of_messages_comes_in_with_parts_calls_and_results():
    taken = take(LIST)
    at = "2026-01-05T08:00:00Z"
    assert taken.format == "openai"
    assert taken.found == [
        Conversation(
            key="openai:c54fbe4b09cc425d",
            title="What is on these pictures? Be brief.",
            messages=(
                said("system", "You keep the log of a ferry.", at=at),
                said(
                    "user",
                    "What is on these pictures?\nBe brief.",
                    author="Mara",
                    at=at,
                    parts=(
                        Media(media_type="image/png", content=PNG, offset=26),
                        Media(media_type="image/jpeg", url="https://pictures.example/tern.jpg", offset=26),
                        Media(media_type="audio/mpeg", content=b"ID3", offset=36),
                        Media(media_type="application/pdf", content=b"%PDF-", name="plan.pdf", offset=36),
                        Unknown(source="openai", value={"type": "smell", "note": "tar"}, offset=36),
                    ),
                    meta={"lang": "en"},
                ),
                said("assistant", "I look.", at=at, model="gpt-4o"),
                said(
                    "tool_call",
                    'look {"at": 1.0}',
                    at=at,
                    model="gpt-4o",
                    parts=(Call(call_id="call_a", name="look", arguments='{"at": 1.0}'),),
                ),
                said(
                    "tool_call",
                    "sniff the file",
                    at=at,
                    model="gpt-4o",
                    parts=(Call(call_id="call_b", name="sniff", arguments="the file"),),
                ),
                said("tool_result", "tar", at=at, parts=(Result(call_id="call_b"),)),
                said("tool_result", "a tern\na ferry", at=at, parts=(Result(call_id="call_a"),)),
                said("assistant", "I cannot name people.", at=at),
                said("assistant", "", at=at),
                said("note", "The fog lifts.", at=at, author="narrator"),
            ),
        )
    ]
    assert taken.counts() == {
        "unknown": {"smell": 1, "role narrator": 1},
        "skipped": {"reasoning": 1},
        "assumed": {"time missing, taken from the conversation": 7},
    }


def test_lines_of_messages_with_the_function_calls_of_2023_are_one_conversation():
    taken = take(OLD)
    at = "2023-06-13T12:00:00Z"
    assert taken.found == [
        Conversation(
            key="openai:98d6289f503ea0c1",
            title="Two for Sunday.",
            messages=(
                said("system", "You book tickets.", at=at),
                said("user", "Two for Sunday.", at=at),
                said(
                    "tool_call",
                    'book {"n":2}',
                    at=at,
                    parts=(Call(call_id="call-2#0", name="book", arguments='{"n":2}'),),
                ),
                said(
                    "tool_result", '{"ok":true}', at=at, author="book", parts=(Result(call_id="call-2#0", name="book"),)
                ),
                said("assistant", "Booked.", at=at),
            ),
        )
    ]
    assert taken.tally.assumed == {
        "time without zone, taken as UTC": 1,
        "time missing, taken from the conversation": 4,
    }


def test_lines_of_conversations_each_have_a_key_and_broken_ones_are_problems():
    assert take(SEVERAL).found == [
        Conversation(
            key="openai:talk-1",
            title="Tickets",
            origin=Origin(session="talk-1"),
            messages=(said("user", "One, please."), said("assistant", "Here.")),
        ),
        Conversation(
            key="openai:8e099af784ef6801",
            title="Is anybody there?",
            messages=(said("user", "Is anybody there?"), said("assistant", "Yes.")),
        ),
        Conversation(
            key="openai:8e099af784ef6801:2",
            title="Is anybody there?",
            messages=(said("user", "Is anybody there?"), said("assistant", "No.")),
        ),
        Problem(where="conversations.jsonl", reason="its message 2: it is not an object with a role", position=4),
        Problem(where="conversations.jsonl", reason="its messages are not a list", position=5),
    ]


def test_lines_of_one_talk_go_in_together_or_only_up_to_the_last_one_that_is_cut_off(tmp_path: Path):
    good, broken = '{"role":"user","content":"Ahoy"}\n', '{"role":"user"\n'
    path = tmp_path / "x.jsonl"
    path.write_text(good + broken + good)
    lost, rest = take(path).found
    assert isinstance(lost, Problem)
    assert isinstance(rest, Problem)
    assert (lost.position, rest.position) == (2, 0)
    assert "together or not at all" in rest.reason
    path.write_text(good + good + broken)
    lost, talk = take(path).found
    assert isinstance(lost, Problem)
    assert isinstance(talk, Conversation)
    assert len(talk.messages) == 2


TALK = [{"role": "user", "content": "Ahoy"}, {"role": "assistant", "content": [{"type": "text", "text": "Ahoy"}]}]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(json.dumps(TALK), id="a list"),
        pytest.param(json.dumps(TALK, indent=2), id="a list over lines"),
        pytest.param("\n".join(map(json.dumps, TALK)), id="lines without a last break"),
        pytest.param("\r\n\r\n".join(map(json.dumps, TALK)) + "\r\n", id="lines as Windows writes them"),
        pytest.param(json.dumps({"messages": TALK}), id="an object on a line"),
        pytest.param(json.dumps({"messages": TALK}, indent=4), id="an object over lines"),
        pytest.param('{"messages": [\n' + ",\n".join(map(json.dumps, TALK)) + "\n]}", id="an object of lines"),
        pytest.param(json.dumps([{"messages": TALK}]), id="a list of objects"),
        pytest.param("\ufeff" + json.dumps(TALK), id="with a byte order mark"),
        pytest.param(" " * 300_000 + json.dumps(TALK), id="after much white space"),
    ],
)
def test_the_layout_makes_no_difference(text: str, tmp_path: Path):
    path = tmp_path / "talk.any"
    path.write_bytes(text.encode())
    assert detect(path) == "openai"
    assert take(path).only.messages == (said("user", "Ahoy"), said("assistant", "Ahoy"))


def messages(path: Path, *values: dict[str, Any]) -> list[Any]:
    path.write_text(json.dumps(values))
    return list(take(path, "openai").only.messages)


def test_a_result_without_an_id_answers_the_open_call_of_its_name_or_the_last_one(tmp_path: Path):
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for n, name in enumerate("aba")
    ]
    found = messages(
        tmp_path / "t.json",
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "name": "b", "content": "one"},
        {"role": "tool", "content": "two"},
        {"role": "tool", "name": "z", "content": "three"},
        {"role": "tool", "content": "four"},
    )
    assert [message.result.call_id for message in found if message.result] == ["c1", "c2", "c0", "call-6#0"]


def test_blocks_of_other_dialects_in_a_list_of_parts_are_understood(tmp_path: Path):
    found = messages(
        tmp_path / "t.json",
        {
            "role": "assistant",
            "id": "m1",
            "content": [
                {"type": "thinking", "thinking": "…"},
                {"type": "text", "text": "I read."},
                {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "ä"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "words"}, "And?"]},
        {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://p.example/x.webp"}}]},
        {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": "%%%"}}]},
    )
    assert found == [
        said("assistant", "I read.", id="m1"),
        said(
            "tool_call",
            'read {"path":"ä"}',
            id="m1#1",
            parts=(Call(call_id="t1", name="read", arguments='{"path":"ä"}'),),
        ),
        said("tool_result", "words", parts=(Result(call_id="t1"),)),
        said("user", "And?"),
        said("user", "", parts=(Media(media_type="image/webp", url="https://p.example/x.webp"),)),
        said(
            "user",
            "",
            parts=(Unknown(source="openai", value={"type": "image", "source": {"type": "base64", "data": "%%%"}}),),
        ),
    ]


def test_words_that_are_only_reasoning_leave_no_message(tmp_path: Path):
    found = messages(
        tmp_path / "t.json",
        {"role": "user", "content": "Well?"},
        {"role": "assistant", "content": "", "reasoning_content": "Hm."},
        {"role": "assistant", "content": [{"type": "reasoning", "text": "Hm."}]},
    )
    assert found == [said("user", "Well?")]


def test_a_key_stays_when_the_conversation_grows_and_another_one_has_another(tmp_path: Path):
    path = tmp_path / "log.json"

    def key(*more: dict[str, str], first: str = "Ahoy") -> str:
        path.write_text(
            json.dumps([{"role": "system", "content": "Be kind."}, {"role": "user", "content": first}, *more])
        )
        return take(path).only.key

    assert key() == key({"role": "assistant", "content": "Yes"})
    assert key() != key(first="Ahoy!")
    first = key()
    path = path.rename(tmp_path / "copy of log.jsonl")
    assert take(path).only.key == first


@pytest.mark.parametrize("field", ["name", "created_at"])
def test_talks_that_begin_alike_at_other_times_or_by_others_have_keys_of_their_own(field: str, tmp_path: Path):
    keys = set()
    for value in ("2026-01-05T09:00:00Z", "2026-01-06T09:00:00Z"):
        path = tmp_path / "talk.json"
        path.write_text(json.dumps([{"role": "user", "content": "hi", field: value}]))
        keys.add(take(path).only.key)
    assert len(keys) == 2


def test_the_time_of_an_object_is_that_of_its_first_messages_and_a_message_goes_on_with_the_one_before(tmp_path: Path):
    path = tmp_path / "talk.json"
    day = "2026-01-05T09:0{}:00Z"
    asked = {"role": "user", "content": "x"}
    talk = {"created_at": day.format(0), "messages": [asked, asked | {"time": day.format(1)}, asked]}
    path.write_text(json.dumps(talk))
    taken = take(path)
    assert [message.at for message in taken.only.messages] == [
        datetime.fromisoformat(day.format(minute)) for minute in (0, 1, 1)
    ]
    assert taken.tally.assumed == {"time missing, taken from the conversation": 2}


def test_times_that_nobody_names_are_counted_as_those_of_the_import(tmp_path: Path):
    path = tmp_path / "talk.json"
    path.write_text(json.dumps(TALK))
    taken = take(path)
    assert [message.at for message in taken.only.messages] == [None, None]
    assert taken.tally.assumed == {"time missing, taken as that of the import": 2}
