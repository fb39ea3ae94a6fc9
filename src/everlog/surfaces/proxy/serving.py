"""The proxy in a server: uvicorn, on one address, until it is told to stop."""

import asyncio
import logging
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from everlog.errors import Mistake
from everlog.surfaces.proxy.asgi import App
from everlog.surfaces.proxy.garbage import beside, collect, settle

BACKLOG = 2048
KEEP_S = 120
"""How long a client's idle connection is kept, in seconds: longer than clients keep theirs, so that none is cut in use."""

LAST_ANSWERS_S = 30
"""How long answers that are under way may go on when it is told to stop, in seconds."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes a free one.

    Raises:
        Mistake: the address is taken, or not of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise Mistake(
            f"port {port} of {host} cannot be listened on ({error.strerror}); choose another by --port"
        ) from None
    return found


def serve(app: App, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT; `ready` is called once requests are taken."""
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="on",
        timeout_keep_alive=KEEP_S,
        timeout_graceful_shutdown=LAST_ANSWERS_S,
    )
    with beside():
        _Server(config, ready).run(sockets=[listening])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            settle()
            self._ready()

    async def main_loop(self) -> None:
        collecting = asyncio.create_task(collect())
        try:
            await super().main_loop()
        finally:
            collecting.cancel()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 -- the interface of signals
        """Let what is under way end; told again, end at once. Both are an end as it should be."""
        self.force_exit = self.should_exit
        self.should_exit = True


def _is_news(record: logging.LogRecord) -> bool:
    """Say whether a line tells more than that an answer broke off, or that a WebSocket was refused: both on purpose."""
    said = record.getMessage()
    return "without completing response" not in said and "without completing handshake" not in said
