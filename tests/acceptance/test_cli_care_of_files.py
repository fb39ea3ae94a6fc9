"""Files of people's own: what is read is a file, and what the database needs is never written over."""

import os

import pytest

from tests.acceptance.cli import HARBOUR, Everlog


@pytest.mark.parametrize("target", ["everlog.db", "everlog.db-wal", "link", "k"])
@pytest.mark.parametrize("command", [["export", "--all", "--force", "-o"], ["backup"]])
def test_nothing_is_written_over_the_database_or_its_key(everlog: Everlog, command: list[str], target: str):
    everlog.good("keys", "new", "k")
    everlog.good("import", HARBOUR, "--key-file", "k")
    (everlog.home / "link").hardlink_to(everlog.home / "everlog.db")
    done = everlog(*command, target, "--key-file", "k")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "belongs to, the database or its keys" in done.err
    everlog.good("verify", "--key-file", "k")


def test_an_export_writes_over_another_file_only_if_told_to(everlog: Everlog):
    everlog.good("import", HARBOUR)
    out = everlog.home / "out"
    out.write_bytes(b"mine")
    assert "--force" in everlog("export", "--all", "-o", "out").err
    assert out.read_bytes() == b"mine"
    everlog.good("export", "--all", "-o", "out", "--force")
    assert out.read_bytes() == HARBOUR.read_bytes()


def test_a_key_file_that_is_no_file_is_refused_at_once(everlog: Everlog):
    everlog.good("import", HARBOUR)
    os.mkfifo(everlog.home / "pipe")
    (everlog.home / "huge").write_bytes(b"A" * 70_000)
    for name in ("pipe", ".", "/dev/zero", "huge", "missing", "~nouser/k"):
        done = everlog("threads", "--key-file", name)
        assert (done.status, done.err.count("\n")) == (2, 1), name
        assert name in done.err


@pytest.mark.parametrize("database", ["/dev/null", ".", "postgresql://[::1", "~nouser/x.db"])
def test_what_can_be_no_database_is_explained_in_one_line(everlog: Everlog, database: str):
    done = everlog("import", HARBOUR, "--db", database)
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "unexpected" not in done.err


def test_an_encrypted_backup_opened_as_it_is_says_to_restore_it(everlog: Everlog):
    everlog.good("keys", "new", "k")
    everlog.good("import", HARBOUR, "--key-file", "k")
    everlog.good("backup", "copy", "--key-file", "k")
    done = everlog("threads", "--db", "copy", "--key-file", "k")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "everlog restore" in done.err
    everlog.good("restore", "copy", "--db", "again.db", "--key-file", "k")


@pytest.mark.parametrize("room", [512, 70_000, 140_000])
def test_a_disk_that_is_full_while_a_database_is_made_is_said(everlog: Everlog, room: int):
    done = everlog("import", HARBOUR, room=room)
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert "unexpected" not in done.err


def test_an_erasure_of_nobody_leaves_no_receipt(everlog: Everlog):
    everlog.good("import", HARBOUR)
    for target in (["--user", "nobody"], ["--tenant", "nobody"], ["--user", "x" * 201], ["--thread", "x" * 201]):
        done = everlog("erase", *target, "--yes")
        assert (done.status, done.out, done.err.count("\n")) == (2, b"", 1)
    assert "0, all done" in everlog.good("doctor").text
    assert everlog("view", "harbour", "--bytes", 1 << 63).status == 2
