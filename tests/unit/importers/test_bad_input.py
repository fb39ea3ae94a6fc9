"""What is wrong with a file is said in one line, with a place and never with its words; what is merely odd comes in."""

import json
import os
import random
import tracemalloc
import zipfile
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from everlog.errors import BadImport
from everlog.importers import FORMATS, Limits, Problem, detect, read
from everlog.messages import Conversation
from tests.unit.importers.saying import SAMPLES, take

SECRET = "swordfish"


def refused(path: Path, form: str | None = None, **limits: int) -> str:
    with pytest.raises(BadImport) as caught, read(path, form, limits=Limits(**limits)) as reading:
        list(reading)
    message = str(caught.value)
    assert SECRET not in message
    assert "\n" not in message
    return message.replace(f"{path.parent}{os.sep}", "")


def wrote(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def chat(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text} for text in texts]


def test_a_file_that_is_not_there_or_is_a_folder(tmp_path: Path):
    assert refused(tmp_path / "nowhere.json") == "nowhere.json cannot be read: No such file or directory"
    folder = tmp_path / "folder"
    folder.mkdir()
    assert refused(folder) == "folder is not a file; give the exported file or archive itself"


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = wrote(tmp_path / "mine.json", "[]")

    def refuse(self: Path, *args: Any, **kwargs: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert refused(path) == "mine.json cannot be read: Permission denied"


@pytest.mark.parametrize("form", [None, "openai", "everlog"])
def test_an_empty_file(form: str | None, tmp_path: Path):
    assert refused(wrote(tmp_path / "x.json", b""), form) == "x.json is empty"
    assert refused(wrote(tmp_path / "x.json", b" \n\t "), form) == "x.json holds nothing but white space"


def test_a_file_that_is_not_json(tmp_path: Path):
    what = "x.json is not JSON in UTF-8: it starts with neither { nor ["
    for content in (SECRET.encode(), b"\x89PNG", f'"{SECRET}"'.encode(), SECRET.encode("utf-16"), b"\x00" * 9):
        assert refused(wrote(tmp_path / "x.json", content)) == what


@pytest.mark.parametrize(
    "content", ["[]", '{"a":1}', '[[1,2],"x"]', '{"messages":3}\n{"role":7}', '[{"question":"?"}]']
)
def test_a_file_of_no_form_we_know_is_told_the_forms(content: str, tmp_path: Path):
    message = refused(wrote(tmp_path / "x.json", content))
    assert message == (
        "x.json is of no form that can be imported; known are "
        "beam, chatgpt, claude-ai, claude-code, codex, everlog, locomo, openai"
    )


def test_a_form_that_does_not_exist_is_told_the_forms(tmp_path: Path):
    assert refused(wrote(tmp_path / "x.json", "[]"), "gpt") == (
        "gpt is not a form that can be imported; known are "
        "beam, chatgpt, claude-ai, claude-code, codex, everlog, locomo, openai"
    )


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_of_another_form_than_was_said_holds_nothing_but_problems(form: str, tmp_path: Path):
    path = wrote(tmp_path / "x.json", json.dumps([7, {"swordfish": SECRET}, None]))
    taken = take(path, form)
    assert taken.problems
    assert taken.conversations == []
    assert SECRET not in repr(taken.problems)


# ---- cut off, damaged ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [0.2, 0.5, 0.9, 0.999])
def test_a_list_that_ends_too_early_gives_its_whole_conversations_then_the_error(cut: float, tmp_path: Path):
    conversations = [{"id": f"c{n}", "messages": chat(SECRET * 10, "e" * 50)} for n in range(40)]
    content = json.dumps(conversations, ensure_ascii=False).encode()
    path = wrote(tmp_path / "x.json", content[: int(len(content) * cut)])
    whole = path.read_bytes().count(b'"}]}')
    with read(path) as reading:
        assert [found.key for found in islice(reading, whole) if isinstance(found, Conversation)] == [
            f"openai:c{n}" for n in range(whole)
        ]
        with pytest.raises(BadImport, match=f"ends too early, within element {whole + 1};"):
            next(reading)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('[{"role":"user","content":"a"},{"role" 1}]', "x.json is not JSON: element 2 is broken at character 40"),
        ('[{"role":"user","content":"a"} {"role":1}]', "x.json is not JSON: element 1 is broken at character 32"),
        ('[{"role":"user","content":"a"},]', "x.json is not JSON: element 2 is broken at character 32"),
        ('[{"role":"user","content":"a"}]]', "x.json is not JSON: its list ends before character 32, but more follows"),
        ('[{"role":"user","content":"a"}', "x.json ends too early, within element 1; export or copy it again"),
        ('[{"role":"user","content":"a"},', "x.json ends too early, within element 2; export or copy it again"),
        ('{"messages":[\n{"role":"user"', "x.json ends too early, within its object; export or copy it again"),
        ('{"messages":[\n]}\n}', "x.json is not JSON: its object ends before character 18, but more follows"),
    ],
)
def test_broken_json_names_the_place(content: str, complaint: str, tmp_path: Path):
    assert refused(wrote(tmp_path / "x.json", content), "openai") == complaint


