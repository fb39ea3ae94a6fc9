"""Put the proxy in front of a model, and say what to paste into which tool.

    python examples/run.py

The model is, of these, the first there is: the upstream that settings or EVERLOG_UPSTREAM name; providers whose keys are in
the environment; a server of models on this machine; a small model that is fetched once. Ctrl-C ends all that it started.
"""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from everlog.errors import EverlogError, Mistake
from everlog.surfaces import config
from everlog.surfaces.proxy.running import asked
from everlog.surfaces.proxy.serving import listen

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "examples" / "harbour.jsonl"
EVERLOG = [sys.executable, "-m", "everlog.surfaces.cli"]
PROBE_S = 0.5
"""How long a server of this machine may take to say which models it has."""

TOY_BUDGET = "3000"
"""What memory may take of the 8,192 tokens that the toy reads, beside what is said of memory and the turn that is open."""

KNOWN = {
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1", "chat_completions, responses", "*"),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "https://api.anthropic.com", "anthropic", "claude-*"),
    "openrouter": (
        "OPENROUTER_API_KEY",
        "OPENROUTER_BASE_URL",
        "https://openrouter.ai/api/v1",
        "chat_completions",
        "*/*",
    ),
    "deepseek": ("DEEPSEEK_API_KEY", "DEEPSEEK_BASE_URL", "https://api.deepseek.com", "chat_completions", "deepseek-*"),
}
"""Of each provider: where its key is, where another address may be, its own address, what it speaks, its models."""

LOCAL = {"Ollama": 11434, "LM Studio": 1234, "llama.cpp": 8080, "vLLM": 8000}
"""Servers of models, and the ports they take if nothing else is said."""

SESSION = "hello"
"""By which name the first question is found again."""

LIKED = ("gpt-5.6-luna", "claude-haiku-5-5")
"""Models for a first question, where an upstream has many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A model to stand in front of."""

    says: str
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the proxy is told."""
    takes_any_key: bool = True
    """Whether a client may send any key, since the proxy has one or none is needed."""
    speaks_messages: bool = False
    """Whether only the protocol of Anthropic is spoken."""
    is_toy: bool = False
    """Whether it can answer small questions only."""


def main() -> int:
    """Serve until Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    with contextlib.ExitStack() as ends:
        try:
            check_port()
            found = upstream(ends)
            sample = load_sample()
            serving = ends.enter_context(child([*EVERLOG, "--json", "serve"], found.environment))
            told = serving.stdout.readline()
            if not told:
                return int(serving.wait())
            print(page(found, json.loads(told), sample), flush=True)
            return int(serving.wait())
        except KeyboardInterrupt:
            return 0
        except EverlogError as error:
            print(f"everlog: {error}", file=sys.stderr)
            return 2


def check_port() -> None:
    """Make sure that the port is free, before anything is fetched or started.

    Raises:
        Mistake: it is taken.
    """
    server = asked(config.settings())[0].proxy.server
    try:
        listen(server.host, server.port).close()
    except Mistake:
        raise Mistake(
            f"port {server.port} of {server.host} is taken, perhaps by another `make run`; "
            f"`EVERLOG_PORT={server.port + 1} make run` takes another one"
        ) from None


def upstream(ends: contextlib.ExitStack) -> Found:
    """Return the model to stand in front of; what is started for it ends with `ends`."""
    said, file = asked(config.settings())
    if said.proxy.upstream.base_url:
        own = said.proxy.upstream
        is_near = "//127.0.0.1" in own.base_url or "//localhost" in own.base_url
        by = said.named_by["upstream.base_url"]
        return Found(says=f"the upstream that {by} names", takes_any_key=is_near or bool(own.api_key))
    names = [name for name, (key, *_) in KNOWN.items() if os.environ.get(key)]
    if names:
        return keyed(names, file, ends)
    return local() or small_model(ends)


def keyed(names: list[str], file: Path | None, ends: contextlib.ExitStack) -> Found:
    """Return the providers whose keys are in the environment; the first takes what no other has."""
    says = f"{', '.join(names)}, with the keys of your environment, which never leave the proxy but to their providers"
    first = KNOWN[names[0]]
    speaks_messages = first[3] == "anthropic"
    if file is not None:
        told = {"EVERLOG_UPSTREAM": os.environ.get(first[1]) or first[2], "EVERLOG_UPSTREAM_KEY": os.environ[first[0]]}
        return Found(says=says, environment=told, takes_any_key=False, speaks_messages=speaks_messages)
    folder = Path(ends.enter_context(tempfile.TemporaryDirectory()))
    lines = ["upstream:", *described(names[0], "  ")]
    if names[1:]:
        lines.append("upstreams:")
    for name in names[1:]:
        lines += [f"  - name: {name}", f"    models: ['{KNOWN[name][4]}']", *described(name, "    ")]
    folder.joinpath("everlog.yaml").write_text("\n".join(lines) + "\n")
    return Found(
        says=says,
        environment={"EVERLOG_CONFIG": str(folder / "everlog.yaml")},
        speaks_messages=speaks_messages,
    )


def described(name: str, indent: str) -> Iterator[str]:
    """Yield the settings of a provider; keys stay in the environment."""
    key, base, address, protocols, _ = KNOWN[name]
    yield f"{indent}base_url: ${{{base}:-{address}}}"
    yield f"{indent}api_key: ${{{key}}}"
    yield f"{indent}passthrough_authorization: false"
    yield f"{indent}protocols: [{protocols}]"


def local() -> Found | None:
    """Return a server of models on this machine, if one answers on the port it usually has."""
    for name, port in LOCAL.items():
        host = os.environ.get("OLLAMA_HOST", "") if name == "Ollama" else ""
        base = f"http://{host.removeprefix('http://') or f'127.0.0.1:{port}'}/v1"
        if models(base, PROBE_S):
            return Found(says=f"{name}, which runs on this machine", environment={"EVERLOG_UPSTREAM": base})
    return None


