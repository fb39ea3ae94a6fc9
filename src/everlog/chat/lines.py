"""A line to a server: the connection under a blocking call, which only another thread can cut."""

import contextlib
import socket
from collections.abc import Mapping
from typing import Any

from everlog.chat.deadlines import deadlines


class Line:
    """A connection, and how long it may be waited for."""

    def __init__(self) -> None:
        self.patience_s = float("inf")
        self.is_late = False
        """Whether it was cut because something took too long."""
        self._stream: Any = None

    def begin(self, patience_s: float) -> None:
        """Begin a call; `patience_s` limits the wait for the head of its answer."""
        self.patience_s, self.is_late = patience_s, False

    def watch(self, event: str, facts: Mapping[str, Any]) -> None:
        """Note the connection, and when the head of an answer is waited for, as the client tells of them."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._stream = facts["return_value"]
        elif event.endswith("receive_response_headers.started"):
            self.limit(self.patience_s)
        elif event.endswith("receive_response_headers.complete"):
            self.unlimit()

    def limit(self, seconds: float) -> None:
        """Cut it, unless what is waited for from now on is over in time."""
        deadlines.set(self._expire, seconds)

    def unlimit(self) -> None:
        """It is over."""
        deadlines.clear(self._expire)

    def cut(self) -> None:
        """Shut the connection down under whoever waits in it."""
        found = self._stream.get_extra_info("socket") if self._stream is not None else None
        if found is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(found, socket.SHUT_RDWR)

    def _expire(self) -> None:
        self.is_late = True
        self.cut()
