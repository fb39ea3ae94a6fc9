"""What the relay does with requests and answers, between a client and an upstream that are both in this process.

Numbers in names are those of reported faults of proxies in use.
"""

import asyncio
import gzip
import json
import zlib
from typing import Any

import pytest

from everlog.errors import ConnectionFailed, NeverSent, ProviderTimeout, ProviderTrouble
from everlog.surfaces.proxy.application import App
from everlog.surfaces.proxy.incoming import Headers
from everlog.surfaces.proxy.relay.headers import going_up
from everlog.surfaces.proxy.settings.options import Options, Target
from tests.unit.proxy.ears import Ear, Ears
from tests.unit.proxy.wire import BASE, PLAIN, STREAM_HEAD, Client, Coming, Upstream, asked, within

OPENAI, ANTHROPIC = "/v1/chat/completions", "/v1/messages"


def up(client: Client, options: Options = PLAIN) -> dict[bytes, bytes]:
    """Return the headers with which a request of a client goes up; each may be there once."""
    sent = asked(client, lambda outgoing: Coming(), options=options).sent[0].headers
    assert len({name for name, _ in sent}) == len(sent)
    return dict(sent)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (NeverSent("no connection could be made (Connection refused)"), 502, "upstream_unreachable"),
        (ConnectionFailed("the connection broke (Connection reset by peer)"), 502, "upstream_failed"),
        (ProviderTimeout("nothing came in time"), 504, "upstream_timeout"),
    ],
)
@pytest.mark.parametrize("path", [OPENAI, ANTHROPIC])
def test_no_answer_is_502_and_a_late_one_504_in_the_words_of_the_client(
    path: str, error: ProviderTrouble, status: int, code: str
):
    client = Client(path=path)
    asked(client, lambda outgoing: error)
    found = json.loads(client.body)
    assert (client.status, found["error"]["code"]) == (status, code)
    assert client.header(b"content-type") == [b"application/json"]
    assert found.get("type") == ("error" if path == ANTHROPIC else None)
    assert "upstream.test" not in client.body.decode()


def test_fault_17_a_refusal_of_a_stream_keeps_its_status_and_type():
    client, refusal = Client(pieces=[b'{"stream": true}']), b'{"error": {"message": "no"}}'
    asked(client, lambda outgoing: Coming(status=429, pieces=[refusal]))
    assert (client.status, client.body, client.header(b"content-type")) == (429, refusal, [b"application/json"])
    assert client.header(b"x-accel-buffering") == []


def test_fault_18_no_server_on_the_way_may_gather_a_stream():
    client = Client()
    asked(client, lambda outgoing: Coming(headers=STREAM_HEAD, pieces=[b"data: 1\n\n"]))
    assert client.header(b"x-accel-buffering") == [b"no"]
    assert client.header(b"cache-control") == [b"no-cache"]
    told = (*STREAM_HEAD, (b"Cache-Control", b"no-store"))
    asked(client := Client(), lambda outgoing: Coming(headers=told))
    assert client.header(b"cache-control") == [b"no-store"]


