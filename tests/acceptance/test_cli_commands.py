"""What each command does, in real processes."""

import json
import re
from pathlib import Path

from everlog.surfaces.cli.catalogue import COMMANDS, SHARED_HELP
from tests.acceptance.cli import HARBOUR, ROOT, Everlog, jsonl, said

LINES = [json.loads(line) for line in HARBOUR.read_text("utf-8").splitlines()]


def test_import_stores_every_entry_once_and_says_so(everlog: Everlog):
    first = everlog.good("import", HARBOUR).text
    assert "(everlog)" in first
    assert f"{len(LINES)} new, 0 known" in first
    assert f"0 new, {len(LINES)} known" in everlog.good("import", HARBOUR).text
    assert everlog.good("threads", "--json").json[0]["entries"] == len(LINES)


def test_import_with_json_says_what_became_of_each_file(everlog: Everlog):
    report = everlog.good("import", HARBOUR, "--json").json
    (file,) = report["files"]
    assert file["format"] == "everlog"
    assert file["threads"] == ["harbour"]
    assert report["total"] == {
        "conversations": 1,
        "entries": len(LINES),
        "known": 0,
        "forks": 0,
        "instructions": 0,
        "skipped": 0,
    }


def test_threads_lists_keys_and_entries(harbour: Everlog):
    (thread,) = harbour.good("threads", "--json").json
    assert (thread["key"], thread["entries"], thread["forked_from"]) == ("harbour", len(LINES), None)
    heading, row = harbour.good("threads").text.splitlines()
    assert heading.split() == ["THREAD", "ENTRIES", "TITLE"]
    assert row.split()[:2] == ["harbour", str(len(LINES))]


def test_show_prints_the_words_of_the_entries_asked_for(harbour: Everlog):
    shown = harbour.good("show", "harbour", "--from", 1, "--to", 2).text
    assert [line for line in shown.splitlines() if line.startswith("[")] == [
        "[1] assistant, 2026-01-12 09:02:52 UTC",
        "[2] user Mara, 2026-01-12 09:11:47 UTC",
    ]
    assert LINES[1]["text"] in shown
    assert LINES[2]["text"] in shown
    assert [one["i"] for one in harbour.good("show", "harbour", "--last", 2, "--json").json] == [416, 417]
    assert harbour.good("show", "harbour", "--json").json == [
        {name: value for name, value in line.items() if name not in {"thread", "title"}} for line in LINES
    ]


def test_show_refuses_spans_that_contradict_themselves(harbour: Everlog):
    assert harbour("show", "harbour", "--from", 5, "--to", 2).err == "everlog: --to 2 is before --from 5\n"
    assert harbour("show", "harbour", "--last", 2, "--to", 9).status == 2


def test_export_is_what_was_imported_byte_for_byte(harbour: Everlog, tmp_path: Path):
    exported = harbour.good("export", "harbour", "--format", "jsonl").out
    assert exported == HARBOUR.read_bytes()
    assert {"i", "kind", "author", "text", "time"} <= json.loads(exported.splitlines()[-1]).keys()
    target = tmp_path / "out.jsonl"
    assert harbour.good("export", "--all", "-o", target, "--json").json == {"file": str(target), "entries": len(LINES)}
    assert target.read_bytes() == exported
    assert list(tmp_path.iterdir()) == [target]


def test_an_export_that_fails_leaves_the_older_file_as_it_was(harbour: Everlog, tmp_path: Path):
    target = tmp_path / "out.jsonl"
    target.write_text("older")
    done = harbour("export", "harbour", "-o", target, "--force", room=4096)
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out.jsonl", "older")]


def test_export_wants_one_thread_or_all_and_knows_one_format(harbour: Everlog):
    assert harbour("export").status == 2
    assert harbour("export", "harbour", "--all").status == 2
    assert "jsonl" in harbour("export", "harbour", "--format", "xml").err


def test_a_fork_goes_out_and_comes_back_as_a_fork(everlog: Everlog):
    everlog.home.joinpath("talk.jsonl").write_bytes(said("one", "two", "three", "four"))
    everlog.good("import", "talk.jsonl", "--thread", "talk")
    assert everlog.good("fork", "talk", 2, "other", "--json").json == {
        "key": "other",
        "entries": 2,
        "forked_from": "talk",
    }
    everlog.home.joinpath("more.jsonl").write_bytes(said("one", "two", "trois"))
    everlog.good("import", "more.jsonl", "--thread", "other")
    exported = everlog.good("export", "--all").out
    everlog.home.joinpath("all.jsonl").write_bytes(exported)
    assert everlog.good("import", "all.jsonl", "--db", "copy.db", "--json").json["total"]["forks"] == 1
    assert everlog.good("export", "--all", "--db", "copy.db").out == exported
    assert [one["forked_from"] for one in everlog.good("threads", "--json").json] == [None, "talk"]


