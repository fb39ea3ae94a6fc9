"""HTTP as it is spoken: connections kept, closed, left behind, and cut (chat B.7; D50; A.2 607)."""

import asyncio
import functools
import gzip
import subprocess
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from everlog.chat.attempts import exchange
from everlog.chat.cancel import Cancel
from everlog.chat.drivers import AsyncDriver, SyncDriver
from everlog.chat.effects import Timeouts
from everlog.chat.ledger import Ledger
from everlog.chat.loops import pause, pause_async
from everlog.chat.wire import AsyncWire, Wire
from everlog.clock import SystemClock
from everlog.errors import BadReply, Cancelled, NeverSent
from everlog.protocols.shapes import encoded
from everlog.testing.upstream import Answer, Stalled, Upstream
from tests.unit.chat.calls import each_protocol, prepared, text_of
from tests.unit.chat.servers import BEGUN, RawServer, certificate, chunk

WORDS = Answer(text="Good morning." * 4)
SAID: dict[str, Any] = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}]
}
EVENT = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"Yes."},"finish_reason":"stop"}]}\n\n'


def program(url, *, stream=False, cancel=None, ledger=None, **fields):
    request = prepared(url, "chat_completions", stream=stream, **fields)
    return exchange(
        request, ledger=Ledger() if ledger is None else ledger, cancel=cancel or Cancel(), clock=SystemClock()
    )


def answered(server, connection):
    body = encoded(SAID)
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))


def streamed(server, connection):
    connection.sendall(BEGUN + chunk(EVENT) + chunk(b"data: [DONE]\n\n"))
    connection.sendall(b"0\r\n\r\n")


@pytest.mark.parametrize(("act", "stream"), [(answered, False), (streamed, True)])
@pytest.mark.parametrize("is_async", [False, True])
def test_calls_one_after_the_other_share_a_connection(act, stream, is_async):
    async def ask_on_a_loop(url):
        driver = AsyncDriver(AsyncWire())
        return [(await driver.run(program(url, stream=stream))).text for _ in range(4)]

    wire = Wire()
    with RawServer(act) as server:
        if is_async:
            texts = asyncio.run(ask_on_a_loop(server.url))
        else:
            texts = [SyncDriver(wire).run(program(server.url, stream=stream)).text for _ in range(4)]
            wire.close_idle()
        assert (texts, server.requests, server.connections) == (["Yes."] * 4, 4, 1)


def test_calls_at_once_have_connections_of_their_own_which_are_kept():
    wire, together = Wire(), threading.Barrier(4)

    def act(server, connection):
        together.wait(10)
        answered(server, connection)

    with RawServer(act) as server, ThreadPoolExecutor(4) as pool:
        for _ in range(2):
            replies = list(pool.map(lambda _: SyncDriver(wire).run(program(server.url)), range(4)))
            assert [one.text for one in replies] == ["Yes."] * 4
        assert server.connections == 4
        wire.close_idle()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_server_that_keeps_a_stream_open_after_its_end_is_not_waited_for(is_async):
    def act(server, connection):
        connection.sendall(BEGUN + chunk(EVENT) + chunk(b"data: [DONE]\n\n"))
        server.closing.wait(20)

    wire = Wire()
    with RawServer(act) as server:
        began = time.monotonic()
        if is_async:
            reply = asyncio.run(AsyncDriver(AsyncWire()).run(program(server.url, stream=True)))
        else:
            reply = SyncDriver(wire).run(program(server.url, stream=True))
            wire.close_idle()
        assert (reply.text, time.monotonic() - began < 10) == ("Yes.", True)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_stream_may_end_with_its_connection_and_without_done(is_async):
    def act(server, connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + EVENT)
        connection.shutdown(1)

    wire = Wire()
    with RawServer(act) as server:
        if is_async:
            reply = asyncio.run(AsyncDriver(AsyncWire()).run(program(server.url, stream=True)))
        else:
            reply = SyncDriver(wire).run(program(server.url, stream=True))
            wire.close_idle()
    assert reply.text == "Yes."


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_compressed_answers_are_read(stream, is_async):
    body = gzip.compress(EVENT + b"data: [DONE]\n\n" if stream else encoded(SAID))
    kind = b"text/event-stream" if stream else b"application/json"

    def act(server, connection):
        head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n"
        connection.sendall(head % (kind, len(body)) + body)

    wire = Wire()
    with RawServer(act) as server:
        if is_async:
            reply = asyncio.run(AsyncDriver(AsyncWire()).run(program(server.url, stream=stream)))
        else:
            reply = SyncDriver(wire).run(program(server.url, stream=stream))
            wire.close_idle()
    assert reply.text == "Yes."


