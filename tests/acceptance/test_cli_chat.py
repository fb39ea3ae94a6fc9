"""`everlog chat`: through pipes, as JSON, and at a real terminal, with a model's server that says what it is told to."""

import contextlib
import fcntl
import itertools
import json
import os
import pty
import re
import select
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everlog.testing.upstream import Answer, Received, Refused, Stalled, Upstream
from tests.acceptance.cli import ENVIRONMENT, TIMEOUT_S, Everlog, start

RED = "\x1b[31mred"


def answer(received: Received) -> Answer | Refused | Stalled:
    """Repeat the last words; or do what they name."""
    words = received.body["messages"][-1]["content"]
    match words.split()[-1]:
        case "refuse":
            return Refused(status=401, message="Words of a provider.")
        case "stall":
            return Stalled(answer=Answer(text="Once upon a time there was a story that never ended"), events=4)
        case "zoom":
            return Answer(text="Let me look.", calls=(("c1", "zoom", {"id": 0, "n": 1}),))
        case _:
            return Answer(text=f"<{words}> {RED}", input_tokens=100, cached_tokens=60)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream(answer) as upstream:
        yield upstream


@pytest.fixture
def folder(everlog: Everlog, upstream: Upstream) -> Everlog:
    """An empty folder with a file of settings in it."""
    settings = f'[chat]\nmodel = "m-1"\nbase_url = "{upstream.url}"\napi_key_env = "M_KEY"\n'
    (everlog.home / "everlog.toml").write_text(settings)
    return everlog.at(everlog.home, M_KEY="secret")


def kept(folder: Everlog, thread: str = "chat") -> list[tuple[str, str]]:
    return [(one["kind"], one["text"]) for one in folder.good("show", thread, "--json").json]


