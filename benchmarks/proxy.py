"""The proxy beside a bare relay and beside no relay at all: CPU time of the process that relays, and the first byte.

Provider, proxy and bare relay are processes of their own; this one is the client. They take turns, so that a busy moment
hits all. What is compared is the least CPU time for a request of several rounds, and the wait for the first byte that a
quarter of all requests did not exceed: the slower ones tell what else the machine did.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import aiohttp

from benchmarks._sheet import Sheet, fill, percentile

CHUNKS = 200
"""Events of a stream."""

QUICK = 0.25
"""The share of requests by which the wait for the first byte is judged."""

PROVIDER = f"""
import asyncio, contextlib, sys

EVENT = b'data: {{"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{{"index":0,"delta":{{"content":"words"}}}}]}}\\n\\n'
BODY = b'{{"id":"chatcmpl-1","choices":[{{"index":0,"message":{{"role":"assistant","content":"' + b"x" * 400 + b'"}}}}]}}'
WHOLE = b"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(BODY) + BODY
HEAD = b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n"
CHUNK = b"%x\\r\\n" % len(EVENT) + EVENT + b"\\r\\n"

async def serve(reader, writer):
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        await answer(reader, writer)

async def answer(reader, writer):
    while head := await reader.readuntil(b"\\r\\n\\r\\n"):
        length = next(int(line[15:]) for line in head.lower().split(b"\\r\\n") if line.startswith(b"content-length:"))
        body = await reader.readexactly(length)
        if b'"stream": true' not in body:
            writer.write(WHOLE)
            continue
        writer.write(HEAD)
        for _ in range({CHUNKS}):
            writer.write(CHUNK)
            await asyncio.sleep(0.0005)
        writer.write(b"0\\r\\n\\r\\n")

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""

BARE = """
import socket, sys
import aiohttp, uvicorn

class Relay:
    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            self.session = aiohttp.ClientSession(auto_decompress=False)
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await self.session.close()
            await send({"type": "lifespan.shutdown.complete"})
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        headers = {name.decode(): value.decode() for name, value in scope["headers"] if name not in (b"host", b"content-length")}
        async with self.session.post(sys.argv[1] + scope["path"], data=body, headers=headers) as response:
            down = [(name.lower(), value) for name, value in response.raw_headers if name.lower() != b"transfer-encoding"]
            await send({"type": "http.response.start", "status": response.status, "headers": down})
            async for piece in response.content.iter_any():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})

listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(Relay(), log_config=None, access_log=False)).run(sockets=[listening])
"""


@dataclass(slots=True)
class Way:
    """One way to the provider."""

    name: str
    url: str
    pid: int
    """The process whose CPU time is measured; 0 where none is between."""
    cpu: list[float] = field(default_factory=list)
    """CPU seconds a request, one number a round."""
    first: list[float] = field(default_factory=list)
    """Seconds until the first byte of a body."""

    @property
    def used(self) -> float:
        """CPU seconds of all threads of its process so far."""
        tasks = Path(f"/proc/{self.pid}/task").glob("*/schedstat") if self.pid else ()
        return sum(int(one.read_text().split()[0]) for one in tasks) / 1e9


def measure(sheet: Sheet) -> None:
    """Measure requests and streams."""
    with ExitStack() as stack:
        _, port = stack.enter_context(process(sys.executable, "-c", PROVIDER))
        provider = f"http://127.0.0.1:{port}"
        serve = [sys.executable, "-m", "everlog.surfaces.cli", "serve", "--port", "0", "--json", "--mode", "off"]
        serve += ["--upstream", provider]
        proxy, told = stack.enter_context(process(*serve))
        bare, bare_port = stack.enter_context(process(sys.executable, "-c", BARE, provider))
        ways = [
            Way("direct", provider, 0),
            Way("bare relay", f"http://127.0.0.1:{bare_port}", bare),
            Way("proxy, off", json.loads(told)["base_url"].removesuffix("/v1"), proxy),
        ]
        asyncio.run(play(ways, rounds=sheet.pick(10, 1), requests=sheet.pick(150, 5), stream=False))
        show_requests(sheet, ways)
        for way in ways:
            way.cpu.clear()
            way.first.clear()
        asyncio.run(play(ways, rounds=sheet.pick(8, 1), requests=sheet.pick(12, 2), stream=True))
        show_streams(sheet, ways)


def show_requests(sheet: Sheet, ways: list[Way]) -> None:
    """Print what a request took."""
    for way in ways:
        sheet.row("a request, first byte", "2 KB", way.name, percentile(way.first, QUICK) * 1000, "ms")
    _, bare, proxy = ways
    ratio = percentile(proxy.first, QUICK) / percentile(bare.first, QUICK)
    sheet.row("a request, first byte beside the bare relay", "2 KB", proxy.name, ratio, "x", at_most=1.5)
    sheet.row("a request, CPU", "2 KB", bare.name, min(bare.cpu) * 1000, "ms")
    sheet.row("a request, CPU", "2 KB", proxy.name, min(proxy.cpu) * 1000, "ms", at_most=2)


def show_streams(sheet: Sheet, ways: list[Way]) -> None:
    """Print what a stream took."""
    size = f"{CHUNKS} events"
    for way in ways:
        sheet.row("a stream, first byte", size, way.name, percentile(way.first, QUICK) * 1000, "ms")
    _, bare, proxy = ways
    ratio = percentile(proxy.first, QUICK) / percentile(bare.first, QUICK)
    sheet.row("a stream, first byte beside the bare relay", size, proxy.name, ratio, "x", at_most=1.5)
    for way in (bare, proxy):
        sheet.row("a stream, CPU", size, way.name, min(way.cpu) * 1000, "ms")
    sheet.row("a stream, CPU beside the bare relay", size, proxy.name, min(proxy.cpu) / min(bare.cpu), "x", at_most=2)


async def play(ways: list[Way], *, rounds: int, requests: int, stream: bool) -> None:
    """Send requests by each way in turn, one after the other on one connection."""
    body = json.dumps(
        {"model": "m-1", "stream": stream, "messages": [{"role": "user", "content": "x" * 2000}]}
    ).encode()
    headers = {"authorization": "Bearer sk-1", "content-type": "application/json"}
    async with aiohttp.ClientSession(headers=headers) as session:
        for number in range(rounds + 1):
            for way in ways:
                began = way.used
                for _ in range(requests):
                    sent = perf_counter()
                    async with session.post(f"{way.url}/v1/chat/completions", data=body) as response:
                        await response.content.readany()
                        first = perf_counter() - sent
                        await response.read()
                    assert response.status == 200
                    if number:  # the first round warms up
                        way.first.append(first)
                if number:
                    way.cpu.append((way.used - began) / requests)


@contextmanager
def process(*command: str) -> Iterator[tuple[int, str]]:
    """Run a program that prints one line when it is ready; yield its process id and the line."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            yield running.pid, running.stdout.readline().strip()
        finally:
            running.terminate()


if __name__ == "__main__":
    raise SystemExit(fill("proxy", measure))
