"""How long the event loop of the proxy is kept from others while it serves a conversation of 100,000 messages.

A client sends all of it again and goes on, one that names its session sends the end of it, and its lines, messages and
words are asked for over HTTP; others go on streaming. What is judged is the CPU time of the loop's thread in each callback,
which a busy machine does not change. The loop is asyncio's own, in which a callback can be looked at: that of the server
extra, uvloop, does the same in less time.
"""

import asyncio
import json
import signal

import aiohttp

from benchmarks._relays import HEADERS, Server, Talk, provider, proxy
from benchmarks._sheet import Sheet, fill
from benchmarks._stock import folder, words

MOST_MS = 10

SIZE = 100
"""Bytes of a message."""

WINDOW = 20
"""Messages that a client sends which sends only the last ones."""

LINES = 80_000
"""Bytes of a view."""

WATCHED = """
import asyncio, json, signal, sys, time

sys.modules["uvloop"] = None
place, bound_s = sys.argv[1], float(sys.argv[2]) / 1000
del sys.argv[1:3]
seen = {}
run = asyncio.Handle._run

def begin(*_):
    seen.update(callbacks=0, over=0, longest=0.0)

def timed(handle):
    began = time.thread_time()
    run(handle)
    took = time.thread_time() - began
    seen["callbacks"] += 1
    seen["longest"] = max(seen["longest"], took)
    seen["over"] += took > bound_s

begin()
signal.signal(signal.SIGUSR1, begin)
asyncio.Handle._run = timed

from everlog.surfaces.cli import main

try:
    main()
finally:
    with open(place, "w") as file:
        json.dump(seen, file)
"""
"""The proxy, with a look at each callback of its loop; SIGUSR1 forgets what was seen."""


def measure(sheet: Sheet) -> None:
    """Serve a long conversation, and look at the callbacks."""
    for mode in ("record", "tree"):
        _measured(sheet, mode, sheet.pick(100_000, 4_000))


def _measured(sheet: Sheet, mode: str, count: int) -> None:
    with folder() as place:
        seen = place / "seen.json"
        program = ("-c", WATCHED, str(seen), str(MOST_MS))
        with provider() as there, proxy(there, mode=mode, home=place, program=program) as server:
            asyncio.run(_served(server, count, times=sheet.pick(4, 1)))
            server.stop()
        found = json.loads(seen.read_text())
    size = f"{count:,} entries, mode {mode}"
    sheet.row("callbacks of the loop", size, "asyncio", found["callbacks"])
    sheet.row("the longest, CPU", size, "asyncio", found["longest"] * 1000, "ms")
    sheet.row(f"callbacks over {MOST_MS} ms of CPU", size, "asyncio", found["over"], at_most=0, counted=True)


async def _served(server: Server, count: int, *, times: int) -> None:
    async with aiohttp.ClientSession(headers=HEADERS, timeout=aiohttp.ClientTimeout(total=None)) as session:
        await Talk(name=0).ask(session, server.url, size=SIZE)  # what is loaded once is loaded now
        server.process.send_signal(signal.SIGUSR1)
        others = asyncio.create_task(_others(session, server.url))
        long = Talk(name=1_000_000, session="long")
        long.history += [
            {"role": ("user", "assistant")[n % 2], "content": words(1_000_000 + n, SIZE)} for n in range(count)
        ]
        for _ in range(times):
            await long.ask(session, server.url, size=SIZE)
            key = await _kept(session, server.url, len(long.history))
            end = Talk(name=long.name + count, session="long", history=long.history[-WINDOW:])
            await end.ask(session, server.url, size=SIZE)
            long.history += end.history[-2:]
            await _kept(session, server.url, len(long.history))
            await _looked_at(session, server.url, key, count)
        others.cancel()
        await asyncio.gather(others, return_exceptions=True)


async def _others(session: aiohttp.ClientSession, url: str) -> None:
    """Go on asking short questions."""
    number = 0
    while True:
        number += 2
        await Talk(name=number).ask(session, url, size=SIZE, stream=number % 4 == 0)


async def _kept(session: aiohttp.ClientSession, url: str, entries: int) -> str:
    """Wait until the long conversation has so many messages; return its key."""
    while True:
        async with session.get(f"{url}/everlog/v1/threads", params={"limit": 1000}) as answer:
            found = [one["key"] for one in (await answer.json())["threads"] if one["entries"] == entries]
        if found:
            return str(found[0])


async def _looked_at(session: aiohttp.ClientSession, url: str, key: str, count: int) -> None:
    """Ask for all there is to be seen of it."""
    thread = f"{url}/everlog/v1/threads/{key}"
    asked: tuple[tuple[str, dict[str, str | int]], ...] = (
        ("/entries", {"last": 1000}),
        ("/entries", {"start": count // 2, "limit": 1000}),
        ("/instructions", {}),
        ("/view", {"bytes": LINES}),
        ("/zoom", {"id": 0, "n": 1024}),
        ("/search", {"q": "lighthouse invoice"}),
        ("/export", {}),
        ("", {}),
    )
    for path, query in asked:
        async with session.get(thread + path, params=query) as answer:
            body = await answer.read()
            assert answer.status == 200, body
    for path in ("stats", "requests", "events"):
        async with session.get(f"{url}/everlog/v1/{path}") as answer:
            assert answer.status == 200, await answer.read()


if __name__ == "__main__":
    raise SystemExit(fill("stalls", measure))
