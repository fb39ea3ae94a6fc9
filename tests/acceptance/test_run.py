"""`make run`: the proxy in front of what there is, and what it prints works as it stands."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from everlog.testing.upstream import Answer, Upstream
from tests.acceptance.cli import ENVIRONMENT, ROOT, Everlog

RUN = [sys.executable, str(ROOT / "examples" / "run.py")]


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream([Answer(text="The one at Roscoff.")] * 9) as upstream:
        yield upstream


@contextmanager
def running(home: Path, **environment: str) -> Iterator[str]:
    """Yield what it prints until it is ready; then Ctrl-C must end all of it, well."""
    process = subprocess.Popen(
        RUN,
        cwd=home,
        env=ENVIRONMENT | {"EVERLOG_PORT": "0", "EVERLOG_LOG_LEVEL": "warning"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        printed = ""
        while "(in a browser" not in printed:
            line = process.stdout.readline()
            assert line, (printed, process.communicate()[1])
            printed += line
        yield printed
        os.killpg(process.pid, signal.SIGINT)
        rest, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (0, ""), rest
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def asked(printed: str) -> str:
    """Run the `curl` that was printed, as it stands, and return the answer."""
    line = next(line.strip() for line in printed.splitlines() if line.strip().startswith("curl "))
    if subprocess.run(["/bin/sh", "-c", "command -v curl"], capture_output=True, check=False).returncode:
        return by_hand(line)
    return subprocess.run(["/bin/sh", "-c", line], capture_output=True, check=True, text=True, timeout=60).stdout


def by_hand(line: str) -> str:
    """Ask what a line of curl asks, on a machine that has none."""
    _, url, *rest = shlex.split(line)
    pairs = list(zip(rest[::2], rest[1::2], strict=True))
    headers = dict(value.split(": ", 1) for flag, value in pairs if flag == "-H")
    data = next(value for flag, value in pairs if flag == "-d")
    with urlopen(Request(url, data.encode(), headers), timeout=60) as answer:
        return str(answer.read().decode())


def test_what_it_prints_works_and_is_kept_once_beside_the_sample(upstream: Upstream, tmp_path: Path, everlog: Everlog):
    with running(tmp_path, EVERLOG_UPSTREAM=upstream.url) as printed:
        assert "the upstream that EVERLOG_UPSTREAM names" in printed
        assert json.loads(asked(printed))["choices"][0]["message"]["content"] == "The one at Roscoff."
    here = everlog.at(tmp_path)
    titles = [thread["key"] for thread in here.good("threads", "--json").json]
    assert "harbour" in titles
    assert len(titles) == 2
    (shown,) = [line.split("#")[0].split() for line in printed.splitlines() if " show " in line]
    assert here.good(*shown[1:]).text.count("Which sea is warm in June?") == 1
    assert str(tmp_path / "everlog.db") in printed
    assert upstream.url.split("/")[2] in printed, "it says to whom words go"


@pytest.mark.parametrize(("name", "path"), [("OPENAI", "/v1/chat/completions"), ("ANTHROPIC", "/v1/messages")])
def test_a_key_of_the_environment_is_used_for_clients_that_send_any(
    upstream: Upstream, tmp_path: Path, name: str, path: str
):
    told = {f"{name}_API_KEY": "the-real-key", f"{name}_BASE_URL": upstream.url}
    (tmp_path / "everlog.db").touch()
    with running(tmp_path, **told) as printed:
        assert "the-real-key" not in printed
        assert "Roscoff" in asked(printed)
    (request,) = [one for one in upstream.requests if one.path.startswith(path)]
    assert "the-real-key" in json.dumps(dict(request.headers))


def test_with_two_keys_each_model_goes_to_its_provider(upstream: Upstream, tmp_path: Path):
    with Upstream([Answer(text="By train.")], models=("claude-x",)) as other:
        told = {"OPENAI_API_KEY": "a", "OPENAI_BASE_URL": upstream.url}
        told |= {"ANTHROPIC_API_KEY": "b", "ANTHROPIC_BASE_URL": other.url}
        (tmp_path / "everlog.db").touch()
        with running(tmp_path, **told) as printed:
            line = re.sub("chat/completions", "messages", next(x for x in printed.splitlines() if "curl" in x))
            line = line.replace('"m-1"', '"claude-x", "max_tokens": 9')
            assert "By train." in asked(line)
    assert [one.headers["x-api-key"] for one in other.requests if one.path == "/v1/messages"] == ["b"]


def test_a_server_of_models_on_this_machine_is_found(upstream: Upstream, tmp_path: Path):
    address = upstream.url.removeprefix("http://").removesuffix("/v1")
    (tmp_path / "everlog.db").touch()
    with running(tmp_path, OLLAMA_HOST=address) as printed:
        assert "Ollama, which runs on this machine" in printed
        assert "Roscoff" in asked(printed)


def test_a_port_that_is_taken_is_said_in_one_line(upstream: Upstream, tmp_path: Path):
    port = upstream.url.rpartition(":")[2].partition("/")[0]
    (tmp_path / "everlog.db").touch()
    told = ENVIRONMENT | {"EVERLOG_PORT": port, "EVERLOG_UPSTREAM": upstream.url}
    done = subprocess.run(RUN, cwd=tmp_path, env=told, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"everlog: port {port} of 127.0.0.1 is taken")
    assert f"`EVERLOG_PORT={int(port) + 1} make run`" in done.stderr


def test_in_front_of_the_toy_nothing_is_pasted_that_it_cannot_serve(tmp_path: Path):
    program = "import run; print(run.tools(run.Found(says='', is_toy=True), 'http://x/v1', 'any', 'm'))"
    told = ENVIRONMENT | {"PYTHONPATH": str(ROOT / "examples")}
    done = subprocess.run([sys.executable, "-c", program], env=told, capture_output=True, text=True, check=True)
    assert "OPENAI_BASE_URL=http://x/v1" in done.stdout
    assert "ANTHROPIC_BASE_URL=http://x " in done.stdout
    assert "codex -c" not in done.stdout
    assert "they need a real model" in done.stdout
