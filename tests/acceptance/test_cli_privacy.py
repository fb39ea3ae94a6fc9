"""Keys, encryption and erasure from the command line."""

import base64
import json
import re
import stat
from pathlib import Path

import pytest

from tests.acceptance.cli import HARBOUR, Everlog, finish, said

KEY = base64.b64encode(bytes(range(32))).decode()
OTHER = base64.b64encode(bytes(32)).decode()
SECRET = "a sentence about the sea that nobody else may ever read"


def files(everlog: Everlog) -> bytes:
    return b"".join(path.read_bytes() for path in everlog.home.iterdir() if path.name.startswith("everlog.db"))


@pytest.fixture
def talk(everlog: Everlog) -> Path:
    path = everlog.home / "talk.jsonl"
    path.write_bytes(said(SECRET, "two", "three"))
    return path


def test_a_master_key_makes_a_new_database_encrypted(everlog: Everlog, talk: Path):
    everlog.good("import", talk, "--thread", "sea", EVERLOG_MASTER_KEY=KEY)
    assert SECRET.encode()[:8] not in files(everlog)
    assert everlog.good("show", "sea", "--json", EVERLOG_MASTER_KEY=KEY).json[0]["text"] == SECRET
    assert everlog.good("stats", "--json", EVERLOG_MASTER_KEY=KEY).json["encryption"] == "on"
    assert everlog.good("verify", "--json", EVERLOG_MASTER_KEY=f"{KEY},{OTHER}").json["faults"] == []


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        ("", "set EVERLOG_MASTER_KEY"),
        (OTHER, "was written with"),
        ("not base64!", "EVERLOG_MASTER_KEY: "),
        ("c2hvcnQ=", "EVERLOG_MASTER_KEY: "),
    ],
)
def test_a_missing_or_wrong_key_opens_nothing_and_says_so(everlog: Everlog, talk: Path, key: str, complaint: str):
    everlog.good("import", talk, EVERLOG_MASTER_KEY=KEY)
    for command in (["threads"], ["import", talk], ["verify"]):
        done = everlog(*command, EVERLOG_MASTER_KEY=key)
        assert (done.status, done.out, done.err.count("\n")) == (2, b"", 1)
        assert complaint in done.err
        assert not key or key not in done.err
    told = json.loads(everlog("threads", "--json", EVERLOG_MASTER_KEY=key).err)
    assert told["type"] == "KeyTrouble"
    assert [one["state"] for one in everlog("doctor", "--json", EVERLOG_MASTER_KEY=key).json["checks"]][-1] == "fail"


def test_a_key_for_a_plain_database_is_refused_and_encrypt_is_named(everlog: Everlog, talk: Path):
    everlog.good("import", talk)
    done = everlog("threads", EVERLOG_MASTER_KEY=KEY)
    assert done.status == 2
    assert "everlog encrypt" in done.err


def test_a_key_file_is_made_for_its_owner_only_and_never_overwritten(everlog: Everlog):
    made = everlog.good("keys", "new", "everlog.key").text
    path = everlog.home / "everlog.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(base64.b64decode(path.read_text())) == 32
    assert path.read_text().strip() not in made
    before = path.read_bytes()
    assert everlog("keys", "new", "everlog.key").status == 2
    assert path.read_bytes() == before
    assert everlog("keys", "new", "no/such/folder.key").err.count("\n") == 1
    printed = everlog.good("keys", "new").text.strip()
    assert len(base64.b64decode(printed)) == 32
    assert everlog.good("keys", "new", "--json").json.keys() == {"key"}


def test_a_key_file_wins_over_a_key_and_an_option_over_the_environment(everlog: Everlog, talk: Path):
    everlog.home.joinpath("right.key").write_text(KEY)
    everlog.home.joinpath("wrong.key").write_text(OTHER)
    everlog.good("--key-file", "right.key", "import", talk)
    everlog.good("threads", EVERLOG_KEY_FILE="right.key", EVERLOG_MASTER_KEY=OTHER)
    everlog.good("threads", "--key-file", "right.key", EVERLOG_KEY_FILE="wrong.key")
    assert "missing.key" in everlog("threads", "--key-file", "missing.key").err
    checks = everlog.good("doctor", "--json", "--key-file", "right.key").json["checks"]
    assert {"name": "keys", "state": "ok", "said": "from --key-file"} in checks
    assert [one["name"] for one in checks if one["state"] == "todo"] == ["key file", "trees"]


