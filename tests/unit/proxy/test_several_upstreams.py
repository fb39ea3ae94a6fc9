"""Several upstreams behind one proxy: an answer is asked for again where it was given, and costs what it costs there."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from everlog.access import LOOPBACK, asked_by
from everlog.errors import Mistake
from everlog.surfaces.proxy.relay.upstream import Outgoing
from everlog.surfaces.proxy.relay.upstreams import provider_of
from everlog.surfaces.proxy.routes import Kind, route
from everlog.surfaces.proxy.settings.options import Options, Target
from everlog.testing.upstream.answers import Answer, body_of
from tests.unit.proxy.test_front import Proxy
from tests.unit.proxy.wire import Client, Coming

HERE = Target(name="here", base_url="http://here.test/v1", models=("small*",))
OPENAI = Target(base_url="https://api.openai.com/v1")
KEPT = ("", "/input_items", "/cancel")


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    proxy = Proxy(options=Options(targets=(HERE, OPENAI), mode="record"))
    yield proxy
    proxy.close()


def answered(id_: str, model: str, protocol: str = "responses") -> Coming:
    body = {**body_of(Answer(text="By train."), protocol, model), "id": id_}
    return Coming(pieces=[json.dumps(body).encode()])


def ask(proxy: Proxy, id_: str, model: str, *headers: tuple[bytes, bytes], **more: Any) -> Client:
    proxy.answer = lambda _: answered(id_, model)
    body = json.dumps({"model": model, "input": "How do I get there?", **more}).encode()
    return proxy.ask("/v1/responses", "POST", *headers, body=body)


def reached(proxy: Proxy, path: str, method: str = "GET", *headers: tuple[bytes, bytes]) -> str:
    """Return the address that a request goes to."""
    urls: list[str] = []

    def answer(outgoing: Outgoing) -> Coming:
        urls.append(outgoing.url)
        return Coming(pieces=[b"{}"])

    proxy.answer = answer
    proxy.ask(path, method, *headers)
    (url,) = urls
    return url


@pytest.mark.parametrize("end", KEPT)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_what_is_asked_of_an_answer_goes_to_the_upstream_that_gave_it(proxy: Proxy, method: str, end: str):
    ask(proxy, "resp_small", "small-1")
    ask(proxy, "resp_large", "large-1")
    assert reached(proxy, f"/v1/responses/resp_small{end}", method) == f"{HERE.base}/responses/resp_small{end}"
    assert reached(proxy, f"/v1/responses/resp_large{end}", method) == f"{OPENAI.base}/responses/resp_large{end}"
    assert reached(proxy, f"/v1/responses/resp_other{end}", method) == f"{OPENAI.base}/responses/resp_other{end}"


def test_an_answer_is_found_whoever_is_named_in_its_request_but_under_its_key_only(proxy: Proxy):
    mine, other = proxy.key(), proxy.key()
    ask(proxy, "resp_1", "small-1", mine, user="ann")
    assert reached(proxy, "/v1/responses/resp_1", "GET", mine).startswith(HERE.base)
    assert reached(proxy, "/v1/responses/resp_1", "GET", other).startswith(OPENAI.base)


def test_what_cannot_be_looked_up_goes_to_the_default(proxy: Proxy):
    ask(proxy, "resp_1", "small-1")
    proxy.home.store.close()
    assert reached(proxy, "/v1/responses/resp_1").startswith(OPENAI.base)


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("POST", "/v1/responses", Kind.BY_MODEL),
        ("POST", "/v1/responses/compact", Kind.BY_MODEL),
        ("GET", "/v1/responses", Kind.DEFAULT),
        ("GET", "/v1/responses/", Kind.DEFAULT),
        ("GET", "/v1/responses/resp_1", Kind.ANSWER),
        ("GET", "/v1/chat/completions/chatcmpl-1/messages", Kind.ANSWER),
        ("GET", "/v1/messages/batches", Kind.DEFAULT),
    ],
)
def test_a_path_names_an_answer_behind_its_protocol(method: str, path: str, kind: Kind):
    assert route(method, path).kind is kind


def costs(proxy: Proxy, model: str) -> int | None:
    ask(proxy, f"resp_{model}", model)
    (was,) = proxy.home.store.read(LOOPBACK.tenant, partial(asked_by, limit=1))
    assert was.tokens
    return was.nano_usd


def test_an_answer_costs_what_it_costs_at_its_upstream_or_nobody_knows():
    here = replace(HERE, models=("gpt-*",))
    proxy = Proxy(options=Options(targets=(here, OPENAI), mode="record"))
    assert costs(proxy, "gpt-4o") is None
    proxy.close()
    proxy = Proxy(options=Options(targets=(replace(here, provider="openai"), OPENAI), mode="record"))
    assert costs(proxy, "gpt-4o")
    assert costs(proxy, "claude-sonnet-4-5") is None, "another provider's price is none of this one's"
    proxy.close()
    proxy = Proxy(options=Options(targets=(OPENAI,), mode="record"))
    assert costs(proxy, "gpt-4o")
    proxy.close()


def test_a_provider_is_known_by_its_address_and_one_that_nobody_knows_is_a_mistake():
    assert [provider_of(one) for one in (OPENAI, HERE, replace(HERE, provider="deepseek"))] == [
        "openai",
        None,
        "deepseek",
    ]
    with pytest.raises(Mistake, match="no provider is called 'acme'"):
        replace(HERE, provider="acme")


def test_an_upstream_that_lists_no_models_is_said_to_have_refused_and_its_address_to_be_checked(proxy: Proxy):
    proxy.answer = lambda _: Coming(status=404, pieces=[b"nothing here"])
    found = proxy.ask("/v1/models")
    said = json.loads(found.body)["error"]["message"]
    assert found.status == 502
    assert "answered 404" in said
    assert "Check its address" in said
    assert "Ask again" not in said
