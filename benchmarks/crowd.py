"""A thousand requests, 32 of them at once, through a proxy that keeps them: none is lost in the log, and none there twice.

Each client has one conversation after another, streamed or not; the provider answers each request in other words. When
all are answered and the proxy has stopped, the log holds each conversation as its client does.
"""

import asyncio
from collections import Counter
from contextlib import closing
from pathlib import Path
from time import perf_counter

import aiohttp

import everlog
from benchmarks._relays import HEADERS, Talk, provider, proxy
from benchmarks._sheet import Sheet, fill
from benchmarks._stock import engine, folder

CLIENTS = 32

TURNS = 8
"""Questions of a conversation."""

SIZE = 100
"""Bytes of a question."""


def measure(sheet: Sheet) -> None:
    """Let a crowd ask, and look at what was kept."""
    requests = sheet.pick(1000, 160)
    talks = [Talk(name=n * 2 * TURNS) for n in range(-(-requests // TURNS))]
    with folder() as place:
        with provider() as there, proxy(there, mode="record", home=place) as server:
            began = perf_counter()
            asyncio.run(_crowd(server.url, talks, requests))
            took = perf_counter() - began
            server.stop()
        lost, twice, wrong = _compared(place / "everlog.db", talks)
    size = f"{requests:,}, {CLIENTS} at once"
    sheet.row("messages that are not in the log", size, engine(), lost, at_most=0, counted=True)
    sheet.row("messages that are there twice", size, engine(), twice, at_most=0, counted=True)
    sheet.row("conversations that are not as they were", size, engine(), wrong, at_most=0, counted=True)
    sheet.row("requests a second", size, engine(), requests / took)


async def _crowd(url: str, talks: list[Talk], requests: int) -> None:
    waiting = [(talk, min(TURNS, requests - n * TURNS)) for n, talk in enumerate(talks)]
    async with aiohttp.ClientSession(headers=HEADERS, connector=aiohttp.TCPConnector(limit=0)) as session:

        async def client(is_streaming: bool) -> None:
            while waiting:
                talk, turns = waiting.pop(0)
                for _ in range(turns):
                    await talk.ask(session, url, size=SIZE, stream=is_streaming)

        await asyncio.gather(*(client(n % 4 == 0) for n in range(CLIENTS)))


def _compared(path: Path, talks: list[Talk]) -> tuple[int, int, int]:
    """Return how many messages are not in the log, are there more than once, and how many conversations are not there."""
    said = [tuple((one["role"], one["content"]) for one in talk.history) for talk in talks]
    with closing(everlog.open(path)) as memory:
        threads = [memory.thread(one.key) for one in memory.threads()]
        kept = [tuple((entry.kind, entry.text) for entry in thread.entries()) for thread in threads]
    there, wanted = (Counter(message for talk in side for message in talk) for side in (kept, said))
    return (wanted - there).total(), (there - wanted).total(), (Counter(said) - Counter(kept)).total()


if __name__ == "__main__":
    raise SystemExit(fill("crowd", measure))
