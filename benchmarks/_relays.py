"""What benchmarks of the proxy work with: a provider of raw bytes, a bare relay, and the proxy, each a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from benchmarks._stock import words

CHUNKS = 200
"""Events of a stream that say something."""

PATH = "/v1/chat/completions"

HEADERS = {"authorization": "Bearer sk-1", "content-type": "application/json"}

PROVIDER = f"""
import asyncio, contextlib, itertools, sys

numbers = itertools.count(1)
CHUNK = b'{{"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{{"index":0,"delta":{{"content":"%b"}}}}]}}'
LAST = b'{{"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{{"index":0,"delta":{{}},"finish_reason":"stop"}}]}}'
BODY = b'{{"id":"chatcmpl-1","choices":[{{"index":0,"finish_reason":"stop","message":{{"role":"assistant","content":"%b"}}}}]}}'
WHOLE = b"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\ncontent-length: %d\\r\\n\\r\\n%b"
HEAD = b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n"

def framed(data):
    data = b"data: " + data + b"\\n\\n"
    return b"%x\\r\\n" % len(data) + data + b"\\r\\n"

WORDS = framed(CHUNK % b"words")

async def serve(reader, writer):
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        await answer(reader, writer)

async def answer(reader, writer):
    while head := await reader.readuntil(b"\\r\\n\\r\\n"):
        length = next(int(line[15:]) for line in head.lower().split(b"\\r\\n") if line.startswith(b"content-length:"))
        body = await reader.readexactly(length)
        said = b"%08d is said. " % next(numbers)
        if b'"stream": true' not in body:
            body = BODY % (said + b"x" * 400)
            writer.write(WHOLE % (len(body), body))
            continue
        writer.write(HEAD + framed(CHUNK % said))
        for _ in range({CHUNKS - 1}):
            writer.write(WORDS)
            await asyncio.sleep(0.0005)
        writer.write(framed(LAST) + framed(b"[DONE]") + b"0\\r\\n\\r\\n")

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""
"""Answers each request by another number, so that no two are the same."""

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

PROXY = ("-m", "everlog.surfaces.cli")


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs."""

    url: str
    process: subprocess.Popen[str]

    @property
    def used(self) -> float:
        """CPU seconds of all its threads so far."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(one.read_text().split()[0]) for one in tasks) / 1e9

    def stop(self) -> None:
        """Tell it to stop, and wait until all is done."""
        self.process.terminate()
        self.process.wait()


@contextmanager
def provider() -> Iterator[Server]:
    """Run the provider."""
    with _running("-c", PROVIDER) as (process, port):
        yield Server(f"http://127.0.0.1:{port}", process)


@contextmanager
def bare(upstream: Server) -> Iterator[Server]:
    """Run the bare relay."""
    with _running("-c", BARE, upstream.url) as (process, port):
        yield Server(f"http://127.0.0.1:{port}", process)


@contextmanager
def proxy(upstream: Server, *, mode: str, home: Path, program: tuple[str, ...] = PROXY) -> Iterator[Server]:
    """Run the proxy, with its database in a folder."""
    serve = ("serve", "--port", "0", "--json", "--mode", mode, "--upstream", upstream.url)
    with _running(*program, *serve, EVERLOG_DB=str(home / "everlog.db")) as (process, told):
        yield Server(json.loads(told)["base_url"].removesuffix("/v1"), process)


@contextmanager
def _running(*arguments: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a program that prints one line when it is ready; yield it and the line. What it logs is not shown."""
    command, pipe = [sys.executable, *arguments], subprocess.PIPE
    environment = {**os.environ, **variables}
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as running:
        assert running.stdout is not None
        try:
            yield running, running.stdout.readline().strip()
        finally:
            running.terminate()


@dataclass(slots=True)
class Talk:
    """A conversation, as a client holds it and sends it again with each question."""

    name: int
    """By which its questions differ from those of others."""
    session: str = ""
    history: list[dict[str, str]] = field(default_factory=list)

    async def ask(self, session: aiohttp.ClientSession, url: str, *, size: int, stream: bool = False) -> str:
        """Ask a question of some bytes; return the answer."""
        question = {"role": "user", "content": words(self.name + len(self.history), size)}
        asked = {"model": "m-1", "stream": stream, "messages": [*self.history, question]}
        headers = {"x-everlog-session-id": self.session} if self.session else {}
        async with session.post(url + PATH, data=json.dumps(asked).encode(), headers=headers) as response:
            body = await response.read()
        assert response.status == 200, body
        said = text_of(body, stream=stream)
        self.history += [question, {"role": "assistant", "content": said}]
        return said


def text_of(body: bytes, *, stream: bool) -> str:
    """Return what an answer says."""
    if not stream:
        return str(json.loads(body)["choices"][0]["message"]["content"])
    events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: {")]
    return "".join(event["choices"][0]["delta"].get("content", "") for event in events)