def test_encrypt_seals_what_is_there_and_a_second_time_finds_it_done(everlog: Everlog, talk: Path):
    everlog.good("import", talk, "--thread", "sea")
    assert SECRET.encode() in files(everlog)
    assert "--key-file" in everlog("encrypt").err
    done = everlog.good("encrypt", "--json", EVERLOG_MASTER_KEY=KEY).json
    assert (done["encryption"], done["already"], done["rows"] > 0) == ("on", False, True)
    assert SECRET.encode()[:8] not in files(everlog)
    assert "encrypted already" in everlog.good("encrypt", EVERLOG_MASTER_KEY=KEY).text
    assert everlog.good("show", "sea", "--json", EVERLOG_MASTER_KEY=KEY).json[0]["text"] == SECRET


def test_an_encryption_that_was_killed_goes_on(everlog: Everlog, talk: Path):
    everlog.good("import", talk, "--thread", "sea")
    everlog("encrypt", EVERLOG_MASTER_KEY=KEY, dies_at=("encrypt.rows.before_commit", 1))
    assert everlog.good("show", "sea", "--json", EVERLOG_MASTER_KEY=KEY).json[0]["text"] == SECRET
    assert "goes on" in everlog.good("doctor", EVERLOG_MASTER_KEY=KEY).text
    everlog.good("encrypt", EVERLOG_MASTER_KEY=KEY)
    assert SECRET.encode()[:8] not in files(everlog)


def test_the_master_key_is_changed_by_rotating_under_both_and_taking_the_old_one_away(everlog: Everlog, talk: Path):
    everlog.good("import", talk, "--thread", "sea", EVERLOG_MASTER_KEY=KEY)
    both = f"{OTHER} {KEY}"
    assert "keys rotate" in everlog.good("doctor", EVERLOG_MASTER_KEY=both).text
    rotated = everlog("keys", "rotate", EVERLOG_MASTER_KEY=both)
    assert rotated.status == 0
    assert "1 older master key can be taken away" in rotated.err
    assert everlog("keys", "retire", EVERLOG_MASTER_KEY=both).status == 2
    assert "0 erasures settled" in everlog.good("keys", "retire", EVERLOG_MASTER_KEY=OTHER).text
    assert everlog.good("show", "sea", "--json", EVERLOG_MASTER_KEY=OTHER).json[0]["text"] == SECRET
    assert everlog("show", "sea", EVERLOG_MASTER_KEY=KEY).status == 2


def test_keys_are_joined_in_a_file_for_its_owner_only_in_the_order_that_is_given(everlog: Everlog, talk: Path):
    for name in ("old", "new"):
        everlog.good("keys", "new", f"{name}.key")
    everlog.good("import", talk, "--thread", "sea", "--key-file", "old.key")
    (everlog.home / "words.key").write_text("not base64!")
    for taken in ("new.key", "everlog.db", "talk.jsonl"):
        before = (everlog.home / taken).read_bytes()
        assert everlog("keys", "join", taken, "new.key", "old.key").status == 2
        assert (everlog.home / taken).read_bytes() == before
    for bad in (["missing.key"], ["new.key", "words.key"], []):
        assert everlog("keys", "join", "both.key", *bad).status == 2
        assert not (everlog.home / "both.key").exists()
    done = everlog.good("keys", "join", "both.key", "new.key", "old.key", "new.key", "--json").json
    both = everlog.home / "both.key"
    assert (done["file"], done["keys"], stat.S_IMODE(both.stat().st_mode)) == ("both.key", 2, 0o600)
    assert both.read_text() == "".join((everlog.home / f"{name}.key").read_text() for name in ("new", "old"))
    assert everlog("keys", "rotate", "--key-file", "both.key").status == 0
    everlog.good("keys", "retire", "--key-file", "new.key")
    assert everlog.good("show", "sea", "--json", "--key-file", "new.key").json[0]["text"] == SECRET
    assert everlog("show", "sea", "--key-file", "old.key").status == 2


def test_a_key_file_that_cannot_be_written_to_its_end_is_not_there(everlog: Everlog):
    everlog.home.joinpath("many").write_text("\n".join(base64.b64encode(bytes([n]) * 32).decode() for n in range(20)))
    done = everlog("keys", "join", "k", "many", room=400)
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert not everlog.home.joinpath("k").exists()


def test_rotating_a_plain_database_is_a_mistake(everlog: Everlog, talk: Path):
    everlog.good("import", talk)
    assert everlog("keys", "rotate").status == 2
    assert everlog("keys", "retire").status == 2


@pytest.mark.parametrize("key", ["", KEY])
def test_a_thread_that_is_erased_leaves_a_receipt_and_no_word(everlog: Everlog, talk: Path, key: str):
    here = everlog.at(everlog.home, EVERLOG_MASTER_KEY=key)
    here.good("import", talk, "--thread", "sea")
    here.good("import", HARBOUR)
    here.good("pump")
    receipt = here.good("erase", "--thread", "sea", "--yes", "--json").json
    assert (receipt["target"], receipt["state"], receipt["entries"]) == ("thread", "done", 3)
    assert SECRET.encode()[:24] not in files(here)
    assert here("show", "sea").status == 2
    assert [one["key"] for one in here.good("threads", "--json").json] == ["harbour"]
    assert here.good("verify", "--json").json["faults"] == []


