"""What requests were, over HTTP: no word of them, pages, filters, and nothing of somebody else's."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

import everlog
from everlog.access import Principal, Requested, note
from everlog.surfaces.api.application import Api
from everlog.surfaces.proxy.application import App
from everlog.surfaces.proxy.metrics import Metrics
from everlog.surfaces.proxy.pages import Site
from everlog.surfaces.proxy.remembering.watching import Watch
from everlog.surfaces.proxy.settings.options import Options, Target
from tests.unit.api.test_api import Client

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
ANN = Principal(tenant="default", key="ab", role="chat", user="ann")
OPTIONS = Options(targets=(Target(base_url="http://127.0.0.1:9/v1"),))
READ = Principal(tenant="default", key="cd", role="read")


def one(n: int, **more: Any) -> Requested:
    given: dict[str, Any] = {
        "id": f"{n:032x}",
        "at": AT + timedelta(seconds=n),
        "protocol": "responses",
        "decision": "append",
    }
    return Requested(**given | {"status": 200} | more)


@pytest.fixture
def home() -> Iterator[everlog.Everlog]:
    with everlog.open(":memory:") as home:
        thread = home.thread("sea")
        thread.append("user", "When does the ferry leave?")
        thread.append("assistant", "At nine.")
        rows = [
            one(1, key="ab", user="ann", session="s", thread=thread.id, first=0, stop=2, tokens_in=5, nano_usd=2500),
            one(2, key="cd", user="bob", project="boat"),
            one(3, status=None, decision="nothing"),
        ]
        for row in rows:
            home.store.write("default", partial(note, requested=row), name="test")
        yield home


@pytest.fixture
def client(home: everlog.Everlog) -> Client:
    return Client(home)


def ids(found: Any) -> list[int]:
    return [int(one["id"], 16) for one in found.json()["requests"]]


def test_requests_are_told_newest_first_in_pages_without_a_word_of_them(client: Client):
    first = client.ask("/requests?limit=2")
    assert ids(first) == [3, 2]
    second = client.ask(f"/requests?limit=2&cursor={first.json()['next']}")
    assert ids(second) == [1]
    told = second.json()["requests"][0]
    assert (told["thread"], told["first"], told["stop"], told["cost_usd"]) == ("sea", 0, 2, 2.5e-06)
    assert second.json()["next"] is None
    assert "ferry" not in second.text


def test_requests_are_found_by_session_user_and_project(client: Client):
    assert ids(client.ask("/requests?session_id=s")) == [1]
    assert ids(client.ask("/requests?user_id=bob")) == [2]
    assert ids(client.ask("/requests?project_id=boat&user_id=bob")) == [2]
    assert ids(client.ask("/requests?project_id=boat&user_id=ann")) == []


def test_a_request_is_shown_and_one_of_somebody_else_is_as_one_that_is_not_there(client: Client):
    assert client.ask(f"/requests/{1:032x}").json()["user_id"] == "ann"
    assert client.ask(f"/requests/{1:032x}", ANN).status_code == 200
    of_another, of_nobody = client.ask(f"/requests/{2:032x}", ANN), client.ask(f"/requests/{9:032x}", ANN)
    assert of_another.status_code == of_nobody.status_code == 404
    assert of_another.content == of_nobody.content


def test_who_may_chat_sees_their_own_requests(client: Client):
    assert ids(client.ask("/requests", ANN)) == [1]
    assert ids(client.ask("/requests?user_id=bob", ANN)) == []
    assert ids(client.ask("/requests", Principal(tenant="default", key="ab", role="chat", user="eve"))) == []
    assert ids(client.ask("/requests", Principal(tenant="acme", key="ab", role="admin"))) == []


def test_what_models_took_is_added_up_by_name_for_the_tenant_alone(client: Client, home: everlog.Everlog):
    for n, more in enumerate(({"tokens_read": 90, "tokens_in": 10}, {"tokens_in": 5, "nano_usd": 2_000_000_000})):
        home.store.write("default", partial(note, requested=one(10 + n, model="m", **more)), name="test")
    home.store.write("acme", partial(note, requested=one(20, model="other")), name="test")
    models = client.ask("/stats", READ).json()["models"]
    assert [(one["model"], one["requests"], one["tokens_in"], one["cost_usd"]) for one in models] == [("m", 2, 15, 2.0)]
    assert (models[0]["tokens_cache_read"], models[0]["tokens_out"]) == (90, 0)


def test_what_the_server_counted_of_a_tenant_is_told_to_it_alone(home: everlog.Everlog):
    client, watch = Client(home), Watch()
    assert client.ask("/stats").json()["since_start"] is None
    client.api = Api(home.store, since=Site(app=App(OPTIONS), metrics=Metrics(), watch=watch).since)
    for text in ("hi", "ho"):
        body = {"messages": [{"role": "user", "content": text}, {"role": "user", "content": "and?"}]}
        watch.sent("anthropic", body, tenant="default", thread="t", consumer="m", mode="tree")
    found = client.ask("/stats").json()["since_start"]
    assert (found["modes"], found["prefixes"], found["hidden_rounds"]) == ({"tree": 2}, {"caller:message": 1}, 0)
    assert found["lost_bytes"]["caller:message"] > 0
    assert client.ask("/stats", Principal(tenant="acme", key="ef", role="read")).json()["since_start"]["modes"] == {}


def test_events_are_the_entries_of_requests_for_whoever_may_read(client: Client, home: everlog.Everlog):
    found = client.ask("/events?session_id=s", READ).json()["events"]
    assert [(one["event_type"], one["content"]) for one in found] == [
        ("message.assistant", "At nine."),
        ("message.user", "When does the ferry leave?"),
    ]
    assert {(one["user_id"], one["session_id"], one["request_id"]) for one in found} == {("ann", "s", f"{1:032x}")}
    assert client.ask("/events", ANN).status_code == 403
    home.erase(thread="sea")
    assert client.ask("/events", READ).json()["events"] == []