def documents(out: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_each_line_of_a_pipe_is_a_turn_and_the_next_call_goes_on(folder: Everlog, upstream: Upstream):
    assert folder.good("chat", stdin=b"one\n\ntw\xc3\xb6\n/etc/hosts it is").text == (
        f"<one> {RED}\n<twö> {RED}\n</etc/hosts it is> {RED}\n"
    )
    assert folder.good("chat", "--once", "/cost").text == f"</cost> {RED}\n", "what is said once is never a command"
    sent = [message["content"] for message in upstream.requests[-1].body["messages"] if message["role"] != "system"]
    assert sent == [
        "one",
        f"<one> {RED}",
        "twö",
        f"<twö> {RED}",
        "/etc/hosts it is",
        f"</etc/hosts it is> {RED}",
        "/cost",
    ]
    assert {one.headers["authorization"] for one in upstream.requests} == {"Bearer secret"}
    assert len(kept(folder)) == 8


def test_with_json_each_turn_is_an_object_and_an_error_of_the_provider_is_not_the_end(folder: Everlog):
    done = folder("chat", "sea", "--json", stdin=b"one\nplease refuse\ntwo\n")
    first, refused, last = documents(done.out)
    assert first["reply"] == f"<one> {RED}"
    assert first["tokens"] == {"input": 40, "cache_read": 60, "cache_write": None, "output": 20}
    assert (first["thread"], first["epoch"], first["usd"], first["missing"], first["error"]) == (
        "sea",
        0,
        None,
        [],
        None,
    )
    assert last["memory_bytes"] > first["memory_bytes"]
    assert (refused["error"], refused["reply"], refused["finish"]) == ("Unauthorized", "", None)
    assert (done.status, json.loads(done.err)["type"]) == (1, "Unauthorized")
    assert "check the key" in done.err
    assert "Words of a provider" not in done.err
    assert kept(folder, "sea")[2:4] == [("user", "please refuse"), ("user", "two")]


def test_retry_asks_again_for_words_that_are_recorded_once(everlog: Everlog):
    with Upstream([Refused(status=400), Answer(text="Warm.")]) as upstream:
        options = ("--model", "m-1", "--base-url", upstream.url)
        done = everlog("chat", *options, "--json", stdin=b"When?\n/retry\n/retry\n")
    failed, retried = documents(done.out)
    assert (failed["error"], retried["reply"], retried["error"]) == ("BadRequest", "Warm.", None)
    over = json.loads(done.err.splitlines()[-1])
    assert (over["type"], over["error"]) == (
        "Mistake",
        "there is nothing to ask again: no answer failed or broke off",
    )
    assert [(one["kind"], one["text"]) for one in everlog.good("show", "chat", "--json").json] == [
        ("user", "When?"),
        ("assistant", "Warm."),
    ]


def test_what_the_model_opens_is_its_own_and_words_around_it_stand_apart(folder: Everlog, upstream: Upstream):
    folder.good("chat", "--once", "one")
    assert folder.good("chat", "--once", "now zoom").text.splitlines()[0] == "Let me look."
    assert [one["content"] for one in upstream.requests[-1].body["messages"] if one["role"] == "tool"] == [
        "0+1|user: one"
    ]


def test_what_stands_for_older_words_and_whether_the_model_may_search_is_said_by_options(
    folder: Everlog, upstream: Upstream
):
    done = folder("chat", "--past", "rolling", "--once", "one")
    assert (done.status, done.err.count("\n")) == (0, 1)
    assert "a summary needs a model" in done.err
    folder.good("chat", "--past", "none", "--once", "two")
    folder.good("chat", "--search", "--tokens", "500", "--once", "three")
    tools = [{tool["function"]["name"] for tool in one.body.get("tools", ())} for one in upstream.requests]
    assert tools == [set(), set(), {"zoom", "read", "date", "search"}]


def test_a_conversation_goes_on_past_its_budget_and_says_when_the_prompt_is_begun_anew(folder: Everlog):
    lines = "\n".join(f"turn {n} {'word ' * 30}{n}" for n in range(12)).encode()
    found = documents(folder.good("chat", "--tokens", "300", "--json", stdin=lines).out)
    epochs = [one["epoch"] for one in found]
    assert epochs == sorted(epochs)
    assert epochs[-1] >= 2
    changes = [one["turned"] is not None for one in found[1:]]
    assert changes == [now != before for before, now in itertools.pairwise(epochs)]
    assert {one["turned"] for one in found} <= {None, "full", "landed", "estimate"}
    assert len(kept(folder)) == 24


def test_no_word_of_the_conversation_is_in_what_is_logged(folder: Everlog):
    done = folder("chat", "--debug", stdin=b"lighthouse refuse\nlighthouse stays\n")
    assert (done.status, done.text.count("lighthouse")) == (1, 1)
    assert "lighthouse" not in done.err


def test_commands_look_at_the_memory_and_a_fork_is_gone_on_in(folder: Everlog):
    lines = ["one", "/zoom 0+2", "/read 1", "/view 300", "/search one", "/cost", "/status", "/fork", "two", "/fork sea"]
    found = documents(folder.good("chat", "--json", stdin="\n".join([*lines, "/help", "/quit", "three"]).encode()).out)
    said = {line.split()[0]: value for line, value in zip([*lines, "/help"], found, strict=True)}
    assert said["/zoom"]["text"].startswith("0+1|user: one\n1+1|assistant: <one>")
    assert said["/read"] == {"text": f"assistant: <one> {RED}", "pages": 1}
    assert said["/view"]["text"].startswith("<chat>\n0+1|user: one\n")
    assert [hit["id"] for hit in said["/search"]["hits"]] == [1, 0]
    assert (said["/cost"]["talk"]["requests"], said["/cost"]["memory"]["requests"]) == (1, 0)
    assert (said["/status"]["messages"], said["/status"]["trouble"]) == (2, 0)
    assert found[lines.index("/fork")] == {"thread": "chat-2", "parent": "chat", "shared": 2}
    assert said["/fork"] == {"thread": "sea", "parent": "chat-2", "shared": 4}
    assert "/zoom ID[+N]" in said["/help"]
    assert [len(kept(folder, key)) for key in ("chat", "chat-2", "sea")] == [2, 4, 4]


def test_what_cannot_be_is_one_line_that_says_what_can(folder: Everlog):
    lines = ["/view", "one", "/zom 3", "/zoom", "/zoom x", "/zoom 5+8", "/read 0 x", "/fork chat", "/view 3", "two"]
    done = folder("chat", stdin="\n".join(lines).encode())
    assert (done.status, done.text) == (2, f"<one> {RED}\n<two> {RED}\n")
    errors = done.err.splitlines()
    assert len(errors) == len(lines) - 2
    assert "nothing was said in this thread yet" in errors[0]
    assert "there is no command /zom; did you mean /zoom?" in errors[1]
    assert "as in /zoom 16+8" in errors[2]
    assert "is neither a position" in errors[3]
    assert "'chat' already" in errors[6]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "everlog chat --model PROVIDER/MODEL"),
        (("--model", "claude-haiku-4-5"), "set ANTHROPIC_API_KEY, or name another variable by api_key_env"),
        (("--model", "m-1"), "give --provider and --assume-model-exists"),
        (("--model", "m-1", "--past", "roling"), "--past is one of tree, rolling, none"),
        (("--model", "m-1", "--tokens", "3"), "--tokens takes a whole number, at least 128"),
        (("--model", "m-1", "--once", " "), "--once is empty"),
    ],
)
def test_without_a_model_that_can_be_asked_nothing_is_made(everlog: Everlog, options: tuple[str, ...], words: str):
    done = everlog("chat", *options, stdin=b"one\n")
    assert (done.status, done.out) == (2, b"")
    assert words in done.err
    assert list(everlog.home.iterdir()) == []