def small_model(ends: contextlib.ExitStack) -> Found:
    """Fetch a small model once, and start it."""
    home = ROOT / ".venv-live"
    print(
        "No model was found, so a toy answers: SmolLM2 of 135M, which knows next to nothing. For a real one set "
        "OPENAI_API_KEY, ANTHROPIC_API_KEY or EVERLOG_UPSTREAM=URL, or start Ollama.",
        flush=True,
    )
    if not (home / ".ready").exists():
        print("It is fetched once (220 MB, about a minute) ...", flush=True)
    subprocess.run([os.environ.get("MAKE", "make"), "-s", "-C", str(ROOT), ".venv-live/.ready"], check=True)
    started = [str(home / "bin" / "python"), str(ROOT / "examples" / "small_model.py")]
    serving = ends.enter_context(child(started, {}, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL))
    address = serving.stdout.readline().strip()
    if not address:
        raise EverlogError("the small model did not start; set EVERLOG_UPSTREAM=URL to use another")
    given = {"EVERLOG_UPSTREAM": address, "EVERLOG_BUDGET": os.environ.get("EVERLOG_BUDGET", TOY_BUDGET)}
    return Found(says="a toy of 135M parameters", environment=given, is_toy=True)


@contextlib.contextmanager
def child(
    command: list[str], environment: Mapping[str, str], *, stdin: int | None = None, stderr: int | None = None
) -> Iterator[Any]:
    """Start a process that ends with the block."""
    told = {**os.environ, **environment}
    process = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, env=told, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def load_sample() -> bool:
    """Bring the sample conversation into a database that is new; say whether there is one."""
    database = config.settings().path
    if database is None or database.exists():
        return False
    subprocess.run([*EVERLOG, "import", str(SAMPLE)], stdout=subprocess.DEVNULL, check=True)
    return True


def models(base: str, timeout_s: float) -> list[str]:
    """Return the models that a server has; none if it does not answer."""
    try:
        with urllib.request.urlopen(f"{base}/models", timeout=timeout_s) as answer:  # noqa: S310 -- a base URL of this machine
            listed = json.load(answer)["data"]
            return [str(model["id"]) for model in listed]
    except (OSError, ValueError, KeyError, TypeError, urllib.error.URLError):
        return []


def page(found: Found, told: Mapping[str, Any], sample: bool) -> str:
    """Return what to paste where; `told` is what the proxy said when it was ready."""
    base = told["base_url"]
    there = models(base, 10)
    model = next((name for name in LIKED if name in there), there[0] if there else "MODEL")
    key = "any" if found.takes_any_key else "YOUR_KEY"
    everlog = command()
    at = ", ".join(one["host"] for one in told["upstreams"])
    return f"""
Everlog is on {base}, in front of {found.says} ({at}).
Each conversation is kept, once, in {told["database"] or "nothing: the mode is off"} (mode {told["mode"]}). Ctrl-C ends it.

{tools(found, base, key, model)}

Try it, in another terminal:

  {curl(found, base, model)}

Then look at what was kept:

  {everlog} show proxy:{SESSION}{"    # what you just said, and the answer" if sample else ""}
  {everlog} threads{"" if not sample else f"; {everlog} view harbour    # the sample, 418 messages"}
  {base.removesuffix("/v1")}/everlog/v1    (in a browser: all that can be asked over HTTP)
"""


def tools(found: Found, base: str, key: str, model: str) -> str:
    """Return what to paste into which tool."""
    root = base.removesuffix("/v1")
    sdks = f"  OpenAI SDK, most tools      export OPENAI_BASE_URL={base} OPENAI_API_KEY={key}"
    if found.is_toy:
        return (
            f"{sdks}\n  Anthropic SDK               export ANTHROPIC_BASE_URL={root} ANTHROPIC_API_KEY={key}\n\n"
            "Agents (Claude Code, Codex, OpenCode …) send more than the 8,192 tokens that the toy can read: they need a real model."
        )
    provider = f'{{name="Everlog",base_url="{base}",wire_api="responses",env_key="OPENAI_API_KEY"}}'
    options = {"baseURL": base, "apiKey": key}
    opencode = {
        "provider": {"everlog": {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {model: {}}}}
    }
    return f"""{sdks}
  Anthropic SDK, Claude Code  export ANTHROPIC_BASE_URL={root} ANTHROPIC_API_KEY={key}
  Codex                       OPENAI_API_KEY={key} codex -c model_provider=everlog -c 'model_providers.everlog={provider}' -m {model}
  OpenCode (opencode.json)    {json.dumps(opencode)}"""


def curl(found: Found, base: str, model: str) -> str:
    """Return a command that asks the model, in a session of which the name is known."""
    body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": "Which sea is warm in June?"}]}
    parts = ["curl", f"{base}/chat/completions", "-H", "content-type: application/json"]
    if found.speaks_messages:
        parts[1] = f"{base}/messages"
        parts += ["-H", "anthropic-version: 2023-06-01"]
        body["max_tokens"] = 500
    parts += ["-H", f"x-everlog-session-id: {SESSION}"]
    words = shlex.join([*parts, "-d", json.dumps(body)])
    return words if found.takes_any_key else f'{words} -H "authorization: Bearer $OPENAI_API_KEY"'


def command() -> str:
    """Return how to call the command that was installed beside this Python."""
    beside = Path(sys.executable).with_name("everlog")
    here = Path.cwd()
    return shlex.quote(str(beside.relative_to(here) if beside.is_relative_to(here) else beside))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # again, while all was ending: those that it started were told as well
        sys.exit(130)
