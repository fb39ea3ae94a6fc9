"""Keeping what goes through the proxy, without any HTTP: requests a second, and what a resent history costs to read.

CPU of the whole process; a request is parsed, placed and kept with its answer, as the recorder's threads do it.
"""

import json
from functools import partial

from benchmarks._sheet import Sheet, Times, fill
from benchmarks._stock import engine, folder, words
from everlog import log
from everlog.conversation.alignment.exchanges import record
from everlog.conversation.alignment.values import Answer, Caller, Recorded
from everlog.log import NewTurn
from everlog.messages import Message
from everlog.protocols import FORMATS
from everlog.protocols.shapes import loads
from everlog.protocols.shapes import record as object_of
from everlog.store import Store, Unit, open_store
from everlog.surfaces.proxy.recording.exchanges import parse_exchange

CHAT = FORMATS["chat_completions"]
MB = 1_000_000


def measure(sheet: Sheet) -> None:
    """Measure it on SQLite."""
    with folder() as place, open_store(place / "everlog.db") as store:
        _talks(sheet, store)
        _resent(sheet, store)
        _window(sheet, store)


def _keep(store: Store, raw: str, answer: str, session: str = "") -> Recorded:
    headers = ((b"x-everlog-session-id", session.encode()),) if session else ()
    request = parse_exchange(CHAT, headers, object_of(loads(raw)), caller=Caller(key="k"), request=f"r{hash(answer)}")
    said = Answer(messages=(Message(kind="assistant", text=answer, model="m"),))
    return record(store, "t", request, said, redact=lambda message: message)


def _asked(history: list[dict[str, str]]) -> str:
    return json.dumps({"model": "m", "messages": history})


def _talks(sheet: Sheet, store: Store) -> None:
    times = Times()
    for talk in range(sheet.pick(60, 2)):
        history: list[dict[str, str]] = []
        for n in range(8):
            number = 1000 + talk * 16 + 2 * n
            history.append({"role": "user", "content": words(number, 200)})
            answer = words(number + 1, 400)
            times.take(_keep, store, _asked(history), answer)
            history.append({"role": "assistant", "content": answer})
    sheet.row("exchanges kept a second of CPU", "8 turns of 0.6 KB", engine(), 1000 / times.cpu_ms(), at_least=300)


def _resent(sheet: Sheet, store: Store) -> None:
    """Send a megabyte again and again, with one more turn each time."""
    history = [{"role": ("user", "assistant")[n % 2], "content": words(9000 + n, 2000)} for n in range(500)]
    times, read = Times(), Times()
    for n in range(sheet.pick(20, 2)):
        raw = _asked([*history, {"role": "user", "content": words(n, 100)}])
        answer = words(20_000 + n, 100)
        read.take(json.loads, raw)
        times.take(_keep, store, raw, answer)
        history += [{"role": "user", "content": words(n, 100)}, {"role": "assistant", "content": answer}]
    size = len(_asked(history)) / MB
    sheet.row("a resent history, kept", "1 MB, 500 messages", engine(), times.cpu_ms(0.25) / size, "ms/MB", at_most=15)
    sheet.row("of that, json.loads alone", "1 MB, 500 messages", engine(), read.cpu_ms(0.25) / size, "ms/MB")


def _window(sheet: Sheet, store: Store) -> None:
    """Send the last turns of a long thread, by the name of its session."""
    count = sheet.pick(100_000, 2_000)
    history = [{"role": ("user", "assistant")[n % 2], "content": words(40_000 + n, 100)} for n in range(10)]
    thread = _keep(store, _asked([{"role": "user", "content": "Hello"}]), "Hello!", "long").thread or ""
    for start in range(0, count, 1000):
        store.write("t", partial(_fill, thread=thread, start=start), name="bench")
    store.write("t", partial(_say, thread=thread, history=history), name="bench")
    times = Times()
    for n in range(sheet.pick(20, 2)):
        asked = {"role": "user", "content": words(60_000 + n, 100)}
        answer = words(70_000 + n, 100)
        times.take(_keep, store, _asked([*history, asked]), answer, "long")
        history = [*history[2:], asked, {"role": "assistant", "content": answer}]
    sheet.row("a window of a long thread, kept", f"{count:,} entries", engine(), times.cpu_ms(), "ms", at_most=10)


def _fill(unit: Unit, *, thread: str, start: int) -> None:
    said = [Message(kind=("user", "assistant")[n % 2], text=f"{n} is said") for n in range(start, start + 1000)]
    log.append(unit, log.load(unit, thread), [NewTurn(messages=tuple(said))])


def _say(unit: Unit, *, thread: str, history: list[dict[str, str]]) -> None:
    said = tuple(Message(kind=one["role"], text=one["content"]) for one in history)  # type: ignore[arg-type]
    log.append(unit, log.load(unit, thread), [NewTurn(messages=said)])


if __name__ == "__main__":
    raise SystemExit(fill("recording", measure))