def test_a_chat_in_a_new_database_with_a_master_key_is_sealed(folder: Everlog, upstream: Upstream):
    folder.good("keys", "new", "k")
    named = folder.at(folder.home, EVERLOG_MODEL="m-2")
    named.good("chat", "--key-file", "k", "--once", "a lighthouse")
    assert upstream.requests[-1].body["model"] == "m-2", "the environment wins over the file"
    assert b"lighthouse" not in b"".join(path.read_bytes() for path in folder.home.glob("everlog.db*"))


class Screen:
    """A person at a terminal."""

    def __init__(self, fd: int, process: Any) -> None:
        self.fd = fd
        self.process = process

    def sees(self, pattern: str) -> str:
        """Wait until the pattern is on the screen, and return all that came."""
        seen, until = "", time.monotonic() + TIMEOUT_S
        while not re.search(pattern, seen, re.DOTALL):
            assert time.monotonic() < until, f"{pattern!r} is not in {seen!r}"
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    seen += os.read(self.fd, 1 << 16).decode()
                except OSError as error:  # nobody is at the other end any more
                    raise AssertionError(f"{pattern!r} is not in {seen!r}") from error
        return seen

    def ends(self) -> int:
        """Type Ctrl-C, again where it came between the prompt and the wait for a key, and return the exit code."""
        for _ in range(5):
            self.types("\x03")
            with contextlib.suppress(subprocess.TimeoutExpired):
                return int(self.process.wait(TIMEOUT_S / 10))
        raise AssertionError("it does not end")

    def types(self, words: str) -> None:
        os.write(self.fd, words.encode())


@contextlib.contextmanager
def terminal(folder: Everlog, *args: str, **environment: str) -> Iterator[Screen]:
    ours, theirs = pty.openpty()
    environment = folder.environment | {"TERM": "xterm", "NO_COLOR": ""} | environment
    process = start(
        *args,
        home=folder.home,
        environment=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    try:
        yield Screen(ours, process)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_at_a_terminal_answers_come_with_a_line_about_them_and_nothing_drives_the_terminal(folder: Everlog):
    assert "COLUMNS" in ENVIRONMENT
    with terminal(folder, "chat", "sea") as screen:
        assert "sea (new), with openai/m-1; /help" in screen.sees("> $")
        screen.types("one\n")
        seen = screen.sees(r"epoch 0.*> $")
        assert "<one> ␛[31mred" in seen
        assert RED not in seen
        assert "100 in (60 % read from cache), 20 out · epoch 0" in seen
        screen.types("please refuse\n")
        assert "Words of a provider." in screen.sees(r"check the key.*> $")
        screen.types("\x1b[200~first\nsecond\x1b[201~\n")
        screen.sees(r"<first\r?\nsecond>.*> $")
        screen.types("/status\n")
        screen.sees(r"messages +5.*> $")
        screen.types("\x04")
        assert screen.process.wait(TIMEOUT_S) == 0
    assert kept(folder, "sea")[-2:] == [("user", "first\nsecond"), ("assistant", f"<first\nsecond> {RED}")]


def test_ctrl_c_stops_an_answer_and_keeps_what_came_and_at_the_prompt_it_ends(folder: Everlog, upstream: Upstream):
    with terminal(folder, "chat") as screen:
        screen.sees("> $")
        screen.types("please stall\n")
        screen.sees("Once upon")
        screen.types("\x03")
        screen.sees("stopped; what came is kept.*> $")
        screen.types("one\n")
        screen.sees("<one>.*> $")
        assert screen.ends() == 0
    assert upstream.gone == 1
    (asked, partial, *rest) = kept(folder)
    assert asked == ("user", "please stall")
    assert partial[0] == "assistant"
    assert partial[1].startswith("Once upon")
    assert rest == [("user", "one"), ("assistant", f"<one> {RED}")]


def test_ctrl_c_in_a_pipe_keeps_what_came_and_ends_as_other_commands_do(folder: Everlog, tmp_path: Path):
    process = start("chat", home=folder.home, environment=folder.environment, stdin=-1)
    process.stdin.write(b"please stall\n")
    process.stdin.flush()
    assert process.stdout.read(4) == b"Once"
    process.send_signal(2)
    assert process.wait(TIMEOUT_S) == 130
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()
    assert kept(folder)[1][1].startswith("Once")