def test_verify_says_how_much_it_has_checked(harbour: Everlog):
    assert harbour.good("verify", "--json").json == {
        "threads": 1,
        "entries": len(LINES),
        "erased": 0,
        "faults": [],
    }
    assert harbour.good("verify", "harbour").text == f"1 thread, {len(LINES)} entries: all as it was stored\n"


def test_stats_and_doctor_name_the_database_they_speak_of(harbour: Everlog):
    stats = harbour.good("stats", "--json").json
    assert (stats["database"], stats["named_by"]) == ("everlog.db", "the default")
    assert (stats["threads"], stats["entries"], stats["encryption"]) == (1, len(LINES), "off")
    assert sum(stats["kinds"].values()) == len(LINES)
    assert "everlog.db (the default)" in harbour.good("stats").text
    named = harbour.good("doctor", "--json", EVERLOG_DB="./everlog.db").json["checks"]
    assert {one["name"]: one["state"] for one in named if one["state"] != "ok"} == {"words": "skip"}
    assert named[0]["said"] == "everlog.db (EVERLOG_DB)"
    assert {one["name"] for one in named} == {
        "database",
        "tables",
        "encryption",
        "tenant",
        "words",
        "erasures",
        "trees",
        "compactor",
        "cost",
    }


def test_doctor_names_pending_trees_and_fix_builds_them(everlog: Everlog):
    everlog.good("import", HARBOUR)
    assert re.search(r"^trees +todo .*everlog pump", everlog.good("doctor").text, re.MULTILINE)
    assert re.search(r"^trees +ok", everlog.good("doctor", "--fix").text, re.MULTILINE)


def test_doctor_says_of_a_thread_what_its_memory_waits_for_by_the_settings_that_hold(harbour: Everlog):
    told = harbour.good("doctor", "harbour").text
    assert re.search(r"^mode +ok +tree at 20,000 tokens \(the default\)", told, re.MULTILINE)
    assert re.search(r"^lines +ok +all built", told, re.MULTILINE)
    (harbour.home / "everlog.yaml").write_text("memory: {mode: rolling, budget_tokens: 2000}\n")
    told_of = harbour("doctor", "harb", "--json")
    checks = {one["name"]: one for one in told_of.json["checks"]}
    assert told_of.status == 1
    assert checks["mode"]["said"].startswith("rolling at 2,000 tokens (")
    assert "everlog.yaml" in checks["mode"]["said"]
    assert checks["summaries"]["state"] == "fail"
    off = harbour.good("doctor", "harbour", "--json", EVERLOG_MODE="off").json["checks"]
    assert "off (EVERLOG_MODE, " in next(one["said"] for one in off if one["name"] == "mode")


def test_doctor_of_a_thread_that_cannot_be_says_what_to_do(harbour: Everlog):
    assert "leave out the thread" in harbour("doctor", "harbour", "--fix").err
    missing = harbour("doctor", "nowhere")
    assert (missing.status, missing.err.count("\n")) == (2, 1)


def test_doctor_says_that_it_does_not_read_words_and_what_does(harbour: Everlog):
    checks = harbour.good("doctor", "--json").json["checks"]
    (words,) = [one for one in checks if one["name"] == "words"]
    assert words["state"] == "skip"
    assert "`everlog verify`" in words["said"]


def test_a_list_of_threads_says_of_what_a_fork_is_one_as_far_as_its_key_does_not(everlog: Everlog):
    everlog.good("import", HARBOUR.parents[1] / "tests/samples/chatgpt/2023/conversations.json")
    root = everlog.good("threads", "--json").json[0]["key"]
    everlog.good("fork", root, 1, "apart", "--title", "Elsewhere")
    titles = {line.split()[0]: line for line in everlog.good("threads").text.splitlines()}
    assert titles[f"{root}#a1"].endswith("Glue for the locker (fork)")
    assert titles[f"{root}#q3b"].endswith("Glue for the locker (fork of #q1b)")
    assert titles["apart"].endswith(f"Elsewhere (fork of {root})")