@functools.cache
def bomb(size):
    """Zeros that take a thousandth of the place."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([*(packer.compress(bytes(2**20)) for _ in range(size)), packer.flush()])


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_an_answer_that_grows_without_end_is_left(kind, stream, is_async):
    packed = bomb(80)
    assert len(packed) < 2**20

    def explode(server, connection):
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-encoding: gzip\r\ncontent-length: {len(packed)}"
        connection.sendall(head.encode() + b"\r\n\r\n" + packed)

    def ask(asked):
        if is_async:
            return asyncio.run(AsyncDriver(AsyncWire()).run(asked))
        return SyncDriver(Wire()).run(asked)

    with RawServer(explode) as server, pytest.raises(BadReply, match="larger than 67108864 bytes"):
        ask(program(server.url, stream=stream))
    assert server.requests == 1


def test_one_async_wire_serves_loop_after_loop_and_leaves_nothing_open():
    driver = AsyncDriver(AsyncWire())
    with RawServer(answered) as server:
        texts = [asyncio.run(driver.run(program(server.url))).text for _ in range(3)]
        assert (texts, server.connections) == (["Yes."] * 3, 3)


def test_a_fork_leaves_the_connections_of_its_parent_alone():
    code = """
import os, sys
from everlog.chat.drivers import SyncDriver
from everlog.chat.wire import Wire
from tests.unit.chat.test_wire import answered, program
from tests.unit.chat.servers import RawServer
wire = Wire()
with RawServer(answered) as server:
    first = SyncDriver(wire).run(program(server.url)).text
    child = os.fork()
    if child == 0:
        os._exit(SyncDriver(wire).run(program(server.url)).text != "Yes.")
    failed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    again = SyncDriver(wire).run(program(server.url)).text
    print(first, failed, again, server.connections)
    wire.close_idle()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["Yes.", "0", "Yes.", "2"], done.stderr


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path):
    server_side, client_side = certificate(tmp_path)
    with RawServer(answered, tls=server_side) as server:
        with pytest.raises(NeverSent):
            SyncDriver(sleep=lambda *_: None).run(program(server.url))
        wire = Wire(client_side)
        assert SyncDriver(wire).run(program(server.url)).text == "Yes."
        wire.close_idle()
        assert asyncio.run(AsyncDriver(AsyncWire(client_side)).run(program(server.url))).text == "Yes."


def test_the_proxy_of_the_environment_is_used(monkeypatch):
    with RawServer(answered) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1").removeprefix("http://"))
        monkeypatch.setenv("no_proxy", "127.0.0.2")
        wire = Wire()
        assert SyncDriver(wire).run(program("http://127.0.0.1:9/v1")).text == "Yes."
        wire.close_idle()
        with pytest.raises(NeverSent):
            SyncDriver(wire, sleep=lambda *_: None).run(program("http://127.0.0.2:9/v1"))


def test_importing_the_core_loads_no_http():
    code = "import sys, everlog.chat.attempts, everlog.chat.drivers; print('httpx2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# Cancelling


def cancelled_while(run, cancel, is_waiting, *, hard=True):
    """Run in a thread; cancel once it waits; return the `Cancelled` that it raised, and how long it took to do so."""
    raised = []

    def act():
        try:
            run()
        except Cancelled as error:
            raised.append(error)

    thread = threading.Thread(target=act)
    thread.start()
    assert is_waiting()
    began = time.monotonic()
    cancel.pull(hard=hard)
    thread.join(20)
    assert not thread.is_alive()
    return raised[0], time.monotonic() - began


def eventually(condition):
    def wait():
        end = time.monotonic() + 10
        pause_between = threading.Event()
        while not condition() and time.monotonic() < end:
            pause_between.wait(0.005)
        return condition()

    return wait


def ways(url, cancel, ledger, *, stream, trusted=None):
    """Both drivers, as functions that block."""

    def blocking():
        wire = Wire(trusted)
        try:
            return SyncDriver(wire).run(program(url, stream=stream, cancel=cancel, ledger=ledger))
        finally:
            wire.close_idle()

    return {
        "sync": blocking,
        "async": lambda: asyncio.run(
            AsyncDriver(AsyncWire(trusted)).run(program(url, stream=stream, cancel=cancel, ledger=ledger))
        ),
    }