def test_invalid_utf_8_names_the_byte(tmp_path: Path):
    for layout in ("list", "lines"):
        for start in (b"", b"\xef\xbb\xbf"):
            text = json.dumps(chat("é" * 100_000, SECRET), ensure_ascii=False)
            if layout == "lines":
                text = "\n".join(json.dumps(each, ensure_ascii=False) for each in chat("é" * 100_000, SECRET))
            content = start + text.encode().replace(b"fish", b"f\xffsh")
            offset = content.index(b"\xff", 3)
            message = refused(wrote(tmp_path / "x.json", content))
            assert message == f"x.json is not UTF-8: the byte at offset {offset:,} is invalid"


def test_a_character_cut_in_two_at_the_end_is_invalid_utf_8(tmp_path: Path):
    assert refused(wrote(tmp_path / "x.json", '[{"role":"user","content":"é'.encode()[:-1])) == (
        "x.json is not UTF-8: the byte at offset 27 is invalid"
    )


def archive(
    path: Path, content: bytes, name: str = "conversations.json", *, more: tuple[str, bytes] | None = None
) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, content)
        if more is not None:
            file.writestr(*more)
    return path


CHATS = (SAMPLES / "chatgpt" / "2023" / "conversations.json").read_bytes()


@pytest.mark.parametrize("kept", [10, 0.3, 0.9, 0.99])
def test_a_truncated_archive(kept: float, tmp_path: Path):
    path = archive(tmp_path / "x.zip", CHATS)
    content = path.read_bytes()
    path.write_bytes(content[: kept if isinstance(kept, int) else int(len(content) * kept)])
    assert refused(path) == "x.zip is a zip archive that is damaged or ends too early; export it again"


