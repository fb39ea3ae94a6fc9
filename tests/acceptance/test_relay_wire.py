"""`everlog serve` as a server: bytes on the wire, pages and probes, its start and its end.

Numbers in names are those of reported faults of proxies in use.
"""

import gzip
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.acceptance.cli import ENVIRONMENT, Everlog, finish
from tests.acceptance.proxies import Proxy, serving
from tests.quick import Quick
from tests.unit.chat.servers import BEGUN, RawServer, chunk

FIRST, SECOND = b'data: {"id":"1"}\n\n', b"data: [DONE]\n\n"
PAGE, APP = "https://site.example", "vscode-webview://abc"


class Lines(RawServer):
    """A server of bytes whose act each test sets."""

    def __init__(self) -> None:
        super().__init__(lambda server, connection: server.now(connection))
        self.now: Callable[[Any], None] = lambda connection: None


@pytest.fixture(scope="module")
def server() -> Iterator[Lines]:
    with Lines() as server:
        yield server


@pytest.fixture(scope="module")
def proxy(server: Lines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with serving(server.url, tmp_path_factory.mktemp("home")) as proxy:
        yield proxy


def connect(proxy: Proxy) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=20)


def ask(
    proxy: Proxy, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = connect(proxy)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def test_fault_11_each_event_is_at_the_client_before_the_next_one_is_sent(server: Lines, proxy: Proxy):
    def act(line: Any) -> None:
        line.sendall(BEGUN + chunk(FIRST))
        assert read.wait(20)
        line.sendall(chunk(SECOND) + b"0\r\n\r\n")

    server.now, read = act, threading.Event()
    connection = connect(proxy)
    connection.request("POST", "/v1/chat/completions", b"{}")
    response = connection.getresponse()
    assert response.read1() == FIRST
    read.set()
    assert response.read() == SECOND
    connection.close()


@pytest.mark.parametrize("stream", [False, True])
def test_faults_25_and_31_a_compressed_answer_is_passed_on_as_it_is(server: Lines, proxy: Proxy, stream: bool):
    body = gzip.compress(FIRST + SECOND)
    head = b"HTTP/1.1 413 Too Large\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n"
    if stream:
        sent = head + b"transfer-encoding: chunked\r\n\r\n" + chunk(body[:5]) + chunk(body[5:]) + b"0\r\n\r\n"
    else:
        sent = head + b"content-length: %d\r\n\r\n" % len(body) + body
    server.now = lambda line: line.sendall(sent)
    status, headers, found = ask(proxy, "POST", "/v1/responses", b"{}", accept_encoding="gzip, br")
    assert (status, headers["content-encoding"], found) == (413, "gzip", body)
    assert b"\r\naccept-encoding: gzip\r\n" in server.received[-1]


def test_fault_21_a_body_of_any_bytes_goes_up_as_it_is_whatever_its_size(server: Lines, proxy: Proxy):
    server.now = lambda line: line.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    for body in (b'{ "a":1,"a":"\\ud83d\\ude00 \\ud83d", "n":1E400}', b"", bytes(range(256)) * 8000):
        assert ask(proxy, "POST", "/v1/chat/completions?beta=true&a=%2F", body)[2] == b"ok"
        head, _, found = server.received[-1].partition(b"\r\n\r\n")
        assert found == body
        assert head.startswith(b"POST /v1/chat/completions?beta=true&a=%2F HTTP/1.1\r\n")


def test_any_other_path_under_v1_goes_to_the_upstream_by_any_method(server: Lines, proxy: Proxy):
    server.now = lambda line: line.sendall(b"HTTP/1.1 204 Gone\r\nx-a: 1\r\n\r\n")
    for method, path in (
        ("DELETE", "/v1/responses/resp_1"),
        ("PUT", "/v1/files"),
        ("GET", "/v1/models/m%2F1"),
        ("HEAD", "/v1/models"),
    ):
        status, headers, _ = ask(proxy, method, path)
        assert (status, headers["x-a"]) == (204, "1")
        assert server.received[-1].startswith(f"{method} {path} HTTP/1.1\r\n".encode())


def test_probes_are_answered_without_the_upstream(server: Lines, proxy: Proxy):
    before = server.requests
    assert ask(proxy, "HEAD", "/")[0] == 200
    assert ask(proxy, "GET", "/")[0] == 200
    status, _, body = ask(proxy, "POST", "/chat/completions", b"{}")
    assert (status, json.loads(body)["error"]["message"]) == (404, "The client's base URL must end in /v1.")
    status, _, body = ask(proxy, "POST", "/v1/v1/messages", b"{}", anthropic_version="2023-06-01")
    assert (status, json.loads(body)["type"]) == (404, "error")
    assert "must end before it" in json.loads(body)["error"]["message"]
    assert server.requests == before


def test_a_websocket_is_answered_so_that_the_client_goes_on_over_http(server: Lines, proxy: Proxy):
    before = server.requests
    status, _, body = ask(
        proxy,
        "GET",
        "/v1/responses",
        connection="Upgrade",
        upgrade="websocket",
        sec_websocket_version="13",
        sec_websocket_key="dGhlIHNhbXBsZSBub25jZQ==",
        openai_beta="responses_websockets=2026-02-06",
    )
    assert (status, json.loads(body)["error"]["code"], server.requests) == (426, "no_websockets", before)


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://127.0.0.1", "http://[::1]:5173", APP])
def test_fault_28_pages_of_this_machine_and_apps_may_ask_and_send_any_header(server: Lines, proxy: Proxy, origin: str):
    wanted = "authorization, x-stainless-lang, X-Stainless-Retry-Count"
    status, headers, body = ask(
        proxy,
        "OPTIONS",
        "/v1/chat/completions",
        origin=origin,
        access_control_request_method="POST",
        access_control_request_headers=wanted,
        access_control_request_private_network="true",
    )
    assert (status, body, headers["access-control-allow-origin"]) == (200, b"", origin)
    assert headers["access-control-allow-headers"] == wanted
    assert "POST" in headers["access-control-allow-methods"]
    assert headers["access-control-allow-private-network"] == "true"
    theirs = b"access-control-allow-origin: https://models.example\r\nretry-after: 3"
    server.now = lambda line: line.sendall(b"HTTP/1.1 429 Slow\r\ncontent-length: 0\r\n" + theirs + b"\r\n\r\n")
    _, headers, _ = ask(proxy, "POST", "/v1/chat/completions", b"{}", origin=origin)
    assert (headers["access-control-allow-origin"], headers["access-control-expose-headers"]) == (origin, "*")
    assert (headers["vary"], headers["retry-after"]) == ("origin", "3")


@pytest.mark.parametrize("origin", [PAGE, "null", "http://localhost.site.example", "http://127.0.0.1.site.example"])
def test_a_page_of_another_site_gets_nothing_from_a_port_of_this_machine(server: Lines, proxy: Proxy, origin: str):
    before = server.requests
    for method in ("POST", "OPTIONS", "GET"):
        status, headers, body = ask(proxy, method, "/v1/models", b"{}", origin=origin)
        assert (status, json.loads(body)["error"]["code"]) == (403, "origin_not_allowed")
        assert "access-control-allow-origin" not in headers
    assert server.requests == before


def test_a_program_that_asks_for_options_is_answered(server: Lines, proxy: Proxy):
    status, headers, _ = ask(proxy, "OPTIONS", "/v1/models")
    assert (status, "GET" in headers["allow"]) == (200, True)


def test_a_connection_is_used_again_after_errors_of_ours(proxy: Proxy):
    connection = connect(proxy)
    for _ in range(3):
        connection.request("GET", "/nowhere")
        response = connection.getresponse()
        assert (response.status, b"no_such_path" in response.read()) == (404, True)
    connection.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_ends_when_the_answers_under_way_have_ended(
    server: Lines, quick: Quick, tmp_path: Path, number: int
):
    def act(line: Any) -> None:
        line.sendall(BEGUN + chunk(FIRST))
        assert stopped.wait(20)
        line.sendall(chunk(SECOND) + b"0\r\n\r\n")

    server.now, stopped = act, threading.Event()
    with serving(server.url, tmp_path, program=[quick.program]) as proxy:
        connection = connect(proxy)
        connection.request("POST", "/v1/chat/completions", b"{}")
        response = connection.getresponse()
        assert response.read1() == FIRST
        proxy.process.send_signal(number)
        while is_listened_to(proxy):
            pass
        stopped.set()
        assert response.read() == SECOND
        connection.close()
        done = finish(proxy.process)
    assert (done.status, done.err) == (0, "")


def is_listened_to(proxy: Proxy) -> bool:
    parts = urlsplit(proxy.url)
    try:
        with socket.create_connection((parts.hostname, parts.port), timeout=5):
            return True
    except OSError:
        return False


def test_a_port_that_is_taken_and_an_address_that_is_none_are_mistakes(server: Lines, everlog: Everlog):
    port = urlsplit(server.url).port
    done = everlog("serve", "--upstream", server.url, "--port", port)
    assert (done.status, done.out) == (2, b"")
    assert (
        done.err
        == f"everlog: port {port} of 127.0.0.1 cannot be listened on (Address already in use); choose another by --port\n"
    )
    for given, said in (
        (["--upstream", "models.example"], "the base URL of upstream default begins with neither http:// nor https://"),
        ([], "there is no upstream: name the server that has the models by --upstream URL"),
        (["--upstream", server.url, "--mode", "all"], "none of off, record, rolling, tree"),
    ):
        done = everlog("serve", "--port", 0, *given)
        assert (done.status, said in done.err) == (2, True), done.err


def test_without_its_extra_the_command_says_what_to_install(tmp_path: Path):
    program = "import sys; sys.modules['uvicorn'] = None; from everlog.surfaces.cli import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", program, "serve", "--upstream", "http://127.0.0.1:1"],
        check=False,
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stderr) == (
        2,
        "everlog: `everlog serve` needs more: pip install 'everlog[server]', or from a clone '.[server]'\n",
    )


def test_any_asgi_server_runs_the_proxy_of_the_environment(server: Lines, tmp_path: Path):
    server.now = lambda line: line.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        options = ["--fd", str(listening.fileno()), "--log-level", "warning"]
        running = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "everlog.surfaces.proxy:app", *options],
            cwd=tmp_path,
            env={**ENVIRONMENT, "EVERLOG_UPSTREAM": server.url, "EVERLOG_MODE": "off"},
            pass_fds=[listening.fileno()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    try:
        assert ask(Proxy(url=f"http://127.0.0.1:{port}", process=running), "POST", "/v1/embeddings", b"{}")[2] == b"ok"
    finally:
        running.terminate()
        done = finish(running)
    (line,) = done.err.splitlines()
    assert " info request method=POST route=/v1/embeddings status=200 " in line


def test_an_asgi_server_without_settings_does_not_start_and_says_why(tmp_path: Path):
    done = finish(start_uvicorn(tmp_path))
    assert done.status != 0
    assert "there is no upstream: name the server that has the models" in done.err


def start_uvicorn(home: Path) -> Any:
    return subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "everlog.surfaces.proxy:app", "--port", "0"],
        cwd=home,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