def test_fault_27_limits_and_names_of_requests_come_down():
    headers = [
        (b"Retry-After", b"7"),
        (b"x-ratelimit-remaining-tokens", b"0"),
        (b"anthropic-ratelimit-requests-reset", b"2026-11-30T00:00:00Z"),
        (b"request-id", b"req_1"),
        (b"x-should-retry", b"true"),
        (b"Set-Cookie", b"a=1"),
        (b"Set-Cookie", b"b=2"),
    ]
    dropped = [
        (b"Connection", b"close, X-Hop"),
        (b"x-hop", b"1"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Keep-Alive", b"5"),
    ]
    client = Client()
    asked(client, lambda outgoing: Coming(status=429, headers=(*headers, *dropped)))
    assert client.answered == [(name.lower(), value) for name, value in headers]


def test_fault_29_versions_and_betas_go_up_unchanged_and_nothing_is_there_twice():
    client = Client(
        path=ANTHROPIC,
        headers=(
            (b"content-type", b"application/json"),
            (b"anthropic-beta", b"context-1m-2025-08-07,interleaved-thinking-2025-05-14"),
            (b"anthropic-version", b"2023-06-01"),
            (b"x-api-key", b"sk-ant-1"),
            (b"user-agent", b"claude-cli/2.1"),
            (b"host", b"127.0.0.1:8788"),
            (b"content-length", b"2"),
            (b"connection", b"keep-alive"),
        ),
    )
    assert list(up(client).items()) == list(client.headers[:5])


def test_fault_25_only_encodings_that_can_be_decoded_are_asked_for():
    def asks(*values: bytes) -> bytes | None:
        return up(Client(headers=tuple((b"accept-encoding", value) for value in values))).get(b"accept-encoding")

    assert asks(b"gzip, deflate, br, zstd") == b"gzip, deflate"
    assert asks(b"br;q=1.0, GZIP;q=0.5", b"zstd") == b"GZIP;q=0.5"
    assert asks(b"br") == b"identity"
    assert asks() is None


@pytest.mark.parametrize(("encoding", "pack"), [(b"gzip", gzip.compress), (b"deflate", zlib.compress), (b"br", bytes)])
def test_faults_25_and_31_a_compressed_body_comes_down_raw_with_its_encoding(encoding: bytes, pack: object):
    body = pack(b'{"error": {"message": "too large"}}')  # type: ignore[operator]
    client = Client()
    headers = (
        (b"content-type", b"application/json"),
        (b"content-encoding", encoding),
        (b"content-length", b"%d" % len(body)),
    )
    asked(
        client,
        lambda outgoing: Coming(status=413, headers=headers, pieces=[body[:9], body[9:]]),
        ears=Ears(Ear(free=0)),
    )
    assert (client.body, client.header(b"content-encoding"), client.status) == (body, [encoding], 413)
    assert client.header(b"content-length") == [b"%d" % len(body)]


@pytest.mark.parametrize("piece", [1, 7, 10_000])
@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"raw deflate", b"two members"])
def test_fault_26_who_listens_hears_words_and_not_their_compression(encoding: bytes, piece: int):
    words = b"data: 1\n\ndata: [DONE]\n\n" * 40
    body = {
        b"gzip": gzip.compress(words),
        b"deflate": zlib.compress(words),
        b"raw deflate": zlib.compress(words)[2:-4],
        b"two members": gzip.compress(words[:9]) + gzip.compress(words[9:]),
    }[encoding]
    named = b"deflate" if b"deflate" in encoding else b"gzip"
    ear, client = Ear(), Client()
    pieces = [body[at : at + piece] for at in range(0, len(body), piece)]
    asked(
        client,
        lambda outgoing: Coming(headers=(*STREAM_HEAD, (b"Content-Encoding", named)), pieces=pieces),
        ears=Ears(ear),
    )
    assert (ear.heard, client.body, ear.told) == (words, body, ["head 200", "commit"])


@pytest.mark.parametrize(("encoding", "body"), [(b"gzip", b"no gzip at all"), (b"zstd", b"(\xb5/\xfd")])
def test_a_damaged_or_unknown_compression_is_passed_on_and_not_heard(encoding: bytes, body: bytes):
    ear, client = Ear(), Client()
    asked(client, lambda outgoing: Coming(headers=((b"content-encoding", encoding),), pieces=[body]), ears=Ears(ear))
    assert (ear.heard, client.body, ear.told) == (b"", body, ["head 200", "commit"])


def test_fact_17_nothing_that_is_meant_for_the_proxy_goes_up():
    ours = (
        "x-everlog-session-id",
        "x-infinitum-user-id",
        "x-infinitum-debug",
        "x-context-debug",
        "x-context-cwd",
    )
    aliases = ("x-opencode-user", "x-opencode-project", "x-opencode-directory", "x-headroom-cwd", "x-litellm-user-id")
    session = (b"x-session-id", b"ses_1")
    client = Client(headers=(*((name.encode(), b"1") for name in (*ours, *aliases)), session))
    assert list(up(client).items()) == [session]
    named = Options(targets=PLAIN.targets, identity_headers=("X-Team",))
    assert up(Client(headers=((b"x-team", b"a"), (b"x-opencode-user", b"ada"))), named) == {b"x-opencode-user": b"ada"}


def test_credentials_of_a_client_go_up_and_keys_of_ours_never_do():
    def sent(headers: Headers, protocol: str = "responses", **held: Any) -> Headers:
        return going_up(headers, Target(base_url=BASE, **held), protocol, frozenset())

    bearer, key = ((b"authorization", b"Bearer sk-1"),), ((b"x-api-key", b"sk-1"),)
    evl, evl_key, own = (
        ((b"authorization", b"bearer evl_1"),),
        ((b"x-api-key", b"evl_1"),),
        ((b"x-everlog-key", b"evl_1"),),
    )
    assert (sent(bearer), sent(key), sent((*own, *bearer))) == (bearer, key, bearer)
    assert sent(evl) == sent(evl_key) == sent(own) == ()
    assert sent(bearer, key="sk-held") == bearer
    for headers, passes in (((), True), (evl, True), (evl_key, True), (bearer, False), (key, False)):
        held: Any = {"key": "sk-held", "passes_credentials": passes}
        assert sent(headers, **held) == ((b"authorization", b"Bearer sk-held"),)
        assert sent(headers, "anthropic", **held) == ((b"x-api-key", b"sk-held"),)