def test_an_archive_damaged_in_the_middle(tmp_path: Path):
    noise = random.Random(7).randbytes(100_000).hex()
    path = archive(tmp_path / "x.zip", json.dumps([{"id": "x", "mapping": {}, "noise": noise}] * 3).encode())
    content = bytearray(path.read_bytes())
    content[len(content) // 2 :][:64] = content[len(content) // 2 : len(content) // 2 + 64] = bytes(64)
    path.write_bytes(bytes(content))
    assert refused(path, "chatgpt") == "x.zip is a zip archive that is damaged or ends too early; export it again"


def test_an_archive_without_conversations_or_with_nothing_in_it(tmp_path: Path):
    what = "x.zip is a zip archive without a conversations.json; give the file inside it that counts"
    assert refused(archive(tmp_path / "x.zip", CHATS, "chat.html")) == what
    with zipfile.ZipFile(tmp_path / "x.zip", "w"):
        pass
    assert refused(tmp_path / "x.zip") == what


def test_an_archive_with_a_password(tmp_path: Path):
    path = archive(tmp_path / "x.zip", CHATS)
    content = bytearray(path.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(content))
    assert refused(path) == "x.zip is protected by a password; unpack it and import the files"


def test_a_zip_bomb_is_refused_while_it_unpacks(tmp_path: Path):
    bomb = archive(tmp_path / "x.zip", b"[" + b" " * 200_000_000 + b"]")
    assert bomb.stat().st_size < 300_000
    tracemalloc.start()
    assert "unpacks to more than 200 times its size, as zip bombs do" in refused(bomb)
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()
    assert "unpacks to more than 1,000,000 bytes" in refused(bomb, unpacked_bytes=1_000_000)


def test_a_zip_bomb_that_lies_about_its_size_is_refused(tmp_path: Path):
    bomb = archive(tmp_path / "x.zip", b"[" + b" " * 20_000_000 + b"]")
    content = bytearray(bomb.read_bytes())
    place = content.index(b"PK\x01\x02") + 24
    content[place : place + 4] = (1_000).to_bytes(4, "little")
    bomb.write_bytes(bytes(content))
    assert refused(bomb) == "x.zip is a zip archive that is damaged or ends too early; export it again"


def test_attachments_count_towards_what_an_archive_may_unpack_to(tmp_path: Path):
    chats = (SAMPLES / "chatgpt" / "2026" / "conversations-000.json").read_bytes()
    picture = "file-Kq3vT9Zx-plank.png", random.Random(7).randbytes(2_000_000)
    path = archive(tmp_path / "x.zip", chats, more=picture)
    assert "unpacks to more than 1,000,000 bytes" in refused(path, unpacked_bytes=1_000_000)
    assert len(take(path).conversations) == 2


# ---- odd, but right ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("half \ud83d and \udc00 other", id="lone surrogates"),
        pytest.param("a\x00b", id="NUL"),
        pytest.param("שלום \u202eabc\u202c مرحبا", id="right to left"),
        pytest.param("e\u0301\u0323 Z\u0334\u0335\u0336 é", id="combining, not normalised"),
        pytest.param("😀👩\u200d👩\u200d👧🏽 \U0010ffff", id="beyond the basic plane"),
        pytest.param(" \t\r\n lines \u2028 \u2029 \x85 \x0b ", id="white space of all kinds"),
        pytest.param("\\ud800 \\u0000 \\n", id="what only looks like escapes"),
        pytest.param("12345678901234567890.10", id="digits"),
    ],
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_odd_text_is_kept_word_for_word(text: str, ascii_only: bool, tmp_path: Path):
    def dumped(value: object) -> bytes:
        return json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "backslashreplace")

    for content in (dumped(chat(text, "x")), b"\n".join(map(dumped, chat(text, "x")))):
        taken = take(wrote(tmp_path / "x.json", content))
        assert [message.text for message in taken.only.messages] == [text, "x"]


def test_two_halves_of_a_pair_written_apart_become_the_character(tmp_path: Path):
    path = wrote(tmp_path / "x.json", '[{"role":"user","content":"\\ud83d\\ude00"}]')
    assert take(path).only.messages[0].text == "😀"


def test_raw_control_characters_inside_strings_are_taken(tmp_path: Path):
    path = wrote(tmp_path / "x.json", b'[{"role":"user","content":"a\x00\tb\x1f"}]')
    assert take(path).only.messages[0].text == "a\x00\tb\x1f"


def test_a_message_of_20_mb_comes_in_whole(tmp_path: Path):
    text = "0123456789ü" * 2_000_000
    for content in (
        json.dumps(chat("before", text, "after")),
        "\n".join(map(json.dumps, chat("before", text, "after"))),
    ):
        taken = take(wrote(tmp_path / "x.json", content))
        assert [len(message.text) for message in taken.only.messages] == [6, 22_000_000, 5]
        assert taken.only.messages[1].text == text


def test_a_value_above_the_limit_is_refused(tmp_path: Path):
    content = json.dumps(chat(SECRET, SECRET * 200_000))
    assert refused(wrote(tmp_path / "x.json", content), value_bytes=1_000_000) == (
        "x.json: the value at character 44 is larger than 1,000,000 bytes"
    )
    content = "\n".join(map(json.dumps, chat(SECRET, SECRET * 200_000)))
    assert refused(wrote(tmp_path / "x.json", content), value_bytes=1_000_000) == (
        "x.json: line 2 is larger than 1,000,000 bytes"
    )


def test_a_hundred_thousand_messages_of_one_word_come_in_order(tmp_path: Path):
    path = wrote(tmp_path / "x.jsonl", "\n".join(map(json.dumps, chat(*map(str, range(100_000))))))
    assert [message.text for message in take(path).only.messages] == [*map(str, range(100_000))]