def test_a_user_is_erased_and_tombstones_stay(everlog: Everlog):
    lines = [
        {"i": n, "kind": "user", "author": f"A{n}", "text": f"{SECRET} {n}", "time": "2026-01-01T00:00:00Z", "turn": n}
        | {"origin": {"user": f"u{n}"}}
        for n in range(3)
    ]
    everlog.home.joinpath("users.jsonl").write_text("\n".join(map(json.dumps, lines)))
    everlog.good("import", "users.jsonl", "--thread", "sea")
    shown = everlog.good("erase", "--user", "u1", "--yes").text
    assert re.search(r"^state +done", shown, re.MULTILINE)
    assert re.search(r"^entries +1$", shown, re.MULTILINE)
    entries = everlog.good("show", "sea", "--json").json
    assert [(one["text"], one.get("erased", False)) for one in entries] == [
        (f"{SECRET} 0", False),
        ("", True),
        (f"{SECRET} 2", False),
    ]
    assert "(erased)" in everlog.good("show", "sea").text
    nobody = everlog("erase", "--user", "nobody", "--yes")
    assert (nobody.status, nobody.out) == (2, b"")
    assert "no turn of user" in nobody.err


def test_a_tenant_is_erased_and_others_stay(everlog: Everlog, talk: Path):
    for tenant in ("acme", "default"):
        everlog.good("--tenant", tenant, "import", talk, "--thread", "sea")
    receipt = everlog.good("erase", "--tenant", "acme", "--yes", "--json").json
    assert (receipt["target"], receipt["entries"]) == ("tenant", 3)
    assert everlog.good("threads", "--json", "--tenant", "acme").json == []
    assert len(everlog.good("threads", "--json").json) == 1


def test_a_thread_of_another_tenant_is_erased_with_the_tenant_before_the_command(everlog: Everlog, talk: Path):
    everlog.good("--tenant", "acme", "import", talk, "--thread", "sea")
    assert "before `erase`" in everlog("erase", "--thread", "sea", "--tenant", "acme", "--yes").err
    assert everlog.good("threads", "--json", "--tenant", "acme").json != []
    assert everlog.good("--tenant", "acme", "erase", "--thread", "sea", "--yes", "--json").json["entries"] == 3


def test_nothing_is_erased_without_a_yes_when_nobody_can_be_asked(everlog: Everlog, talk: Path):
    everlog.good("import", talk, "--thread", "sea")
    for target in (["--thread", "sea"], ["--user", "u"], ["--tenant", "default"]):
        done = everlog("erase", *target, stdin=b"y\n")
        assert (done.status, done.err.count("\n")) == (2, 1)
        assert "--yes" in done.err
    assert everlog("erase", "--yes").status == 2
    assert everlog("erase", "--yes", "--thread", "sea", "--user", "u").status == 2
    assert everlog.good("threads", "--json").json[0]["entries"] == 3


def test_an_erasure_that_was_killed_is_finished_by_doctor(everlog: Everlog, talk: Path):
    everlog.good("import", talk, "--thread", "sea")
    everlog("erase", "--thread", "sea", "--yes", dies_at=("erase.begin.after_commit", 1))
    assert re.search(r"^erasures +todo", everlog.good("doctor").text, re.MULTILINE)
    assert re.search(r"^erasures +ok +1, all done", everlog.good("doctor", "--fix").text, re.MULTILINE)
    assert SECRET.encode()[:24] not in files(everlog)


def test_a_thread_that_is_erased_while_all_are_exported_is_left_out(everlog: Everlog):
    everlog.home.joinpath("long.jsonl").write_bytes(said(*(f"{n} " * 500 for n in range(400))))
    everlog.home.joinpath("short.jsonl").write_bytes(said("a few words"))
    for key, name in (("long", "long"), ("gone", "short"), ("last", "short")):
        everlog.good("import", f"{name}.jsonl", "--thread", key)
    exporting = everlog.begin("export", "--all")
    assert b'"thread":"long"' in exporting.stdout.readline()  # it waits now, for nobody reads what follows
    everlog.good("erase", "--thread", "gone", "--yes")
    rest = exporting.stdout.read().decode()
    assert (finish(exporting).status, rest.count("\n")) == (0, 400)
    assert [key for key in ("gone", "last") if f'"thread":"{key}"' in rest] == ["last"]


def test_an_empty_name_of_a_tenant_is_refused_and_is_not_the_default_one(everlog: Everlog):
    everlog.good("import", HARBOUR)
    done = everlog("--tenant", "", "erase", "--thread", "harbour", "--yes")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert [one["key"] for one in everlog.good("threads", "--json").json] == ["harbour"]
