"""A wire between a client and a PostgreSQL server that counts round trips and can be cut."""

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

from psycopg.conninfo import conninfo_to_dict

Cut = Literal["before", "after"]


@dataclass(slots=True)
class Relay:
    """Listens on a port of its own and passes everything on to the server."""

    server: tuple[str, int]
    port: int = 0
    trips: int = 0
    """How often the client spoke after the server had: the round trips of one connection."""
    cut: Cut | None = None
    """Break the next connection that sends COMMIT: before the server gets it, or before the client has the answer."""
    cuts: int = 0
    _speaker: str = "server"
    _sockets: list[socket.socket] = field(default_factory=list)

    def accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.server)
            self._sockets += [client, server]
            closing = threading.Event()
            threading.Thread(target=self._forward, args=(client, server, "client", closing), daemon=True).start()
            threading.Thread(target=self._forward, args=(server, client, "server", closing), daemon=True).start()

    def _forward(self, source: socket.socket, to: socket.socket, speaker: str, closing: threading.Event) -> None:
        try:
            while data := source.recv(1 << 16):
                if speaker == "client" and self.cut and b"COMMIT\0" in data:
                    cut, self.cut, self.cuts = self.cut, None, self.cuts + 1
                    closing.set()
                    if cut == "before":
                        break
                elif speaker == "server" and closing.is_set():
                    break
                if speaker == "client" and self._speaker == "server":
                    self.trips += 1
                self._speaker = speaker
                to.sendall(data)
        except OSError:
            pass
        for one in (source, to):
            shut(one)

    def close(self) -> None:
        for one in self._sockets:
            shut(one)
            one.close()


@contextmanager
def relay(address: str) -> Iterator[tuple[str, Relay]]:
    """Give an address that leads to a database over a relay, and the relay."""
    parts = conninfo_to_dict(address)
    wire = Relay((str(parts["host"]), int(parts["port"] or 5432)))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        wire.port = listener.getsockname()[1]
        threading.Thread(target=wire.accept, args=(listener,), daemon=True).start()
        yield url(parts, wire.port), wire
        shut(listener)
    wire.close()


def shut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


def url(parts: Mapping[str, object], port: int) -> str:
    return f"postgresql://{parts['user']}:{parts['password']}@127.0.0.1:{port}/{parts['dbname']}"