@pytest.mark.covers("chat A.1 80", "chat A.2 607", "D50")
@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("events", [0, 3])
def test_a_hard_cancel_ends_a_call_that_waits_and_the_server_sees_it_go(way, stream, events):
    cancel, ledger = Cancel(), Ledger()
    with Upstream([Stalled(answer=WORDS, events=events)]) as upstream:
        run = ways(upstream.url, cancel, ledger, stream=stream)[way]
        error, seconds = cancelled_while(run, cancel, eventually(lambda: upstream.requests))
        assert isinstance(error, Cancelled)
        assert seconds < 5
        assert upstream.wait_until_gone()
    assert [one.status for one in ledger.attempts] == ["cancelled"]
    assert not cancel.is_pulled


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("has_begun", [False, True])
def test_a_hard_cancel_ends_a_call_over_tls(way, has_begun, tmp_path):
    server_side, client_side = certificate(tmp_path)

    def act(server, connection):
        if has_begun:
            connection.sendall(BEGUN + chunk(EVENT))
        server.closing.wait(20)

    cancel, ledger = Cancel(), Ledger()
    with RawServer(act, tls=server_side) as server:
        run = ways(server.url, cancel, ledger, stream=True, trusted=client_side)[way]
        error, seconds = cancelled_while(run, cancel, eventually(lambda: server.requests))
    assert isinstance(error, Cancelled)
    assert seconds < 5


def test_a_wire_goes_on_after_a_hard_cancel():
    cancel, wire = Cancel(), Wire()
    with Upstream([Stalled(answer=WORDS), WORDS]) as upstream:

        def run():
            return SyncDriver(wire).run(program(upstream.url, cancel=cancel))

        cancelled_while(run, cancel, eventually(lambda: upstream.requests))
        assert run().text == WORDS.text
        wire.close_idle()


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_hard_cancel_ends_the_pause_before_another_try(way):
    def wait(cancel):
        return pause(60, cancel) if way == "sync" else asyncio.run(pause_async(60, cancel))

    cancel, began = Cancel(), threading.Event()

    def run():
        began.set()
        wait(cancel)

    error, seconds = cancelled_while(run, cancel, lambda: began.wait(10))
    assert isinstance(error, Cancelled)
    assert seconds < 5


@pytest.mark.covers("chat A.1 77")
def test_a_soft_cancel_of_a_stream_is_seen_at_its_next_piece():
    cancel, ledger = Cancel(), Ledger()
    with Upstream([WORDS]) as upstream:
        stream = SyncDriver().stream(program(upstream.url, stream=True, cancel=cancel, ledger=ledger))
        next(stream)
        cancel.pull()
        with pytest.raises(Cancelled):
            list(stream)
    assert [one.status for one in ledger.attempts] == ["cancelled"]


def test_a_checker_elsewhere_cancels_too():
    """D10."""
    answers = iter([False, False, True])
    cancel = Cancel(lambda: next(answers, False))
    with Upstream([WORDS]) as upstream, pytest.raises(Cancelled):
        SyncDriver().run(program(upstream.url, stream=True, cancel=cancel))


def test_the_task_of_a_call_can_be_cancelled_as_any_other():
    ledger = Ledger()

    async def run(upstream):
        call = program(upstream.url, stream=True, ledger=ledger)
        task = asyncio.create_task(AsyncDriver(AsyncWire()).run(call))
        assert await asyncio.to_thread(eventually(lambda: upstream.requests))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(upstream.wait_until_gone)

    with Upstream([Stalled(answer=WORDS)]) as upstream:
        asyncio.run(run(upstream))
    assert [one.status for one in ledger.attempts] == ["cancelled"]


@pytest.mark.parametrize("is_async", [False, True])
@each_protocol
def test_who_stops_reading_a_stream_closes_its_connection(protocol, is_async):
    ledger = Ledger()

    def call(url):
        request = prepared(url, protocol, stream=True)
        return exchange(request, ledger=ledger, cancel=Cancel(), clock=SystemClock())

    async def read_one(url):
        stream = AsyncDriver(AsyncWire()).stream(call(url))
        first = await anext(stream)
        await stream.aclose()
        return first

    with Upstream([Stalled(answer=WORDS, events=7)]) as upstream:
        if is_async:
            first = asyncio.run(read_one(upstream.url))
        else:
            stream = SyncDriver().stream(call(upstream.url))
            first = next(stream)
            stream.close()
        assert text_of([first])
        assert upstream.wait_until_gone()
    assert [one.status for one in ledger.attempts] == ["cancelled"]


def test_a_call_that_times_out_leaves_no_connection_that_somebody_else_gets():
    wire = Wire()
    with Upstream([Stalled(answer=WORDS), WORDS]) as upstream:
        call = program(upstream.url, timeouts=Timeouts(read_s=0.2))
        assert SyncDriver(wire, sleep=lambda *_: None).run(call).text == WORDS.text
        wire.close_idle()


def test_pulling_from_a_signal_handler_does_not_block():
    code = """
import os, signal, sys
from everlog.chat.cancel import Cancel
from everlog.chat.loops import pause
from everlog.errors import Cancelled
cancel = Cancel()
signal.signal(signal.SIGALRM, lambda *_: cancel.pull(hard=True))
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    pause(30, cancel)
except Cancelled:
    print("cancelled")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=25, check=False)
    assert done.stdout == "cancelled\n", done.stderr
