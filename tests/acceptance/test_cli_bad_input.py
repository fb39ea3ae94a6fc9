"""What people and disks get wrong: a clear line or a right result; nothing lost, nothing half done."""

import json
import os
import shutil
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.cli import HARBOUR, Everlog, said


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that also somebody without rights can reach."""
    folder = Path(tempfile.mkdtemp(prefix="everlog-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def cut_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps([{"mapping": {}}] * 1000))
    path.write_bytes(path.read_bytes()[:-40])


def zip_bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", b"[" + b" " * (100 << 20) + b"]")


UNREADABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty.json": (lambda path: path.touch(), "is empty"),
    "blank.json": (lambda path: path.write_bytes(b" \n\t"), "white space"),
    "cut.zip": (cut_zip, "damaged or ends too early"),
    "bomb.zip": (zip_bomb, "zip bombs"),
    "latin.jsonl": (lambda path: path.write_bytes(b'{"role":"user","content":"caf\xe9"}\n'), "not UTF-8"),
    "cut.json": (lambda path: path.write_bytes(b'[{"role":"user","content":"hal'), "ends too early"),
    "words.txt": (lambda path: path.write_bytes(b"just some words"), "not JSON"),
    "other.json": (lambda path: path.write_bytes(b'{"a":1}'), "no form that can be imported"),
    "folder": (lambda path: path.mkdir(), "is not a file"),
    "missing.json": (lambda path: None, "No such file"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_read_is_named_in_one_line_and_nothing_is_stored(everlog: Everlog, name: str):
    make, complaint = UNREADABLE[name]
    make(everlog.home / name)
    done = everlog("import", name)
    assert (done.status, done.out, done.err.count("\n")) == (2, b"", 1)
    assert name in done.err
    assert complaint in done.err
    assert not everlog.home.joinpath("everlog.db").exists()
    told = json.loads(everlog("import", name, "--json").err)
    assert (told["type"], told["exit"]) == ("BadImport", 2)


def test_an_unknown_thread_is_named_and_nothing_is_made(harbour: Everlog):
    for command in (["show"], ["export"], ["view"], ["zoom", "x", 0], ["read", "x", 0], ["verify"], ["pump"]):
        done = harbour(*command, *(["x"] if len(command) == 1 else []))
        assert done.status == 2, command
        assert done.err == "everlog: no thread 'x' here; `everlog threads` lists the ones there are\n"
    assert harbour("fork", "x", 0, "y").status == 2
    assert harbour("erase", "--thread", "x", "--yes").status == 2
    assert len(harbour.good("threads", "--json").json) == 1


@pytest.mark.parametrize(
    "command",
    [
        "threads",
        "show x",
        "export x",
        "view x",
        "zoom x 0",
        "read x 0",
        "verify",
        "stats",
        "pump",
        "fork x 0 y",
        "doctor",
    ],
)
def test_a_command_that_reads_never_makes_a_database(everlog: Everlog, command: str):
    done = everlog(*command.split())
    assert done.status == (1 if command == "doctor" else 2)
    said = done.err or done.text
    assert f"there is no database {everlog.home / 'everlog.db'}" in said
    assert "everlog import FILE" in said
    assert list(everlog.home.iterdir()) == []


def test_an_empty_file_is_no_database_to_read_but_can_be_filled(everlog: Everlog):
    everlog.home.joinpath("everlog.db").touch()
    assert "is an empty file" in everlog("threads").err
    assert everlog.home.joinpath("everlog.db").stat().st_size == 0
    everlog.good("import", HARBOUR)


def test_what_is_no_database_of_ours_is_left_alone(everlog: Everlog):
    everlog.home.joinpath("notes.db").write_text("shopping list\n" * 100)
    assert everlog("import", HARBOUR, "--db", "notes.db").err.count("\n") == 1
    assert everlog.home.joinpath("notes.db").read_text() == "shopping list\n" * 100
    with sqlite3.connect(everlog.home / "other.db") as raw:
        raw.execute("CREATE TABLE things (name TEXT)")
    raw.close()
    done = everlog("threads", "--db", "other.db")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert everlog("threads", "--db", ".").status == 2
    assert everlog("threads", "--db", "mysql://host/db").status == 2
    assert everlog("import", HARBOUR, "--db", ":memory:").status == 2


def test_a_database_of_a_newer_version_is_refused_and_left_alone(everlog: Everlog):
    everlog.good("import", HARBOUR)
    with sqlite3.connect(everlog.home / "everlog.db") as raw:
        raw.execute("UPDATE everlog_version SET version_num = '9999'")
    raw.close()
    for command in (["threads"], ["import", HARBOUR], ["db", "upgrade"]):
        done = everlog(*command)
        assert (done.status, done.err.count("\n")) == (1, 1)
        assert "9999" in done.err
        assert "upgrade the everlog package" in done.err


def test_a_folder_that_cannot_be_written_is_named(everlog: Everlog, open_folder: Path):
    everlog.home.joinpath("file").touch()
    done = everlog("import", HARBOUR, "--db", "file/everlog.db")
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert "file/everlog.db" in done.err
    sealed = open_folder / "sealed"
    sealed.mkdir(mode=0o555)
    done = everlog("import", HARBOUR, "--db", sealed / "everlog.db", nobody=True)
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert str(sealed) in done.err
    assert list(sealed.iterdir()) == []


def test_a_database_that_cannot_be_written_can_still_be_read_or_says_why_not(everlog: Everlog, open_folder: Path):
    database = open_folder / "everlog.db"
    everlog.good("import", HARBOUR, "--db", database)
    shown = everlog.good("view", "harbour", "--db", database).out
    talk = open_folder / "talk.jsonl"
    talk.write_bytes(said("one", "two"))
    for path in (*open_folder.iterdir(), open_folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    done = everlog("import", talk, "--db", database, nobody=True)
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert f"{database}: attempt to write a readonly database; it belongs to user " in done.err
    read = everlog.good("threads", "--json", "--db", database, nobody=True)
    assert [one["key"] for one in read.json] == ["harbour"]
    again = everlog.good("view", "harbour", "--db", database, nobody=True)
    assert (again.out, again.err) == (shown, ""), "of a tree that is built nothing is left to write"
    assert sorted(path.name for path in open_folder.iterdir()) == ["everlog.db", "talk.jsonl"]
    os.chmod(open_folder, 0o755)  # noqa: PTH101 -- undone for the next one


def test_a_full_disk_stops_an_import_between_pages_and_it_goes_on_later(everlog: Everlog):
    talk = everlog.home / "talk.jsonl"
    talk.write_bytes(said(*(f"{n} " + "x" * 500 for n in range(3000))))
    everlog.good("import", HARBOUR, "--thread", "other")
    full = everlog("import", talk, "--thread", "talk", room=1_600_000)
    assert (full.status, full.err.count("\n")) == (1, 1)
    assert "nothing of this was stored" in full.err
    assert everlog.good("verify", "--json").json["faults"] == []
    total = everlog.good("import", talk, "--thread", "talk", "--json").json["total"]
    assert total["entries"] + total["known"] == 3000
    texts = [json.loads(line)["text"] for line in everlog.good("export", "talk").out.splitlines()]
    assert texts == [f"{n} " + "x" * 500 for n in range(3000)]


def test_no_room_for_a_new_database_leaves_none_that_is_half_made(everlog: Everlog):
    done = everlog("import", HARBOUR, room=20_000)
    assert (done.status, done.err.count("\n")) == (1, 1)
    everlog.good("import", HARBOUR)
    assert everlog.good("verify", "--json").json["faults"] == []


def test_a_message_of_20_megabytes_goes_in_and_out(everlog: Everlog):
    text = "long words \u00e4\u0416\U0001f600 " * 1_100_000
    everlog.home.joinpath("long.jsonl").write_bytes(json.dumps({"role": "user", "content": text}).encode())
    everlog.good("import", "long.jsonl", "--thread", "long")
    (line,) = everlog.good("export", "long").out.splitlines()
    assert json.loads(line)["text"] == text
    assert len(everlog.good("view", "long", "--bytes", 1000).out) <= 1000
    assert everlog.good("read", "long", 0, "--page", 600).text in text


def test_many_short_messages_go_in_and_a_view_of_them_fits(everlog: Everlog):
    everlog.home.joinpath("short.jsonl").write_bytes(said(*(["ok"] * 5000)))
    everlog.good("import", "short.jsonl", "--thread", "short")
    assert everlog.good("threads", "--json").json[0]["entries"] == 5000
    assert len(everlog.good("view", "short", "--bytes", 300).out) <= 300


def test_repeated_ids_missing_zones_and_clocks_that_go_back_are_no_reason_to_lose_a_message(everlog: Everlog):
    times = ["2026-03-01T10:00:00Z", "2026-02-01T10:00:00", "2025-01-01T10:00:00+05:30", "someday"]
    lines = [{"id": "same", "role": "user", "content": f"m{n}", "timestamp": time} for n, time in enumerate(times)]
    everlog.home.joinpath("times.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (file,) = everlog.good("import", "times.jsonl", "--thread", "t", "--json").json["files"]
    assert file["assumed"]["time without zone, taken as UTC"] == 1
    shown = everlog.good("show", "t", "--json").json
    assert [entry["text"] for entry in shown] == ["m0", "m1", "m2", "m3"]
    assert [entry["time"] for entry in shown[:3]] == [
        "2026-03-01T10:00:00.000000Z",
        "2026-02-01T10:00:00.000000Z",
        "2025-01-01T04:30:00.000000Z",
    ]


def test_a_key_that_cannot_be_kept_is_refused_before_anything_is_stored(everlog: Everlog):
    for key in ("", "x" * 201, "two\nlines"):
        done = everlog("import", HARBOUR, "--thread", key)
        assert (done.status, done.err.count("\n")) == (2, 1)
    assert not everlog.home.joinpath("everlog.db").exists()


@pytest.mark.parametrize(
    "command",
    ["thread", "threads --foo", "view", "view x --bytes many", "keys", "keys old", "zoom x y", "--db", "import"],
)
def test_a_command_that_is_no_command_is_explained_in_one_line(everlog: Everlog, command: str):
    done = everlog(*command.split())
    assert (done.status, done.out, done.err.count("\n")) == (2, b"", 1)
    assert "--help`" in done.err
    told = json.loads(everlog(*command.split(), "--json").err)
    assert told["exit"] == 2
