"""An append to PostgreSQL: how long it takes, and how often it waits for the server.

Every byte passes a relay on this machine, which counts each time the client speaks after the server has: a round trip.
Now and then one is counted with its neighbour (bytes of two appends pass at once), so the mean is judged, to a tenth.
The server is a real one, made for this run, durable as in production.
"""

import os
import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import everlog
from benchmarks._sheet import Sheet, Times, fill
from benchmarks._stock import turn
from everlog import MasterKeys
from everlog.store.migrate import upgrade
from everlog.store.postgres import PostgresEngine
from tests.postgres import running_server

SIZE = 1_000
WARM = 15
"""Appends before the measurement, so that connections are open and statements prepared."""


class Relay:
    """Passes bytes between any number of clients and one server, and counts round trips."""

    def __init__(self, port: int) -> None:
        self.trips = 0
        self._port = port
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        threading.Thread(target=self._admit, daemon=True).start()

    def close(self) -> None:
        """Take no more clients."""
        self._door.close()

    def _admit(self) -> None:
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self._port))
        spoke = server
        with selectors.DefaultSelector() as ready, client, server:
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                ready.register(one, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    speaker = client if key.fileobj is client else server
                    said = speaker.recv(1 << 16)
                    if not said:
                        return
                    self.trips += speaker is client and spoke is server
                    spoke = speaker
                    (server if speaker is client else client).sendall(said)


def measure(sheet: Sheet) -> None:
    """Measure it plain and encrypted."""
    with running_server() as server:
        for encrypted in (False, True):
            database = server.create()
            upgrade(PostgresEngine(database.url), encrypted=encrypted)
            with _through_a_relay(database.url) as (relay, url):
                _measured(sheet, relay, url, encrypted=encrypted)


def _measured(sheet: Sheet, relay: Relay, url: str, *, encrypted: bool) -> None:
    times = Times()
    whole: list[int] = []
    reply: list[int] = []
    with everlog.open(url, keys=MasterKeys(keys=[os.urandom(32)]) if encrypted else None) as memory:
        thread = memory.thread("talk")
        for i in range(sheet.pick(400, 5) + WARM):
            before = relay.trips
            times.take(thread.turn, turn(2 * i, SIZE))
            whole.append(relay.trips - before)
            asked, answered = turn(2 * i + 1, SIZE)
            thread.append("user", asked.text)
            before = relay.trips
            thread.append("assistant", answered.text)
            reply.append(relay.trips - before)
    name = "PostgreSQL" + (", encrypted" if encrypted else "")
    size = "turn of 2 × 1 KB"
    del times.seconds[:WARM]
    sheet.row("round trips of an append, mean", size, name, _mean(whole[WARM:]), at_most=2)
    sheet.row("round trips of a reply alone, mean", "1 KB", name, _mean(reply[WARM:]), at_most=2)
    sheet.row("append of a turn through the relay, p50", size, name, times.ms(), "ms")
    sheet.row("append of a turn through the relay, p99", size, name, times.ms(0.99), "ms")


def _mean(trips: list[int]) -> float:
    return round(sum(trips) / len(trips), 1)


@contextmanager
def _through_a_relay(url: str) -> Iterator[tuple[Relay, str]]:
    parts = urlsplit(url)
    assert parts.port is not None, "the server of the tests listens on a port"
    relay = Relay(parts.port)
    try:
        yield relay, urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{parts.port}", f":{relay.port}")))
    finally:
        relay.close()


if __name__ == "__main__":
    raise SystemExit(fill("postgres", measure))