def test_doctor_says_what_keeps_the_database_shut(everlog: Everlog):
    done = everlog("doctor", "--json")
    assert done.status == 1
    assert [(one["name"], one["state"]) for one in done.json["checks"]] == [
        ("database", "ok"),
        ("compactor", "ok"),
        ("open", "fail"),
    ]
    assert not list(everlog.home.iterdir())


def test_pump_builds_what_is_missing_and_then_nothing(everlog: Everlog):
    everlog.good("import", HARBOUR)
    assert everlog.good("pump", "--json").json["lines"] > len(LINES)
    assert everlog.good("pump", "harbour", "--json").json == {
        "threads": 1,
        "lines": 0,
        "remaining": 0,
        "unfinished": [],
    }


def test_a_view_is_printed_alone_and_never_exceeds_its_budget(harbour: Everlog):
    for budget in (256, 300, 1000, 8000, 200_000):
        view = harbour.good("view", "harbour", "--bytes", budget).out
        assert len(view) <= budget
        assert view.startswith(b"<chat>\n")
        assert view.endswith(b"\n</chat>")
    assert len(harbour.good("view", "harbour", "--tokens", 500).out) <= 2000
    found = harbour.good("view", "harbour", "--bytes", 1000, "--json").json
    assert found["view"].encode() == harbour.good("view", "harbour", "--bytes", 1000).out
    assert found["size_bytes"] == len(found["view"].encode())
    assert found["entries"] == len(LINES)


def test_a_view_has_one_budget_of_at_least_256_bytes(harbour: Everlog):
    assert harbour("view", "harbour", "--bytes", 255).status == 2
    assert harbour("view", "harbour", "--bytes", 900, "--tokens", 900).status == 2


def test_any_line_of_a_view_opens_down_to_the_words(harbour: Everlog):
    line = harbour.good("view", "harbour", "--bytes", 8000).text.splitlines()[1]
    first, size = (int(word) for word in line.partition("|")[0].split("+"))
    while size > 1:
        lines = harbour.good("zoom", "harbour", first, size).text.splitlines()
        first, size = (int(word) for word in lines[1].partition("|")[0].split("+"))
    opened = harbour.good("zoom", "harbour", first).text
    said = LINES[first]
    speaker = f"{said['kind']} ({said['author']})" if said["author"] else said["kind"]
    assert opened == f"{first}+1|{speaker}: {said['text']}\n"


def test_a_label_is_taken_as_it_is_printed_in_a_view(harbour: Everlog):
    for label, words in (("24+1", (24, 1)), ("16+8", (16, 8)), ("16+8|", (16, 8)), ("24", (24,))):
        assert harbour.good("zoom", "harbour", label).out == harbour.good("zoom", "harbour", *words).out
    assert harbour.good("zoom", "harbour", "16+8", 8, "--json").json["n"] == 8
    assert harbour.good("read", "harbour", "24+1").out == harbour.good("read", "harbour", 24).out
    assert harbour.good("date", "harbour", "24+1").out == harbour.good("date", "harbour", 24).out
    for command in (("read", "16+8"), ("date", "16+8"), ("zoom", "16+8", 4), ("zoom", "x"), ("zoom", "17+8")):
        done = harbour(command[0], "harbour", *command[1:])
        assert (done.status, done.out, done.err.count("\n")) == (2, b"", 1)


def test_the_beginning_of_a_key_reads_and_never_erases(everlog: Everlog):
    everlog.home.joinpath("talk.jsonl").write_bytes(said("one", "two"))
    everlog.good("import", "talk.jsonl", "--thread", "talk:4711")
    everlog.good("view", "talk:4711")
    for command in (
        ("show",),
        ("export",),
        ("view", "--as-is"),
        ("zoom", 0),
        ("read", 0),
        ("date", 0),
        ("search", "one"),
    ):
        name, *rest = command
        assert everlog.good(name, "talk", *rest).out == everlog.good(name, "talk:4711", *rest).out
    assert everlog.good("view", "4711", "--json").json["thread"] == "talk:4711"
    for writes in (["erase", "--yes", "--thread"], ["pump"], ["rebuild"], ["verify"]):
        done = everlog(*writes, "talk")
        assert (done.status, done.err) == (2, "everlog: no thread 'talk' here; did you mean 'talk:4711'?\n")
    assert everlog("fork", "talk", 1, "other").status == 2
    assert everlog.good("threads", "--json").json[0]["entries"] == 2


