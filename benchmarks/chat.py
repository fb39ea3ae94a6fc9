"""A call and a stream of 200 events: the chat beside bare httpx2 with own JSON, and beside the SDKs of the providers.

The provider is the fake one, in a process of its own. What is compared is CPU time of this process, best of several
rounds in which all take turns. Clients and chats are made before; each call is a conversation of one message.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
from anthropic import Anthropic
from openai import OpenAI

from benchmarks._sheet import Sheet, fill
from everlog import Chat, ChatConfig
from everlog.protocols import FORMATS

EVENTS = 200
QUESTION = "Is the ferry to the islands on time this morning?"
PROVIDERS = {"chat_completions": "ollama", "responses": "openai", "anthropic": "anthropic"}

Act = Callable[[], object]

SERVER = f"""
import sys
from everlog.testing.upstream import Answer, Manner, Upstream
with Upstream(lambda received: Answer(text="words " * {EVENTS}), manner=Manner(piece=6)) as upstream:
    print(upstream.url, flush=True)
    sys.stdin.read()
"""


def measure(sheet: Sheet) -> None:
    """Measure calls and streams in each protocol."""
    with upstream() as url:
        for protocol in PROVIDERS:
            for stream, times in ((False, 20), (True, 4)):
                rivals = {
                    "bare httpx2": bare(url, protocol, stream=stream),
                    "Chat": chat(url, protocol, stream=stream),
                    "SDK": sdk(url, protocol, stream=stream),
                }
                took = best(rivals, sheet.pick(75, 1), sheet.pick(times, 2))
                show(sheet, protocol, took, stream=stream)


def show(sheet: Sheet, protocol: str, took: dict[str, float], *, stream: bool) -> None:
    """Print what each took, and the ratios."""
    what, bound = (f"a stream of {EVENTS} events", 1.5) if stream else ("a call", 1.6)
    for who, seconds in took.items():
        sheet.row(f"{what}, CPU", protocol, who, seconds * 1000, "ms")
    sheet.row(f"{what}, beside bare httpx2", protocol, "Chat", took["Chat"] / took["bare httpx2"], "x", at_most=bound)
    sheet.row(f"{what}, beside bare httpx2", protocol, "SDK", took["SDK"] / took["bare httpx2"], "x")


def best(rivals: dict[str, Act], rounds: int, times: int) -> dict[str, float]:
    """Return the least CPU time of each for one run, in seconds; they take turns, so that a busy moment hits all."""
    least = dict.fromkeys(rivals, float("inf"))
    for act in rivals.values():
        act()
    for _ in range(rounds):
        for who, act in rivals.items():
            began = time.process_time()
            for _ in range(times):
                act()
            least[who] = min(least[who], (time.process_time() - began) / times)
    return least


@contextmanager
def upstream() -> Iterator[str]:
    """Run the fake provider in a process of its own; yield its address."""
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.communicate(timeout=20)


def bare(url: str, protocol: str, *, stream: bool) -> Act:
    """The least that one has to write to get the words."""
    client = httpx2.Client()
    place, headers = url + FORMATS[protocol].path, {"authorization": "Bearer k", "content-type": "application/json"}
    field = "input" if protocol == "responses" else "messages"
    body = {"model": "m-1", field: [{"role": "user", "content": QUESTION}], "stream": stream}

    def call() -> object:
        return json.loads(client.post(place, content=json.dumps(body).encode(), headers=headers).content)

    def listen() -> object:
        with client.stream("POST", place, content=json.dumps(body).encode(), headers=headers) as response:
            lines = (line[6:] for line in response.iter_lines() if line.startswith("data: "))
            return [json.loads(line) for line in lines if line != "[DONE]"]

    return listen if stream else call


def chat(url: str, protocol: str, *, stream: bool) -> Act:
    """The chat."""
    provider = PROVIDERS[protocol]
    config = ChatConfig(base_urls={provider: url}, api_keys={provider: "k"})
    made = Chat("m-1", provider=provider, protocol=protocol, assume_model_exists=True, config=config)

    def call() -> object:
        made.messages = []
        return made.ask(QUESTION)

    def listen() -> object:
        made.messages = []
        return list(made.stream(QUESTION))

    return listen if stream else call


def sdk(url: str, protocol: str, *, stream: bool) -> Act:
    """The client of the provider itself."""
    said: Any = [{"role": "user", "content": QUESTION}]
    if protocol == "anthropic":
        messages = Anthropic(base_url=url.removesuffix("/v1"), api_key="k").messages
        return lambda: _read(messages.create(model="m-1", max_tokens=100, messages=said, stream=stream))
    client = OpenAI(base_url=url, api_key="k")
    if protocol == "responses":
        return lambda: _read(client.responses.create(model="m-1", input=said, stream=stream))
    return lambda: _read(client.chat.completions.create(model="m-1", messages=said, stream=stream))


def _read(answer: object) -> object:
    return list(answer) if isinstance(answer, Iterator) else answer


if __name__ == "__main__":
    raise SystemExit(fill("chat", measure))