def test_times_without_zone_are_utc_and_a_clock_that_goes_backwards_is_kept(tmp_path: Path):
    times = ["2026-01-05T09:00:02", "2026-01-05T09:00:01+00:00", 1767603600, 1767603600123, "1767603600", "soon", True]
    path = wrote(tmp_path / "x.json", json.dumps([{"role": "user", "content": "x", "timestamp": at} for at in times]))
    taken = take(path)
    assert [message.at.isoformat() if message.at else None for message in taken.only.messages] == [
        "2026-01-05T09:00:02+00:00",
        "2026-01-05T09:00:01+00:00",
        "2026-01-05T09:00:00+00:00",
        *["2026-01-05T09:00:00.123000+00:00"] * 4,
    ]
    assert taken.tally.assumed == {
        "time without zone, taken as UTC": 1,
        "time not understood, left out": 3,
        "time missing, taken from the conversation": 3,
    }


def test_duplicate_ids_cost_no_message(tmp_path: Path):
    path = wrote(tmp_path / "x.json", json.dumps([each | {"id": "m"} for each in chat("a", "b", "a")]))
    assert [(message.id, message.text) for message in take(path).only.messages] == [("m", "a"), ("m", "b"), ("m", "a")]


def test_json_nested_beyond_all_reason(tmp_path: Path):
    deep = "[" * 100_000
    assert refused(wrote(tmp_path / "x.json", f'[{{"role":"user","content":{deep}')) == (
        "x.json: element 1 cannot be read: it is nested too deeply"
    )
    lines = f'{{"role":"user","content":"a"}}\n{{"role":"user","content":{deep}{"]" * 100_000}}}\n'
    taken = take(wrote(tmp_path / "x.jsonl", lines))
    assert taken.problems == [Problem(where="x.jsonl", reason="it is nested too deeply", position=2)]


def test_a_deep_unknown_part_is_kept_as_its_text(tmp_path: Path):
    deep: Any = "end"
    for _ in range(300):
        deep = [deep]
    part = {"type": "nest", "value": deep}
    path = wrote(tmp_path / "x.json", json.dumps([{"role": "user", "content": [part]}]))
    (kept,) = take(path).only.messages[0].parts
    assert kept.value == json.dumps(part, separators=(",", ":"))  # type: ignore[union-attr]


def test_a_number_of_too_many_digits(tmp_path: Path):
    digits = "7" * 5_000
    what = "it holds a number of too many digits"
    assert refused(wrote(tmp_path / "x.json", f'[{{"role":"user","content":{digits}}}]')) == (
        f"x.json: element 1 cannot be read: {what}"
    )
    taken = take(wrote(tmp_path / "x.jsonl", f'{{"role":"user","content":"a"}}\n{{"n":{digits}}}'))
    assert taken.problems == [Problem(where="x.jsonl", reason=what, position=2)]
    large = 2**70
    found = take(wrote(tmp_path / "x.json", json.dumps([{"role": "user", "content": [{"type": "n", "n": large}]}])))
    assert found.only.messages[0].parts[0].value == {"type": "n", "n": large}  # type: ignore[union-attr]


def test_reading_closes_the_file_when_it_is_left_early(tmp_path: Path):
    path = wrote(tmp_path / "x.json", json.dumps([{"messages": chat("a")}, {"messages": chat("b")}]))
    with read(path) as reading:
        next(reading)
    assert list(reading) == []
    assert reading.size_bytes == path.stat().st_size == reading.done_bytes


def test_progress_ends_at_the_size_of_what_is_read(tmp_path: Path):
    path = archive(tmp_path / "x.zip", CHATS, more=("user.json", b"{}" * 1000))
    with read(path) as reading:
        assert reading.done_bytes == 0
        assert reading.size_bytes == len(CHATS)
        list(reading)
    assert reading.done_bytes == reading.size_bytes


def test_detection_looks_past_what_it_does_not_know(tmp_path: Path):
    lines = [{"type": "rainbow"}] * 10 + [{"role": "user", "content": "x"}]
    assert detect(wrote(tmp_path / "x.jsonl", "\n".join(map(json.dumps, lines)))) == "openai"
    assert detect(wrote(tmp_path / "x.json", json.dumps([None, 7, {"uuid": "u", "chat_messages": []}]))) == "claude-ai"
