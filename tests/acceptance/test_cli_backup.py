"""Backups: a whole copy, keys apart, and back again."""

import base64
import stat
from pathlib import Path

import pytest

from tests.acceptance.cli import HARBOUR, Everlog, finish, said

KEY = base64.b64encode(bytes(range(32))).decode()
SECRET = "a sentence about the sea that nobody else may ever read"


@pytest.fixture(params=["", KEY], ids=["plain", "encrypted"])
def kept(everlog: Everlog, request: pytest.FixtureRequest) -> Everlog:
    """The command, in a folder with two threads, plain and encrypted."""
    here = everlog.at(everlog.home, EVERLOG_MASTER_KEY=request.param)
    here.home.joinpath("sea.jsonl").write_bytes(said(SECRET, "two"))
    here.good("import", "sea.jsonl", "--thread", "sea")
    here.good("import", HARBOUR)
    return here


def test_a_backup_comes_back_as_the_same_database(kept: Everlog):
    encrypted = bool(kept.environment["EVERLOG_MASTER_KEY"])
    made = kept.good("backup", "copy", "--json").json
    assert made["keys"] == ("copy.keys" if encrypted else None)
    assert stat.S_IMODE(kept.home.joinpath("copy").stat().st_mode) == 0o600
    assert not list(kept.home.glob("*.part"))
    restored = kept.good("--db", "again.db", "restore", "copy", "--json").json
    assert (restored["threads"], restored["entries"]) == (2, 420)
    assert kept.good("--db", "again.db", "export", "--all").out == kept.good("export", "--all").out
    assert kept.good("--db", "again.db", "verify", "--json").json["faults"] == []


def test_nothing_is_overwritten(kept: Everlog):
    kept.good("backup", "copy")
    before = kept.home.joinpath("copy").read_bytes()
    assert kept("backup", "copy").status == 2
    assert kept.home.joinpath("copy").read_bytes() == before
    done = kept("restore", "copy")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "everlog.db is no new file" in done.err


def test_without_its_keys_a_copy_does_not_open_and_an_erasure_reaches_it(everlog: Everlog):
    here = everlog.at(everlog.home, EVERLOG_MASTER_KEY=KEY)
    here.home.joinpath("sea.jsonl").write_bytes(said(SECRET, "two"))
    here.good("import", "sea.jsonl", "--thread", "sea")
    here.good("import", "sea.jsonl", "--thread", "kept")
    here.good("backup", "monday")
    here.home.joinpath("monday.keys").unlink()
    done = here("--db", "again.db", "restore", "monday")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "name the file of its keys" in done.err
    here.good("erase", "--thread", "sea", "--yes")
    here.good("backup", "tuesday")
    here.good("--db", "again.db", "restore", "monday", "--keys", "tuesday.keys")
    assert here.good("--db", "again.db", "show", "kept", "--json").json[0]["text"] == SECRET
    assert here("--db", "again.db", "show", "sea").status == 1


def test_a_copy_that_finds_no_room_leaves_nothing(kept: Everlog):
    done = kept("backup", "copy", room=50_000)
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert not list(kept.home.glob("copy*"))


@pytest.mark.parametrize("content", [None, b"", b"words", b"SQLite format 3\x00 and then nothing"])
def test_what_is_no_backup_is_refused_and_makes_no_database(everlog: Everlog, content: bytes | None):
    path: Path = everlog.home / "copy"
    if content is not None:
        path.write_bytes(content)
    done = everlog("restore", "copy")
    assert (done.status, done.out, done.err.count("\n")) == (2, b"", 1)
    assert not list(everlog.home.glob("everlog.db*"))


def test_of_two_backups_to_one_name_at_once_one_is_made_and_the_other_says_so(kept: Everlog):
    for n in range(3):
        both = [kept.begin("backup", f"copy {n}") for _ in range(2)]
        done = sorted((finish(process) for process in both), key=lambda one: one.status)
        assert [one.status for one in done] == [0, 2]
        assert (done[1].err.count("\n"), f"copy {n}" in done[1].err) == (1, True)
        assert not list(kept.home.glob("*.part*"))
        assert kept.good("--db", f"again {n}.db", "restore", f"copy {n}", "--json").json["entries"] == 420


def test_a_backup_is_put_back_without_its_master_key_and_opens_with_it(everlog: Everlog):
    here = everlog.at(everlog.home, EVERLOG_MASTER_KEY=KEY)
    here.home.joinpath("sea.jsonl").write_bytes(said(SECRET, "two"))
    here.good("import", "sea.jsonl", "--thread", "sea")
    here.good("backup", "copy")
    assert "its master key opens it" in everlog.good("--db", "again.db", "restore", "copy").text
    assert everlog.good("--db", "other.db", "restore", "copy", "--json").json["entries"] is None
    assert here.good("--db", "again.db", "show", "sea", "--json").json[0]["text"] == SECRET
