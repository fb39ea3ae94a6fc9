"""The interface over HTTP: what it answers, who may ask what, and that nobody learns of somebody else's threads."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from starlette.testclient import TestClient

import everlog
from everlog import log
from everlog.access import LOOPBACK, Principal
from everlog.errors import StoreUnavailable
from everlog.log import NewTurn
from everlog.messages import Message, Origin
from everlog.store import Unit
from everlog.surfaces.api.application import PIECE, Api
from everlog.surfaces.api.document import document, page
from everlog.surfaces.api.operations import OPERATIONS

CHAT = Principal(tenant="default", key="ab", role="chat", user="ann")
READ = Principal(tenant="default", key="cd", role="read")


@dataclass
class Asking:
    """The interface, asked by somebody."""

    api: Api
    principal: Principal

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.api(scope | {"everlog.principal": self.principal}, receive, send)


class Client:
    def __init__(self, home: everlog.Everlog, *, builds: bool = True) -> None:
        self.api = Api(home.store, builds=builds)

    def ask(self, path: str, who: Principal = LOOPBACK, method: str = "GET", **given: Any) -> Any:
        with TestClient(Asking(self.api, who)) as client:
            return client.request(method, f"/everlog/v1{path}", **given)


@pytest.fixture
def home() -> Iterator[everlog.Everlog]:
    home = everlog.open(":memory:")
    for key in ("sea", "boat"):
        thread = home.thread(key)
        for n in range(20):
            thread.append("user", f"Question {n} of the {key}?", origin=Origin(user="ann"))
            thread.append("assistant", f"Answer {n}: the ferry leaves at {n}.")
        thread.pump()
    home.store.write("default", partial(owned, key="sea", principal=CHAT), name="test")
    yield home
    home.close()


def owned(unit: Unit, key: str, principal: Principal) -> None:
    name = log.principal_of(unit, principal.key or "", principal.user or "")
    log.join(unit, log.find(unit, key), "", principal=name)


@pytest.fixture
def client(home: everlog.Everlog) -> Client:
    return Client(home)


def test_threads_come_in_pages(client: Client):
    first = client.ask("/threads?limit=1").json()
    assert [one["key"] for one in first["threads"]] == ["sea"]
    assert first["threads"][0]["entries"] == 40
    second = client.ask(f"/threads?limit=1&cursor={first['next']}").json()
    assert [one["key"] for one in second["threads"]] == ["boat"]
    assert second["next"] is None


def test_entries_are_read_from_the_front_and_from_the_end(client: Client):
    first = client.ask("/threads/sea/entries?limit=3").json()
    assert [one["text"] for one in first["entries"]][1] == "Answer 0: the ferry leaves at 0."
    assert first["next"] == 3
    last = client.ask("/threads/sea/entries?last=1").json()
    assert [one["text"] for one in last["entries"]] == ["Answer 19: the ferry leaves at 19."]
    assert last["next"] is None


def test_a_path_with_a_slash_too_many_is_sent_nowhere_else(client: Client):
    assert client.ask("/threads/", follow_redirects=False).status_code == 404


def test_half_a_surrogate_pair_is_shown_as_its_escape(client: Client, home: everlog.Everlog):
    """Python and JSON can hold one, UTF-8 cannot."""
    home.thread("odd").append("user", "half \ud800 of it")
    found = client.ask("/threads/odd/entries")
    assert found.status_code == 200
    assert found.json()["entries"][0]["text"] == "half \ud800 of it"


def test_a_view_keeps_its_budget_and_its_lines_open(client: Client, home: everlog.Everlog):
    view = client.ask("/threads/sea/view?bytes=600").json()
    assert view["bytes"] == len(view["text"].encode()) <= 600
    assert view["is_current"]
    assert client.ask("/threads/sea/zoom?id=0&n=2").json()["text"] == home.thread("sea").tree.zoom(0, 2)


def test_a_view_of_what_was_just_said_shows_its_words(client: Client, home: everlog.Everlog):
    thread = home.thread("fresh")
    thread.append("user", "Where is the ferry?")
    thread.append("assistant", "At Roscoff.")
    view = client.ask("/threads/fresh/view").json()
    assert view["is_current"]
    assert "0+1|user: Where is the ferry?" in view["text"]
    assert "Roscoff" in client.ask("/threads/fresh/zoom?id=0&n=2").json()["text"]


def test_lines_that_a_model_is_to_build_are_left_to_it(home: everlog.Everlog):
    home.thread("fresh").append("user", "Where is the ferry?")
    client = Client(home, builds=False)
    view = client.ask("/threads/fresh/view").json()
    assert not view["is_current"]
    assert "not summarized yet" in view["text"]


def test_a_tree_that_cannot_be_built_now_is_shown_as_it_is(
    client: Client, home: everlog.Everlog, monkeypatch: pytest.MonkeyPatch
):
    home.thread("fresh").append("user", "Where is the ferry?")

    def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(home.store, "write", away)
    found = client.ask("/threads/fresh/view")
    assert found.status_code == 200
    assert not found.json()["is_current"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/threads/sea/view?bytes=3", "'bytes' is at least 256"),
        ("/threads/sea/view?bytes=many", "'bytes' is a whole number"),
        ("/threads?limit=5000", "'limit' is at most 1,000"),
        ("/threads?limt=1", "there is no 'limt'; did you mean limit?"),
        ("/threads/sea/search", "'q' is missing"),
        ("/threads/sea/search?q=", "'q' is empty"),
        ("/stats?a=1", "there is no 'a'; nothing can be asked for here"),
    ],
)
def test_what_is_wrong_with_a_request_is_said_in_our_words(client: Client, path: str, said: str):
    found = client.ask(path)
    assert (found.status_code, found.json()["error"]["message"]) == (400, said)


def test_a_body_that_is_none_is_told_what_it_has_to_be(client: Client):
    found = client.ask("/erase", method="POST", content=b"")
    assert found.json()["error"]["message"] == 'the body is a JSON object: {"user": …}'
    found = client.ask("/erase", method="POST", json={"usr": "ann"})
    assert found.json()["error"]["message"] == "there is no 'usr'; did you mean user?"
    gone = client.ask("/erase", method="POST", json={"user": "nobody"}).json()["error"]["message"]
    assert "Origin" not in gone


def test_the_beginning_of_a_key_is_enough_to_read_and_not_to_erase(client: Client, home: everlog.Everlog):
    home.thread("proxy:first").append("user", "Hello")
    home.thread("proxy:first~1").append("user", "Hello")
    assert client.ask("/threads/proxy:/entries").json()["entries"][0]["text"] == "Hello"
    assert "Hello" in client.ask("/threads/fir/view").json()["text"]
    assert client.ask("/threads/proxy:", method="DELETE").status_code == 404
    home.thread("proxy:second").append("user", "Hello")
    several = client.ask("/threads/proxy:/view")
    assert several.status_code == 404
    assert "'proxy:first', 'proxy:second'; give more of the key" in several.json()["error"]["message"]


def test_nobody_learns_by_a_beginning_of_threads_that_are_not_theirs(client: Client):
    for word in ("b", "boat", "bo"):
        found = client.ask(f"/threads/{word}/view", CHAT)
        assert (found.status_code, "boat" in found.json()["error"]["message"]) == (404, word == "boat")
    assert client.ask("/threads/s/view", CHAT).status_code == 200


def test_words_are_found_without_a_word_being_told(client: Client):
    found = client.ask("/threads/sea/search?q=ferry+19").json()
    assert found["hits"][0]["id"] == 39
    assert "leaves" not in json.dumps(found)


def test_a_large_answer_is_sent_in_pieces_and_others_have_their_turns_between_them(home: everlog.Everlog):
    home.thread("long").extend([NewTurn(messages=(Message(kind="user", text=f"{n} " * 50_000),)) for n in range(8)])
    asked = {"type": "http", "method": "GET", "path": "/everlog/v1/threads/long/entries", "query_string": b""}
    sent: list[Any] = []
    turns = 0

    async def send(message: Any) -> None:
        sent.append((turns, message))

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def answered() -> None:
        task = asyncio.create_task(others())
        await Api(home.store)(asked | {"headers": [], "everlog.principal": LOOPBACK}, asyncio.Event().wait, send)
        task.cancel()

    asyncio.run(answered())
    (_, head), *pieces = sent
    body = b"".join(piece["body"] for _, piece in pieces)
    assert dict(head["headers"])[b"content-length"] == b"%d" % len(body)
    assert [one["i"] for one in json.loads(body)["entries"]] == [*range(8)]
    assert max(len(piece["body"]) for _, piece in pieces) == PIECE
    assert all(before < after for (before, _), (after, _) in pairwise(pieces))


def test_an_export_is_the_lines_of_the_command(client: Client, home: everlog.Everlog):
    found = client.ask("/threads/sea/export")
    assert found.headers["content-type"] == "application/jsonl"
    assert found.content == b"".join(home.thread("sea").export())


def test_a_thread_and_a_user_are_erased_by_an_admin_with_a_receipt(client: Client):
    assert client.ask("/threads/boat", READ, "DELETE").status_code == 403
    receipt = client.ask("/threads/boat", method="DELETE").json()
    assert (receipt["target"], receipt["entries"]) == ("thread", 40)
    assert client.ask("/threads/boat").status_code == 404
    receipt = client.ask("/erase", method="POST", json={"user": "ann"}).json()
    assert (receipt["target"], receipt["entries"]) == ("user", 40)
    assert [one["target"] for one in client.ask("/receipts").json()["receipts"]] == ["thread", "user"]
    assert client.ask("/stats").json()["erased"] == 80


def test_who_may_chat_sees_their_own_threads_and_learns_of_no_other(client: Client):
    assert [one["key"] for one in client.ask("/threads", CHAT).json()["threads"]] == ["sea"]
    assert client.ask("/threads/sea/view", CHAT).status_code == 200
    for operation in OPERATIONS:
        if "{key}" in operation.path:
            of_another = client.ask(
                operation.path.format(key="boat"), CHAT, operation.method, params=_params(operation.name)
            )
            of_nobody = client.ask(
                operation.path.format(key="nope"), CHAT, operation.method, params=_params(operation.name)
            )
            assert of_another.status_code == of_nobody.status_code in {403, 404}
            assert of_another.content.replace(b"boat", b"") == of_nobody.content.replace(b"nope", b"")
            assert dict(of_another.headers) == dict(of_nobody.headers)
    assert client.ask("/stats", CHAT).status_code == 403
    assert client.ask("/erase", CHAT, "POST", json={"user": "ann"}).status_code == 403


def _params(name: str) -> dict[str, str]:
    return {"zoom": {"id": "0"}, "search": {"q": "ferry"}}.get(name, {})


def test_another_user_behind_the_same_key_sees_nothing(client: Client):
    other = Principal(tenant="default", key="ab", role="chat", user="bob")
    assert client.ask("/threads", other).json()["threads"] == []
    assert client.ask("/threads/sea", other).status_code == 404


def test_another_tenant_sees_nothing(client: Client):
    other = Principal(tenant="acme", key="ab", role="admin")
    assert client.ask("/threads", other).json()["threads"] == []
    assert client.ask("/threads/sea", other).status_code == 404
    assert client.ask("/stats", other).json()["entries"] == 0


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/threads?limit=0", 400, "limit"),
        ("/threads?limit=abc", 400, "limit"),
        ("/threads/sea/view?bytes=10", 400, "bytes"),
        ("/threads/sea/zoom", 400, "id"),
        ("/threads/sea/zoom?id=400", 404, "400"),
        ("/threads/sea/zoom?id=1&n=2", 404, "1+2"),
        ("/threads/sea/search?q=", 400, "q"),
        ("/nothing", 404, "/everlog/v1 shows what there is"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_form(client: Client, path: str, status: int, said: str):
    found = client.ask(path)
    assert found.status_code == status
    error = found.json()["error"]
    assert said in error["message"]
    assert set(error) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"[" * 100_000, b'{"user": 3}', b"{}", b'{"user": "' + b"x" * 2_000_000 + b'"}']
)
def test_a_body_that_is_none_erases_nothing(client: Client, body: bytes):
    assert client.ask("/erase", method="POST", content=body).status_code == 400
    assert client.ask("/receipts").json()["receipts"] == []


def test_each_operation_is_in_the_document_and_on_the_page(client: Client):
    described = client.ask("/openapi.json").json()
    assert described == json.loads(json.dumps(document(OPERATIONS, everlog.__version__)))
    told = [(path, method) for path, methods in described["paths"].items() for method in methods]
    assert told == [(f"/everlog/v1{one.path}", one.method.lower()) for one in OPERATIONS]
    names = [method["operationId"] for methods in described["paths"].values() for method in methods.values()]
    assert len(set(names)) == len(names)
    shown = client.ask("/")
    assert shown.text == client.ask("").text == page(OPERATIONS, everlog.__version__)
    assert all(one.summary and one.path in shown.text for one in OPERATIONS)
    assert "http://" not in shown.text
    assert "https://" not in shown.text
