"""Ten thousand turns of one conversation: what a turn takes at its end beside its beginning, and what memory takes.

The model is the fake one, in a process of its own, which also measures each request as it comes. Memory is built by the
turn itself (`pump="inline"`) with the compactor that needs no model, so that all that a turn causes is in its time; each
tenth one opens a line. The first turns are left out: until the first epochs have been full, prompts are shorter.

What is judged is CPU time of this process, since another one's work on the machine would be in the other.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks._sheet import Sheet, Times, fill
from benchmarks._stock import engine, folder, opened, words
from everlog import Chat, ChatConfig, Memory

TOKENS = 20_000
BYTES_A_TOKEN = 4
ASKED, SAID = 480, 1_520
"""Bytes of a question and of its answer: 120 and 380 tokens."""
WARM = 300
"""Turns after which epochs have been full for long."""

SERVER = """
import json, sys
from everlog.testing.upstream import Answer, Upstream
from benchmarks._stock import words

seen = {"requests": 0, "bytes": 0, "most": 0}

def answer(received):
    upstream.requests.clear()
    seen["requests"] += 1
    messages = received.body["messages"]
    began = max(at for at, one in enumerate(messages) if one["role"] == "user")
    memory = [one for one in messages[:began] if one["role"] != "system"]
    size = sum(len(text.encode()) for one in memory for text in texts(one))
    seen["most"] = max(seen["most"], size)
    seen["bytes"] += len(received.raw)
    number = int(messages[began]["content"].split()[0]) // 2
    if number % 10 == 9 and messages[-1]["role"] == "user":
        return Answer(calls=((f"z{number}", "zoom", {"id": 0, "n": 1}),), input_tokens=len(received.raw) // 4)
    return Answer(text=words(2 * number + 1, 1520), input_tokens=len(received.raw) // 4)

def texts(message):
    yield message.get("content") or ""
    for call in message.get("tool_calls") or ():
        yield call["function"]["name"] + call["function"]["arguments"]

with Upstream(answer) as upstream:
    print(upstream.url, flush=True)
    for line in sys.stdin:
        print(json.dumps(seen), flush=True)
"""


def measure(sheet: Sheet) -> None:
    """Talk, and compare the last turns with the first."""
    warm, span, early, count = sheet.pick((WARM, 1_000, 2_000, 10_000), (2, 3, 4, 8))
    with folder() as place, model() as server, opened(place / "talk.db") as home:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        config = ChatConfig(base_urls={"ollama": url}, environ={})
        chat = Chat("m-1", provider="ollama", protocol="chat_completions", assume_model_exists=True, config=config)
        memory = home.attach(chat, key="talk", tokens=TOKENS, pump="inline")
        times, resident, epochs = Times(), {}, set()
        for number in range(warm + count):
            times.take(memory.turn, words(2 * number, ASKED))
            epochs.add(memory.status().epoch)
            if number + 1 in (warm + early, warm + count):
                resident[number + 1 - warm] = resident_mb()
        _show(sheet, times, (warm, span, count), size := f"{count:,} × {ASKED + SAID:,} B")
        sheet.row("epochs", size, engine(), len(epochs))
        sheet.row("resident memory", f"at {early:,} turns", engine(), resident[early], "MB")
        sheet.row(
            "resident memory", f"at {count:,} turns", engine(), resident[count], "MB", at_most=resident[early] * 1.1
        )
        _seen(sheet, server, size)
        _stored(sheet, place, memory, size)


def _show(sheet: Sheet, times: Times, spans: tuple[int, int, int], size: str) -> None:
    warm, span, _ = spans
    first = Times(times.seconds[warm : warm + span], times.cpu[warm : warm + span])
    last = Times(times.seconds[-span:], times.cpu[-span:])
    for name, part in ((f"a turn, p50, first {span:,}", first), (f"a turn, p50, last {span:,}", last)):
        sheet.row(f"{name}, CPU", size, engine(), part.cpu_ms(), "ms")
        sheet.row(f"{name}, clock", size, engine(), part.ms(), "ms")
        sheet.row(f"{name.replace('p50', 'p99')}, CPU", size, engine(), part.cpu_ms(0.99), "ms")
    sheet.row("the last / the first, p50, CPU", size, engine(), last.cpu_ms() / first.cpu_ms(), "×", at_most=1.2)
    sheet.row("the last / the first, p50, clock", size, engine(), last.ms() / first.ms(), "×")


def _seen(sheet: Sheet, server: "subprocess.Popen[str]", size: str) -> None:
    """Print what the model saw."""
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write("seen\n")
    server.stdin.flush()
    seen = json.loads(server.stdout.readline())
    sheet.row("a request, mean", size, "on the wire", seen["bytes"] / seen["requests"], "B")
    sheet.row("memory in a request, most", size, "on the wire", seen["most"], "B", at_most=TOKENS * BYTES_A_TOKEN)


def _stored(sheet: Sheet, place: Path, memory: Memory, size: str) -> None:
    stored = sum(file.stat().st_size for file in place.iterdir())
    said = sum(len(entry.text.encode()) for entry in memory.thread.entries())
    sheet.row("on the disk / what was said", size, engine(), stored / said, "×")


def resident_mb() -> float:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def model() -> "Iterator[subprocess.Popen[str]]":
    """Run the model in a process of its own; its first line is its address."""
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield server
        server.communicate(timeout=20)


if __name__ == "__main__":
    raise SystemExit(fill("turns", measure))
