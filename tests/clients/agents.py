"""Agent tools as data: how each is told a base URL, and how it is asked without a screen."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

INSTALLED = Path(os.environ.get("EVERLOG_CLIENTS", "/nowhere"))
MODEL = "gpt-5.1-codex"
TIMEOUT_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One tool."""

    name: str
    package: str
    protocol: str
    call: tuple[str, Mapping[str, str]]
    """Its tool that reads a file, and how it is told which, below `{folder}`."""
    processes: Callable[[str, Sequence[str]], Iterator[list[str]]]
    """From base URL and what the user says: the commands that say it, in order."""
    files: Callable[[str], Mapping[str, str]] = lambda base: {}
    """From the base URL: settings, by their path below the home folder."""
    environment: Callable[[str], Mapping[str, str]] = lambda base: {}
    is_main: Callable[[Mapping[str, Any]], bool] = field(default=lambda body: bool(body.get("tools")))
    """Whether a request belongs to the talk."""
    turns: int = 6
    """How often it is told something; where each turn starts it anew, that is what takes most of the time."""
    rounds: int = 9
    """Calls of its tool in each turn, each in a request of its own; the answer is one more."""

    @property
    def version(self) -> str:
        """The version that is installed."""
        return str(json.loads((INSTALLED / "node_modules" / self.package / "package.json").read_text())["version"])

    def talk(self, base: str, home: Path, said: Sequence[str]) -> list[str]:
        """Say all of it, and return what the tool printed, process by process."""
        folder = home / "project"
        folder.mkdir(parents=True)
        (folder / "notes.txt").write_text("milk, bread\n")
        for path, text in self.files(base).items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(text)
        search = os.pathsep.join([f"{INSTALLED}/node_modules/.bin", f"{INSTALLED}/bin", os.environ["PATH"]])
        told = {"PATH": search, "HOME": str(home), "TERM": "dumb", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
        printed = []
        for command in self.processes(base, said):
            done = subprocess.run(
                command,
                cwd=folder,
                env={**told, **self.environment(base)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
            assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
            printed.append(done.stdout)
        return printed


def _codex(base: str, said: Sequence[str]) -> Iterator[list[str]]:
    flags = ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    yield ["codex", "exec", *flags, said[0]]
    for text in said[1:]:
        yield ["codex", "exec", "resume", "--last", *flags, text]


def _pi(base: str, said: Sequence[str]) -> Iterator[list[str]]:
    yield ["pi", "--provider", "there", "--model", MODEL, "-p", *said]


def _qwen(base: str, said: Sequence[str]) -> Iterator[list[str]]:
    for number, text in enumerate(said):
        yield ["qwen", "--auth-type", "openai", "--yolo", *(["-c"] if number else []), "-p", text]


def _opencode(base: str, said: Sequence[str]) -> Iterator[list[str]]:
    for number, text in enumerate(said):
        yield ["opencode", "run", *(["-c"] if number else []), text]


def _pi_files(base: str) -> Mapping[str, str]:
    there = {"baseUrl": f"{base}/v1", "api": "openai-completions", "apiKey": "any", "models": [{"id": MODEL}]}
    return {".pi/agent/models.json": json.dumps({"providers": {"there": there}})}


def _codex_files(base: str) -> Mapping[str, str]:
    provider = f'[model_providers.there]\nname = "there"\nbase_url = "{base}/v1"\nwire_api = "responses"\n'
    top = f'model = "{MODEL}"\nmodel_provider = "there"\n'
    return {".codex/config.toml": f'{top}{provider}env_key = "OPENAI_API_KEY"\n'}


def _opencode_files(base: str) -> Mapping[str, str]:
    there = {
        "npm": "@ai-sdk/anthropic",
        "options": {"baseURL": f"{base}/v1", "apiKey": "any"},
        "models": {MODEL: {"tool_call": True}},
    }
    chosen = f"there/{MODEL}"
    settings = {"model": chosen, "small_model": chosen, "provider": {"there": there}, "permission": "allow"}
    return {"project/opencode.json": json.dumps(settings)}


AGENTS = [
    Agent(
        name="pi",
        package="@mariozechner/pi-coding-agent",
        protocol="chat_completions",
        call=("read", {"path": "notes.txt"}),
        processes=_pi,
        files=_pi_files,
        environment=lambda base: {"PI_OFFLINE": "1"},
        turns=60,
        rounds=1,
    ),
    Agent(
        name="Codex",
        package="@openai/codex",
        protocol="responses",
        call=("exec_command", {"cmd": "cat notes.txt"}),
        processes=_codex,
        files=_codex_files,
        environment=lambda base: {"OPENAI_API_KEY": "any"},
        turns=60,
        rounds=1,
    ),
    Agent(
        name="Qwen Code",
        package="@qwen-code/qwen-code",
        protocol="chat_completions",
        call=("read_file", {"file_path": "{folder}/notes.txt"}),
        processes=_qwen,
        environment=lambda base: {
            "OPENAI_BASE_URL": f"{base}/v1",
            "OPENAI_API_KEY": "any",
            "OPENAI_MODEL": MODEL,
        },
        is_main=lambda body: "Managed memory directory" not in json.dumps(body.get("messages", ())[-1:]),
    ),
    Agent(
        name="OpenCode",
        package="opencode-ai",
        protocol="anthropic",
        call=("read", {"filePath": "notes.txt"}),
        processes=_opencode,
        files=_opencode_files,
        environment=lambda base: {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"},
    ),
]

MOVES = [
    re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    re.compile(r"ses_\w+"),
    re.compile(r"(?<=Chunk ID: )\w+|(?<=Wall time: )[\d.]+"),
    re.compile(r"\b1[78]\d{11}\b"),
    re.compile(r"http://127\.0\.0\.1:\d+"),
]
"""What differs between two runs of a tool in front of the same server: ids, times, and the address itself."""


def steady(text: str) -> str:
    """Return a text without what differs from run to run."""
    for pattern in MOVES:
        text = pattern.sub("…", text)
    return text