def test_instructions_are_shown_exported_and_imported_again(everlog: Everlog):
    told = [{"role": "system", "content": "Be brief."}, {"role": "system", "content": "Say it in French."}]
    everlog.home.joinpath("talk.jsonl").write_bytes(jsonl(told) + said("one", "two"))
    everlog.good("import", "talk.jsonl", "--thread", "talk")
    shown = everlog.good("show", "talk", "--instructions").text
    assert shown == "[instructions 1 of 2]\nBe brief.\n\n[instructions 2 of 2]\nSay it in French.\n\n"
    assert everlog.good("show", "talk", "--instructions", "--json").json == ["Be brief.", "Say it in French."]
    exported = everlog.good("export", "talk").out
    assert json.loads(exported.splitlines()[0])["instructions"] == ["Be brief.", "Say it in French."]
    everlog.home.joinpath("again.jsonl").write_bytes(exported)
    everlog.good("import", "again.jsonl", "--db", "copy.db")
    assert everlog.good("export", "talk", "--db", "copy.db").out == exported
    assert everlog("show", "talk", "--instructions", "--last", 1).status == 2
    everlog.good("erase", "--thread", "talk", "--yes")
    assert "Be brief." not in everlog.home.joinpath("everlog.db").read_bytes().decode("latin-1")


def test_a_thread_without_instructions_or_entries_says_so(everlog: Everlog):
    everlog.good("import", HARBOUR)
    done = everlog("show", "harbour", "--instructions")
    assert (done.status, done.out, done.err) == (0, b"", "harbour has no instructions\n")
    everlog.good("fork", "harbour", 0, "bare")
    assert everlog("show", "bare").err == "bare is empty\n"
    assert everlog("show", "bare", "--from", 1).err == "everlog: there is no entry 1: bare is empty\n"
    done = everlog("show", "harbour", "--from", 500)
    assert (done.status, done.err) == (2, "everlog: there is no entry 500: harbour has the entries 0 to 417\n")
    exported = everlog.good("export", "--all").out
    assert exported.splitlines()[-1] == b'{"thread":"bare","fork":{"of":"harbour","at":0},"entries":0}'
    assert everlog.good("export", "--all", "-o", "all.jsonl").text == "all.jsonl: 418 entries\n"
    everlog.good("import", "all.jsonl", "--db", "copy.db")
    assert everlog.good("export", "--all", "--db", "copy.db").out == exported


def test_stats_doctor_and_verify_count_the_same_where_threads_were_forked_and_erased(everlog: Everlog):
    everlog.home.joinpath("talk.jsonl").write_bytes(said("one", "two", "three"))
    everlog.good("import", HARBOUR)
    everlog.good("import", "talk.jsonl", "--thread", "talk")
    everlog.good("fork", "talk", 2, "other")
    for entries, erased in ((len(LINES) + 3, 0), (len(LINES) + 2, 3)):
        stats, proof = everlog.good("stats", "--json").json, everlog.good("verify", "--json").json
        assert (stats["threads"], stats["entries"]) == (proof["threads"], proof["entries"])
        assert (stats["entries"], stats["erased"]) == (entries, erased)
        assert f"{entries} entries" in everlog.good("doctor").text
        if not erased:
            everlog.good("erase", "--thread", "talk", "--yes")
    assert everlog.good("verify", "other").text == "1 thread, 2 entries: all as it was stored\n"


def test_zoom_refuses_what_is_no_address(harbour: Everlog):
    for address in ((3, 2), (0, 3), (418, 1), (-1, 1)):
        done = harbour("zoom", "harbour", *address)
        assert (done.status, done.err.count("\n")) == (2, 1)


def test_pages_of_a_long_message_join_to_the_message(everlog: Everlog):
    text = "na\u00efve \U0001f600 words " * 4000
    everlog.home.joinpath("long.jsonl").write_bytes(said(text))
    everlog.good("import", "long.jsonl", "--thread", "long")
    pages = [everlog.good("read", "long", 0, "--page", page).text for page in range(3)]
    assert "".join(pages) == f"user: {text}"
    assert "numbered from 0 to 2" in everlog("read", "long", 0, "--page", 3).err
    first = everlog.good("read", "long", 0, "--json").json
    assert (first["page"], first["pages"]) == (0, 3)
    assert everlog.good("zoom", "long", 0).text.endswith("\n(page 0 of 0 to 2; read(0, 1) goes on)\n")


