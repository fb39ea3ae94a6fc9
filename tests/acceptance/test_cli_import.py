"""`everlog import`: what comes in, what is reported, and what a stop in the middle leaves."""

import json
import signal
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from everlog import open as open_database
from tests.acceptance.cli import HARBOUR, ROOT, Everlog, finish, jsonl, said

SAMPLES = ROOT / "tests" / "samples"
MESSAGES = 2300
"""Three pages of an import."""


@pytest.mark.parametrize(
    ("form", "sample"),
    [
        ("beam", "beam/boat/chat.json"),
        ("chatgpt", "chatgpt/2026/conversations-000.json"),
        ("claude-ai", "claude_ai/2026/conversations.json"),
        ("claude-code", "claude_code/2.1/5e550000-0000-4000-8000-000000000002.jsonl"),
        ("codex", "codex/rollout-2026-04-02T10-00-00-c0de0000-0000-4000-8000-000000000002.jsonl"),
        ("everlog", "everlog/threads.jsonl"),
        ("locomo", "locomo/talks.json"),
        ("openai", "openai/conversations.jsonl"),
    ],
)
def test_each_format_is_recognised_and_a_second_import_adds_nothing(everlog: Everlog, form: str, sample: str):
    (first,) = everlog.good("import", SAMPLES / sample, "--json").json["files"]
    assert first["format"] == form
    assert first["entries"] > 0
    before = everlog.good("export", "--all").out
    total = everlog.good("import", SAMPLES / sample, "--format", form, "--json").json["total"]
    assert (total["entries"], total["known"] > 0) == (0, True)
    assert everlog.good("export", "--all").out == before
    assert everlog.good("verify", "--json").json["faults"] == []


def test_what_is_skipped_unknown_or_left_out_is_reported_and_the_rest_goes_in(everlog: Everlog):
    done = everlog.good("import", SAMPLES / "claude_ai/2026/conversations.json")
    assert f"  {SAMPLES}/claude_ai/2026/conversations.json #2: it has no uuid\n" in done.text
    assert "1 sender moderator" in done.text
    assert "1 reasoning" in done.text
    (file,) = everlog.good("import", SAMPLES / "claude_ai/2026/conversations.json", "--json").json["files"]
    assert file["problems"] == [{"where": "conversations.json", "position": 2, "reason": "it has no uuid"}]
    assert file["unknown"]["sender moderator"] == 1
    assert file["left_out"]["reasoning"] == 1
    assert file["skipped"] == 1


def test_a_long_list_of_problems_is_cut_for_people_and_whole_in_json(everlog: Everlog):
    broken = b'{"role":"user","content":"fine"}\n' + b"{broken\n" * 50
    everlog.home.joinpath("broken.jsonl").write_bytes(broken)
    shown = everlog.good("import", "broken.jsonl").text
    assert shown.count("broken.jsonl #") == 20
    assert "and 30 more; --json lists them all" in shown
    assert len(everlog.good("import", "broken.jsonl", "--json").json["files"][0]["problems"]) == 50


def test_a_conversation_goes_into_the_thread_that_is_named_and_so_do_its_branches(everlog: Everlog):
    everlog.home.joinpath("talk.jsonl").write_bytes(said("one", "two"))
    everlog.good("import", "talk.jsonl", "--thread", "my talk")
    assert [one["key"] for one in everlog.good("threads", "--json").json] == ["my talk"]
    sample = SAMPLES / "codex/rollout-2026-04-02T10-00-00-c0de0000-0000-4000-8000-000000000002.jsonl"
    everlog.good("import", sample, "--thread", "clock", "--db", "clock.db")
    threads = everlog.good("threads", "--json", "--db", "clock.db").json
    assert [(one["key"], one["forked_from"]) for one in threads] == [("clock", None), ("clock#msg_u2", "clock")]


def test_a_thread_that_is_named_takes_one_conversation_of_a_file(everlog: Everlog):
    done = everlog("import", SAMPLES / "openai/conversations.jsonl", "--thread", "one")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "several conversations" in done.err
    assert not everlog.home.joinpath("everlog.db").exists()


def test_a_newer_export_adds_what_is_new_and_an_edited_one_becomes_a_fork(everlog: Everlog):
    talk = everlog.home / "talk.jsonl"
    talk.write_bytes(said("one", "two"))
    everlog.good("import", talk, "--thread", "talk")
    talk.write_bytes(said("one", "two", "three", "four"))
    assert everlog.good("import", talk, "--thread", "talk", "--json").json["total"]["entries"] == 2
    talk.write_bytes(said("one", "two", "drei"))
    report = everlog.good("import", talk, "--thread", "talk", "--json").json
    assert (report["total"]["forks"], report["files"][0]["threads"]) == (1, ["talk~1"])
    assert [entry["text"] for entry in everlog.good("show", "talk", "--json").json] == ["one", "two", "three", "four"]
    assert [entry["text"] for entry in everlog.good("show", "talk~1", "--json").json] == ["one", "two", "drei"]