def test_an_upstream_has_headers_of_its_own():
    target = Target(base_url=BASE, headers=(("X-Title", "Everlog"), ("User-Agent", "ours")))
    found = up(Client(headers=((b"user-agent", b"theirs"),)), Options(targets=(target,)))
    assert found == {b"x-title": b"Everlog", b"user-agent": b"ours"}


@pytest.mark.parametrize("path", [OPENAI, "/v1/completions", "/v1/files/a%2Fb"])
def test_escapes_and_queries_of_a_path_stay_as_they_are(path: str):
    sent = asked(Client(path=path, query=b"beta=true&x=%20+a"), lambda outgoing: Coming()).sent
    assert [one.url for one in sent] == [f"http://upstream.test{path}?beta=true&x=%20+a"]


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://models.test", "https://models.test/v1/embeddings"),
        ("https://models.test/", "https://models.test/v1/embeddings"),
        ("https://models.test/inference/v1/", "https://models.test/inference/v1/embeddings"),
        ("https://models.test/api/v4", "https://models.test/api/v4/embeddings"),
    ],
)
def test_a_base_url_is_what_a_client_would_be_given(base: str, url: str):
    options = Options(targets=(Target(base_url=base),))
    assert asked(Client(path="/v1/embeddings"), lambda outgoing: Coming(), options=options).sent[0].url == url


def test_fault_22_a_client_that_leaves_before_the_first_byte_takes_its_request_along():
    async def play() -> int:
        upstream, client = Upstream(lambda outgoing: None), Client()
        asking = asyncio.create_task(client.ask(App(PLAIN, upstream=upstream)))
        await upstream.asked.wait()
        client.gone.set()
        await asking
        assert client.messages == []
        return upstream.cancelled

    assert asyncio.run(within(play())) == 1


@pytest.mark.parametrize("headers", [STREAM_HEAD, ()])
def test_fault_22_a_client_that_leaves_in_mid_answer_closes_the_upstream(headers: tuple[tuple[bytes, bytes], ...]):
    async def play() -> Coming:
        answer, client = Coming(headers=headers, pieces=[b"data: 1\n\n", asyncio.Event()]), Client()
        app = App(PLAIN, upstream=Upstream(lambda outgoing: answer))
        asking = asyncio.create_task(client.ask(app))
        while not client.came:
            client.heard.clear()
            await client.heard.wait()
        assert not answer.is_closed
        client.gone.set()
        await asking
        assert app.duties.counts["client_left"] == 1
        return answer

    assert asyncio.run(within(play())).is_closed


def test_an_answer_that_breaks_off_has_no_end():
    client, answer = Client(), Coming(pieces=[b"{"], error=ConnectionFailed("broke"))
    asked(client, lambda outgoing: answer)
    assert (client.body, client.is_whole, answer.is_closed) == (b"{", False, True)


def test_a_proxy_that_is_stopped_while_it_relays_closes_the_upstream():
    async def play() -> tuple[Coming, list[str]]:
        answer, client, ear = Coming(pieces=[b"{", asyncio.Event()]), Client(), Ear()
        app = App(PLAIN, upstream=Upstream(lambda outgoing: answer), ears=Ears(ear))
        asking = asyncio.create_task(client.ask(app))
        while not client.came:
            client.heard.clear()
            await client.heard.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await app.stop()
        return answer, ear.told

    answer, told = asyncio.run(within(play()))
    assert (answer.is_closed, told) == (True, ["head 200", "leave client"])


def test_a_body_above_the_limit_is_refused_whether_it_says_so_or_not():
    options = Options(targets=PLAIN.targets, body_bytes=10)
    for client in (Client(pieces=[b"x" * 6, b"x" * 5]), Client(headers=((b"content-length", b"11"),), pieces=[b"x"])):
        upstream = asked(client, lambda outgoing: Coming(), options=options)
        assert (client.status, json.loads(client.body)["error"]["code"]) == (413, "body_too_large")
        assert upstream.sent == []
    assert len(asked(Client(pieces=[b"x" * 6, b"x" * 4]), lambda outgoing: Coming(), options=options).sent) == 1


def test_a_client_that_leaves_in_its_own_request_is_not_answered():
    async def play() -> list[dict[str, object]]:
        client, upstream = Client(pieces=[]), Upstream(lambda outgoing: Coming())
        client.gone.set()
        await client.ask(App(PLAIN, upstream=upstream))
        assert upstream.sent == []
        return client.messages

    assert asyncio.run(within(play())) == []