def test_date_says_when_a_message_was_said(harbour: Everlog):
    assert harbour.good("date", "harbour", 1).text == "Mon 2026-01-12 09:02 UTC\n"
    assert harbour.good("date", "harbour", 1, "--json").json == {
        "thread": "harbour",
        "id": 1,
        "date": "Mon 2026-01-12 09:02 UTC",
    }
    assert "numbered from 0 to 417" in harbour("date", "harbour", 418).err


def test_search_prints_where_words_are_and_never_what_was_said(harbour: Everlog):
    wanted = [line["i"] for line in LINES if "5432" in line["text"].split()][::-1]
    found = harbour.good("search", "harbour", "5432", "--json").json
    assert [hit["id"] for hit in found["hits"]][:1] == wanted[:1]
    heading, first, *_ = harbour.good("search", "harbour", "5432").text.splitlines()
    assert heading.split() == ["ID", "WORDS", "WHEN", "WHO"]
    entry = LINES[wanted[0]]
    assert first.split("  ", 1)[0] == str(wanted[0])
    assert first.endswith(f"all    {found['hits'][0]['date']}  {entry['kind']} {entry['author'] or ''}".rstrip())
    assert found["text"].startswith("Messages with all words: ")
    assert (found["words"], found["searched"]["to"], found["searched"]["stopped"]) == (1, 417, False)
    older = harbour.good("search", "harbour", "5432", "--before", wanted[0], "--json").json["hits"]
    assert all(hit["id"] < wanted[0] for hit in older)
    named = harbour.good("search", "harbour", "5432", "--bytes", 4000, "--json").json["hits"][0]
    view = harbour.good("view", "harbour", "--bytes", 4000, "--as-is").text
    assert f"\n{named['line']}|" in view
    lined = harbour.good("search", "harbour", "5432", "--bytes", 4000).text.splitlines()
    assert lined[0].split() == ["ID", "WORDS", "WHEN", "LINE", "WHO"]
    assert f"  {named['line']}  " in lined[1]
    assert harbour.good("search", "harbour", "zyxw").text == "no message has any of these words\n"
    for words in (("!",), ("x", "--before", 0)):
        done = harbour("search", "harbour", *words)
        assert (done.status, done.err.count("\n")) == (2, 1)


def test_options_stand_before_or_after_the_command(harbour: Everlog, tmp_path: Path):
    elsewhere = harbour.at(tmp_path)
    database = harbour.home / "everlog.db"
    before = elsewhere.good("--db", database, "--json", "threads")
    assert before.out == elsewhere.good("threads", "--json", "--db", database).out
    assert before.out == elsewhere.good("threads", "--json", EVERLOG_DB=str(database)).out
    assert before.out == elsewhere.good("threads", f"--db={database}", "--json", EVERLOG_DB="/nowhere").out


def test_tenants_do_not_see_each_other(everlog: Everlog):
    everlog.good("--tenant", "acme", "import", HARBOUR)
    assert everlog.good("threads", "--json", "--tenant", "acme").json[0]["key"] == "harbour"
    assert everlog.good("threads", "--json").json == []
    assert everlog.good("threads", "--json", EVERLOG_TENANT="acme").json != []
    assert everlog("show", "harbour").status == 2
    assert everlog("threads", "--tenant", "a b").status == 2


def test_an_empty_list_of_threads_says_how_to_fill_it(everlog: Everlog):
    everlog.good("--tenant", "acme", "import", HARBOUR)
    done = everlog("threads")
    assert (done.status, done.out) == (0, b"")
    assert "everlog import FILE" in done.err


def test_every_command_is_on_the_page_about_the_command_line_with_an_example():
    page = ROOT.joinpath("docs", "cli.md").read_text("utf-8")
    examples = "\n".join(re.findall(r"^ *```(?:console|sh|text)\n(.*?)^ *```", page, re.MULTILINE | re.DOTALL))
    missing = [name for name in COMMANDS if not re.search(rf"\beverlog (--\S+ \S+ )*{name}\b", examples)]
    assert missing == []
    assert [name for name in SHARED_HELP if name.split()[0] not in page] == []