def test_one_bad_file_among_good_ones_is_named_and_the_others_go_in(everlog: Everlog):
    everlog.home.joinpath("empty.json").touch()
    done = everlog("import", "empty.json", HARBOUR, "missing.json")
    assert done.status == 2
    assert [line.split(" ")[1] for line in done.err.splitlines()] == ["empty.json", "missing.json"]
    assert "418 new" in done.text


def test_nothing_that_can_be_read_is_a_failure(everlog: Everlog):
    everlog.home.joinpath("bad.jsonl").write_bytes(b'{"role":"user","content":"x","name":3}\n[1]\n')
    everlog.home.joinpath("none.jsonl").write_bytes(b'{"messages":"not a list"}\n{"messages":7}\n')
    done = everlog("import", "none.jsonl", "--format", "openai")
    assert done.status == 1
    assert done.text.count("its messages are not a list") == 2


@pytest.mark.parametrize(
    "args",
    [
        ["nothing.json"],
        ["nothing.json", "--thread", "x"],
        ["broken.json"],
        ["empty.json"],
        ["binary.zip"],
        ["talk.jsonl", "--format", "codex"],
        ["talk.jsonl", "--format", "nonsense"],
        ["talk.jsonl", "--thread", "x" * 201],
        ["talk.jsonl", "--tenant", "two words"],
        ["talk.jsonl", "--key-file", "nothing.key"],
        ["talk.jsonl", "--key-file", "broken.json"],
        ["two.jsonl", "--thread", "one"],
        ["--thread", "x"],
        ["talk.jsonl", "--nonsense"],
    ],
)
def test_an_import_that_fails_makes_no_database_and_leaves_nothing_in_the_way_of_one_with_a_key(
    everlog: Everlog, args: list[str]
):
    home = everlog.home
    everlog.good("keys", "new", "key")
    home.joinpath("talk.jsonl").write_bytes(said("one", "two"))
    home.joinpath("two.jsonl").write_bytes((SAMPLES / "openai/conversations.jsonl").read_bytes())
    home.joinpath("broken.json").write_bytes(b'{"a"')
    home.joinpath("empty.json").touch()
    home.joinpath("binary.zip").write_bytes(bytes(range(256)))
    before = sorted(home.iterdir())
    assert everlog("import", *args).status in {1, 2}
    assert sorted(home.iterdir()) == before
    everlog.good("import", "talk.jsonl", "--key-file", "key")
    assert everlog.good("stats", "--json", "--key-file", "key").json["encryption"] == "on"


def test_a_database_that_nothing_is_stored_in_is_encrypted_by_the_first_import_with_a_key(everlog: Everlog):
    """One that holds something is left as it is."""
    with open_database(everlog.home / "everlog.db"):
        pass
    everlog.home.joinpath("talk.jsonl").write_bytes(said("a sentence about the sea", "two"))
    everlog.good("keys", "new", "key")
    everlog.good("import", "talk.jsonl", "--thread", "talk", "--key-file", "key")
    assert everlog.good("stats", "--json", "--key-file", "key").json["encryption"] == "on"
    assert b"sentence" not in everlog.home.joinpath("everlog.db").read_bytes()
    everlog.good("import", "talk.jsonl", "--db", "plain.db")
    assert "everlog encrypt" in everlog("import", "talk.jsonl", "--db", "plain.db", "--key-file", "key").err
    assert everlog.good("stats", "--json", "--db", "plain.db").json["encryption"] == "off"


def test_an_empty_file_where_a_database_is_to_be_is_filled_by_what_is_stored_and_not_before(everlog: Everlog):
    everlog.home.joinpath("everlog.db").touch()
    assert everlog("import", "nothing.json").status == 2
    assert everlog.home.joinpath("everlog.db").stat().st_size == 0
    everlog.good("import", HARBOUR)


def test_a_database_that_does_not_open_is_said_before_a_file_is_read(everlog: Everlog):
    everlog.good("keys", "new", "key")
    everlog.good("import", HARBOUR)
    done = everlog("import", "nothing.json", "--key-file", "key")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "is not encrypted, but a master key is given" in done.err


