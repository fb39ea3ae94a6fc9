"""Where the command line meets terminals, pipes, locales, signals and faults of its own."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import everlog as library
from tests.acceptance.cli import HARBOUR, PROGRAM, ROOT, Done, Everlog, finish, jsonl, said, start
from tests.quick import Quick

ODD = "r\u00e9sum\u00e9 \u4f60\u597d \U0001f600 half \ud83d end"


@pytest.fixture(scope="module")
def odd(quick: Quick, tmp_path_factory: pytest.TempPathFactory) -> Everlog:
    """A folder with a thread that ASCII cannot hold, nor UTF-8 all of it."""
    command = Everlog(quick, tmp_path_factory.mktemp("odd"))
    command.home.joinpath("odd.jsonl").write_bytes(jsonl([{"role": "user", "content": ODD, "name": "Zo\u00eb"}]))
    command.good("import", "odd.jsonl", "--thread", "Zo\u00eb")
    return command


@pytest.mark.parametrize("locale", ["C", "en_US.ISO-8859-1"])
def test_output_is_utf8_whatever_the_locale(odd: Everlog, locale: str):
    environment = {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    shown = finish(start("show", "Zo\u00eb", home=odd.home, environment=environment))
    assert (shown.status, shown.err) == (0, "")
    assert ODD.replace("\ud83d", "\ufffd") in shown.text
    assert "user Zo\u00eb" in shown.text
    exported = finish(start("export", "Zo\u00eb", home=odd.home, environment=environment))
    assert "\u4f60\u597d \U0001f600 half \\ud83d end" in exported.text


def test_half_a_surrogate_pair_is_kept_in_entries_and_is_a_whole_character_in_what_a_model_is_shown(odd: Everlog):
    assert odd.good("show", "Zo\u00eb", "--json").json[0]["text"] == ODD
    said = ODD.replace("\ud83d", "\ufffd")
    assert odd.good("read", "Zo\u00eb", 0, "--json").json["text"] == f"user (Zo\u00eb): {said}"
    view = odd.good("view", "Zo\u00eb", "--json").json
    assert said in view["view"]
    assert len(odd.good("view", "Zo\u00eb").out) == view["size_bytes"]


def test_a_reader_that_leaves_ends_the_command_quietly(harbour: Everlog):
    process = start("show", "harbour", home=harbour.home)
    assert process.stdout is not None
    assert process.stdout.readline() == b"[0] user Mara, 2026-01-12 09:02:14 UTC\n"
    process.stdout.close()
    process.stdout = None
    assert finish(process) == Done(status=141, out=b"", err="")


def test_an_output_that_takes_no_more_is_a_failure_of_one_line(harbour: Everlog):
    done = harbour("show", "harbour", stdout="/dev/full")
    assert (done.status, done.err) == (1, "everlog: the output: No space left on device\n")
    assert harbour("--help", stdout="/dev/full").status == 1


def test_a_closed_output_is_nobodys_loss(harbour: Everlog):
    command = ["/bin/sh", "-c", 'exec "$@" >&- 2>&-', "sh", *PROGRAM, "threads"]
    assert subprocess.run(command, cwd=harbour.home, check=False).returncode == 0


def test_ctrl_c_ends_a_command_without_a_word(everlog: Everlog):
    everlog.good("import", HARBOUR)
    stopped = everlog("pump", dies_at=("pump.write.before_commit", 1), by=signal.SIGINT)
    assert (stopped.status, stopped.err) == (130, "")
    everlog.good("pump")


def terminal(quick: Quick, *args: object, home: Path, answer: bytes = b"") -> tuple[int, str]:
    """Run a command in a terminal of its own; return its status and everything that appeared there."""
    parent, child = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "60"}
    process = subprocess.Popen(
        [quick.program, *map(str, args)], cwd=home, stdin=child, stdout=child, stderr=child, env=environment
    )
    os.close(child)
    os.write(parent, answer)
    shown = b""
    try:
        while piece := os.read(parent, 65536):
            shown += piece
    except OSError:  # how a terminal says that its last user has gone
        pass
    os.close(parent)
    return process.wait(60), shown.decode()


def test_a_terminal_shows_progress_and_a_pipe_does_not(everlog: Everlog, quick: Quick):
    status, shown = terminal(quick, "import", HARBOUR, home=everlog.home)
    assert status == 0
    assert "harbour.jsonl" in shown
    assert "100 %" in shown
    assert "418 new" in shown


def test_on_a_terminal_no_message_can_move_the_cursor_and_no_line_of_a_table_is_too_long(
    everlog: Everlog, quick: Quick
):
    everlog.home.joinpath("evil.jsonl").write_bytes(
        jsonl(
            [{"messages": [{"role": "user", "content": "a\x1b[2Jb\x07\x9bc"}], "title": "\x1b]0;t\x07" + "long " * 40}]
        )
    )
    everlog.good("import", "evil.jsonl", "--thread", "evil")
    _, shown = terminal(quick, "show", "evil", home=everlog.home)
    assert "a\u241b[2Jb\u2407\ufffdc" in shown
    assert "\x1b" not in shown
    _, shown = terminal(quick, "threads", home=everlog.home)
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 60
    assert everlog.good("show", "evil").text.count("\x1b") == 1


def test_a_person_is_asked_before_something_is_erased(everlog: Everlog, quick: Quick):
    everlog.good("import", HARBOUR)
    status, shown = terminal(quick, "erase", "--thread", "harbour", home=everlog.home, answer=b"n\n")
    assert status == 2
    assert "Erase thread 'harbour' with 418 entries for good? [y/N]" in shown
    assert "nothing was erased" in shown
    status, shown = terminal(quick, "erase", "--thread", "harbour", home=everlog.home, answer=b"\x04")
    assert (status, "nothing was erased" in shown) == (130, True), "the question was left without an answer"
    assert len(everlog.good("threads", "--json").json) == 1
    status, shown = terminal(quick, "erase", "--thread", "harbour", home=everlog.home, answer=b"y\n")
    assert status == 0
    assert "receipt" in shown
    assert everlog.good("threads", "--json").json == []


def test_help_and_version_load_neither_the_store_nor_the_parser():
    program = (
        "import sys; from everlog.surfaces.cli.entry import run; run(sys.argv[1:]);"
        "print(*sorted({'sqlalchemy', 'alembic', 'typer', 'rich', 'cryptography', 'pydantic'} & sys.modules.keys()))"
    )
    for word in ([], ["--help"], ["--version"]):
        run = subprocess.run([sys.executable, "-c", program, *word], capture_output=True, text=True, check=True)
        assert run.stdout.splitlines()[-1] == ""
    assert finish(start("--version", home=ROOT)).text == f"everlog {library.__version__}\n"


def test_nothing_asked_is_answered_with_ways_to_begin(everlog: Everlog):
    hello = everlog.good().text
    assert [line.split()[1] for line in hello.splitlines() if line.startswith("  everlog")] == [
        "import",
        "serve",
        "chat",
        "threads",
        "view",
    ]
    assert len(hello.splitlines()) < 10


def test_a_fault_of_our_own_names_its_class_and_place_and_never_what_it_says(everlog: Everlog, quick: Quick):
    everlog.good("import", HARBOUR)
    fault = (
        "import everlog.conversation.database as d\ndef broken(*_, **__): raise LookupError('the words of a chat')\n"
    )
    fault += "d._page = broken\nfrom everlog.surfaces.cli import main\nmain()\n"

    def run(*args: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [quick.python, "-c", fault, *args],
            cwd=everlog.home,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    done = run("threads")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "unexpected LookupError at " in done.stderr
    assert "please report it" in done.stderr
    assert "words" not in done.stderr
    shown = run("threads", EVERLOG_DEBUG="1")
    assert (shown.returncode, "Traceback" in shown.stderr) == (1, True)


def test_debug_shows_where_an_error_came_from_and_the_line_besides(everlog: Everlog):
    shown = everlog("threads", "--debug")
    assert shown.status == 2
    assert shown.err.startswith("Traceback")
    assert shown.err.splitlines()[-1].startswith("everlog: there is no database ")


def test_a_word_after_two_dashes_is_no_option(everlog: Everlog):
    everlog.home.joinpath("--json").write_bytes(said("one"))
    done = everlog("import", "--thread", "t", "--", "--json")
    assert done.status == 0
    assert done.text.startswith("--json (openai)\n")
    everlog.home.joinpath("--json").unlink()
    assert everlog("import", "--", "--json").err == "everlog: --json cannot be read: No such file or directory\n"


def test_a_view_on_a_terminal_explains_its_labels_and_on_a_pipe_it_is_alone(harbour: Everlog, quick: Quick):
    _, shown = terminal(quick, "view", "harbour", "--bytes", 4000, "--as-is", home=harbour.home)
    last = shown.splitlines()[-1]
    first, label = last.partition("| is ")[0], last.rpartition(" ")[2]
    assert f"\n{first}|" in shown
    assert last.endswith(f"open any line: everlog zoom harbour {label}")
    assert (first, label.count("+")) == (label, 1)
    assert harbour.good("zoom", "harbour", label).text.count("\n") == 2
    assert harbour.good("view", "harbour", "--bytes", 4000, "--as-is").text.endswith("</chat>")
