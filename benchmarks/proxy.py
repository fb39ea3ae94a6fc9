"""The proxy beside a bare relay and beside no relay at all: CPU time of the process that relays, and the first byte.

Provider, proxies and bare relay are processes of their own; this one is the client. They take turns, so that a busy moment
hits all. What is compared is the least CPU time for a request of several rounds, and the wait for the first byte that a
quarter of all requests did not exceed: the slower ones tell what else the machine did.
"""

import asyncio
import json
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from time import perf_counter

import aiohttp

from benchmarks._relays import CHUNKS, HEADERS, PATH, Server, bare, provider, proxy, text_of
from benchmarks._sheet import Sheet, fill, percentile
from benchmarks._stock import folder, words

QUICK = 0.25
"""The share of requests by which the wait for the first byte is judged."""

TURNS = 8
"""Questions of a conversation, each sent with all that was said before: 2 KB are sent with one of them, on average."""

QUESTION = 100
"""Bytes of such a question."""


@dataclass(slots=True)
class Way:
    """One way to the provider."""

    name: str
    server: Server
    cpu: list[float] = field(default_factory=list)
    """CPU seconds a request, one number a round."""
    first: list[float] = field(default_factory=list)
    """Seconds until the first byte of a body."""
    said: list[dict[str, str]] = field(default_factory=list)
    """The conversation that goes this way now."""

    @property
    def wait(self) -> float:
        """How long the first byte took, in seconds."""
        return percentile(self.first, QUICK)


def measure(sheet: Sheet) -> None:
    """Measure requests and streams."""
    with folder() as place, ExitStack() as stack:
        there = stack.enter_context(provider())
        proxies = {mode: stack.enter_context(proxy(there, mode=mode, home=place)) for mode in ("off", "record")}
        ways = [
            Way("direct", there),
            Way("bare relay", stack.enter_context(bare(there))),
            *(Way(f"proxy, {mode}", server) for mode, server in proxies.items()),
        ]
        asyncio.run(play(ways, rounds=sheet.pick(10, 1), requests=sheet.pick(18 * TURNS, TURNS), stream=False))
        show_requests(sheet, *ways)
        for way in ways:
            way.cpu.clear()
            way.first.clear()
            way.said.clear()
        asyncio.run(play(ways, rounds=sheet.pick(8, 1), requests=sheet.pick(12, 1), stream=True))
        show_streams(sheet, *ways)


def show_requests(sheet: Sheet, direct: Way, bare: Way, off: Way, record: Way) -> None:
    """Print what a request took; where exchanges are kept, an answer waits until its own is."""
    for way in (direct, bare, off, record):
        sheet.row("a request, first byte", "2 KB", way.name, way.wait * 1000, "ms")
    sheet.row("a request, first byte beside the bare relay", "2 KB", off.name, off.wait / bare.wait, "x", at_most=1.5)
    for way, most in ((bare, None), (off, 2), (record, None)):
        sheet.row("a request, CPU", "2 KB", way.name, min(way.cpu) * 1000, "ms", at_most=most)
    sheet.row("requests a second of CPU", "talks of 8, 2 KB", record.name, 1 / min(record.cpu), at_least=300)


def show_streams(sheet: Sheet, direct: Way, bare: Way, *proxies: Way) -> None:
    """Print what a stream took.

    The provider answers within half a millisecond, just while the recorder reads the request; of a model nobody would see it.
    """
    size = f"{CHUNKS} events"
    for way in (direct, bare, *proxies):
        sheet.row("a stream, first byte", size, way.name, way.wait * 1000, "ms")
    for way, most in zip(proxies, (1.5, None), strict=True):
        sheet.row("a stream, first byte beside the bare relay", size, way.name, way.wait / bare.wait, "x", at_most=most)
    for way in (bare, *proxies):
        sheet.row("a stream, CPU", size, way.name, min(way.cpu) * 1000, "ms")
    for way in proxies:
        ratio = min(way.cpu) / min(bare.cpu)
        sheet.row("a stream, CPU beside the bare relay", size, way.name, ratio, "x", at_most=2)


async def play(ways: list[Way], *, rounds: int, requests: int, stream: bool) -> None:
    """Send requests by each way in turn, one after the other on one connection."""
    numbers = count()
    async with aiohttp.ClientSession(headers=HEADERS) as session:
        for number in range(rounds + 1):
            for way in ways:
                began = way.server.used
                first = [await ask(session, way, next(numbers), stream=stream) for _ in range(requests)]
                if number:  # the first round warms up
                    way.first += first
                    way.cpu.append((way.server.used - began) / requests)


async def ask(session: aiohttp.ClientSession, way: Way, number: int, *, stream: bool) -> float:
    """Ask the next question; return how long the first byte took. A stream is a conversation of its own."""
    if stream or len(way.said) >= 2 * TURNS:
        way.said.clear()
    way.said.append({"role": "user", "content": words(number, 2000 if stream else QUESTION)})
    body = json.dumps({"model": "m-1", "stream": stream, "messages": way.said}).encode()
    sent = perf_counter()
    async with session.post(way.server.url + PATH, data=body) as response:
        begun = await response.content.readany()
        first = perf_counter() - sent
        whole = begun + await response.read()
    assert response.status == 200
    way.said.append({"role": "assistant", "content": text_of(whole, stream=stream)})
    return first


if __name__ == "__main__":
    raise SystemExit(fill("proxy", measure))