@pytest.fixture(scope="module")
def long_talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A conversation that takes several pages to store."""
    path = tmp_path_factory.mktemp("talk") / "long.jsonl"
    path.write_bytes(said(*(f"message {n}" for n in range(MESSAGES))))
    return path


@pytest.mark.parametrize("point", [("import.page.before_commit", 2), ("import.page.after_commit", 2)])
def test_an_import_killed_in_the_middle_is_finished_by_running_it_again(
    everlog: Everlog, long_talk: Path, point: tuple[str, int]
):
    killed = everlog("import", long_talk, "--thread", "talk", dies_at=point)
    assert killed.status == -signal.SIGKILL
    stored = everlog.good("threads", "--json").json[0]["entries"]
    assert 0 < stored < MESSAGES
    total = everlog.good("import", long_talk, "--thread", "talk", "--json").json["total"]
    assert (total["entries"], total["known"]) == (MESSAGES - stored, stored)
    everlog.good("import", long_talk, "--thread", "talk", "--db", "whole.db")
    assert texts(everlog) == texts(everlog, "--db", "whole.db") == [f"message {n}" for n in range(MESSAGES)]
    assert turns(everlog) == turns(everlog, "--db", "whole.db")
    assert everlog.good("verify", "--json").json == {"threads": 1, "entries": MESSAGES, "erased": 0, "faults": []}


def texts(everlog: Everlog, *options: str) -> list[str]:
    return [entry["text"] for entry in exported(everlog, *options)]


def turns(everlog: Everlog, *options: str) -> list[tuple[int, int, str]]:
    return [(entry["i"], entry["turn"], entry["kind"]) for entry in exported(everlog, *options)]


def exported(everlog: Everlog, *options: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in everlog.good("export", "talk", *options).out.splitlines()]


def test_ctrl_c_stops_an_import_and_says_how_to_go_on(everlog: Everlog, long_talk: Path):
    stopped = everlog("import", long_talk, dies_at=("import.page.after_commit", 1), by=signal.SIGINT)
    assert stopped.status == 130
    assert (
        stopped.err
        == f"stopped in {long_talk}; run the same command again to go on, what is in already is recognised\n"
    )
    assert everlog.good("import", long_talk, "--json").json["total"]["known"] >= 1000


def test_two_processes_import_into_one_new_file_at_once(everlog: Everlog, long_talk: Path):
    other = everlog.home / "other.jsonl"
    other.write_bytes(said(*(f"other {n}" for n in range(1200))))
    both = [everlog.begin("import", path, "--thread", path.stem) for path in (long_talk, other)]
    assert [(done.status, done.err) for done in map(finish, both)] == [(0, "")] * 2
    assert {one["key"]: one["entries"] for one in everlog.good("threads", "--json").json} == {
        "long": MESSAGES,
        "other": 1200,
    }
    assert everlog.good("verify", "--json").json == {
        "threads": 2,
        "entries": MESSAGES + 1200,
        "erased": 0,
        "faults": [],
    }


def test_two_processes_import_the_same_conversation_and_it_is_there_once(everlog: Everlog):
    everlog.home.joinpath("talk.jsonl").write_bytes(said(*(f"message {n}" for n in range(1200))))
    both = [everlog.begin("import", "talk.jsonl", "--thread", "talk") for _ in range(2)]
    assert [(done.status, done.err) for done in map(finish, both)] == [(0, "")] * 2
    assert texts(everlog) == [f"message {n}" for n in range(1200)]
    assert len(everlog.good("threads", "--json").json) == 1


def test_messages_of_every_script_and_odd_characters_come_back_as_they_were(everlog: Everlog):
    words = [
        "\u05e9\u05dc\u05d5\u05dd \u202e right to left",
        "e\u0301 combining \u0947",
        "NUL \x00 and \x1b[31m escapes",
        "half a pair \ud83d and \ude00 alone",
        "\r\n line\rbreaks\u2028 of all \x85 kinds",
        "",
        " ",
        "\ufeff",
    ]
    messages = [{"role": "user", "content": text, "name": f"n{n}"} for n, text in enumerate(words)]
    everlog.home.joinpath("odd.jsonl").write_bytes(jsonl(messages))
    everlog.good("import", "odd.jsonl", "--thread", "talk")
    stored = exported(everlog)
    assert [(entry["text"], entry["author"]) for entry in stored] == [(text, f"n{n}") for n, text in enumerate(words)]
    assert everlog.good("verify", "--json").json["faults"] == []


def test_a_conversation_that_cannot_be_stored_is_a_problem_and_the_rest_goes_in(everlog: Everlog):
    fine = {"id": "fine", "messages": [{"role": "user", "content": "x", "model": "m"}]}
    also = {"id": "x" * 300, "messages": [{"role": "assistant", "content": "y", "model": "m" * 300}]}
    bad = {"id": "bad", "user": "u" * 300, "messages": [{"role": "user", "content": "z"}]}
    everlog.home.joinpath("talks.jsonl").write_bytes(jsonl([bad, also, fine]))
    (file,) = everlog.good("import", "talks.jsonl", "--json").json["files"]
    (problem,) = file["problems"]
    assert (problem["where"], problem["position"]) == ("talks.jsonl", 1)
    assert problem["reason"].startswith("thread 'openai:bad': an id (of a request")
    assert file["assumed"]["name too long or not printable, cut"] == 3
    threads = everlog.good("threads", "--json").json
    assert [(one["key"][:12], one["entries"]) for one in threads] == [("openai:xxxxx", 1), ("openai:fine", 1)]


def test_a_file_that_is_refused_for_a_thread_leaves_nothing_and_the_others_go_in(everlog: Everlog):
    for name, words in (("a", "one"), ("c", "one")):
        everlog.home.joinpath(f"{name}.jsonl").write_bytes(said(words))
    several = [{"id": n, "messages": [{"role": "user", "content": n}]} for n in "xy"]
    everlog.home.joinpath("b.jsonl").write_bytes(jsonl(several))
    done = everlog("import", "a.jsonl", "b.jsonl", "c.jsonl", "--thread", "one", "--json")
    assert done.status == 2
    assert "several conversations" in done.err
    assert done.json["total"]["entries"] == 1
    assert done.json["total"]["known"] == 1
    assert [one["key"] for one in everlog.good("threads", "--json").json] == ["one"]


@pytest.mark.parametrize("name", ["everlog.db", "everlog.db-wal", "link", "hard"])
def test_the_database_itself_is_not_opened_as_a_file_to_import(everlog: Everlog, name: str):
    everlog.good("import", HARBOUR)
    wal = everlog.home / "everlog.db-wal"
    wal.touch()
    everlog.home.joinpath("link").symlink_to("everlog.db")
    everlog.home.joinpath("hard").hardlink_to(everlog.home / "everlog.db")
    done = everlog("import", name)
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "belongs to the database itself" in done.err
    assert everlog.good("verify", "--json").json["faults"] == []


def test_the_same_messages_under_another_file_name_are_known(everlog: Everlog):
    for name in ("one.jsonl", "two.jsonl"):
        everlog.home.joinpath(name).write_bytes(said("a question", "an answer"))
    totals = [everlog.good("import", name, "--json").json["total"] for name in ("one.jsonl", "two.jsonl")]
    assert [(one["entries"], one["known"]) for one in totals] == [(2, 0), (0, 2)]
    (thread,) = everlog.good("threads", "--json").json
    assert thread["title"] == "a question"


def test_a_tenant_that_is_none_is_a_mistake_and_no_problem_of_a_conversation(everlog: Everlog):
    done = everlog("import", HARBOUR, "--tenant", "two words")
    assert (done.status, done.out, done.err.count("\n")) == (2, b"", 1)


def test_standard_input_is_a_file_among_others(everlog: Everlog):
    first = everlog.good("import", "-", "--thread", "piped", stdin=said("a", "b"))
    assert first.text.startswith(
        "standard input (openai)\n  conversations  1, in thread piped\n  entries        2 new,"
    )
    again = everlog.good("import", "-", "--thread", "piped", "--json", stdin=said("a", "b", "c")).json
    assert (again["files"][0]["file"], again["total"]["entries"], again["total"]["known"]) == ("standard input", 1, 2)
    archive = BytesIO()
    with ZipFile(archive, "w") as packed:
        packed.writestr("conversations.json", (SAMPLES / "chatgpt/2023/conversations.json").read_bytes())
    assert "(chatgpt)" in everlog.good("import", "-", stdin=archive.getvalue()).text
    exported = everlog.good("export", "piped").out
    other = everlog.at(everlog.home, EVERLOG_DB="other.db")
    assert other.good("import", "-", stdin=exported).text.splitlines()[1].endswith("in thread piped")
    assert other.good("export", "piped").out == exported


def test_what_is_wrong_with_standard_input_is_said_of_it(everlog: Everlog):
    assert everlog("import", "-").err == "everlog: standard input is empty\n"
    broken = everlog("import", "-", stdin=b"[{")
    assert broken.err.startswith("everlog: standard input ends too early")
    assert broken.status == 2


def test_problems_and_errors_name_a_file_with_its_path(everlog: Everlog):
    for folder in ("one", "two"):
        (everlog.home / folder).mkdir()
        (everlog.home / folder / "talk.jsonl").write_bytes(said("a", "b") + b'{"messages":3}\n')
        (everlog.home / folder / "broken.json").write_bytes(b'[{"role":"user","content":"x"}')
    done = everlog("import", "one/talk.jsonl", "two/talk.jsonl", "one/broken.json", "two/broken.json")
    for folder in ("one", "two"):
        assert f"  {folder}/talk.jsonl #3: its messages are not a list\n" in done.text
        assert f"everlog: {folder}/broken.json ends too early" in done.err
