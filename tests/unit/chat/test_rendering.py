"""What is rendered is what is sent; histories only grow at their end (chat A.1 87, 106, 107; A.2 269, 236)."""

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.chat.chat import Chat
from everlog.chat.message import as_message
from everlog.chat.routes import ChatConfig
from everlog.errors import Mistake, ProviderTrouble
from everlog.testing.upstream import Answer
from tests.unit.chat.servers import RawServer
from tests.unit.chat.talking import PROTOCOLS, PROVIDERS, called


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"Sun in {city}."


def conversation(body: dict[str, Any]) -> list[Any]:
    found: list[Any] = body["messages"] if "messages" in body else body["input"]
    return found


@pytest.mark.covers("chat A.1 106", "D61")
@pytest.mark.parametrize("streamed", [False, True])
def test_what_is_rendered_is_what_is_sent_byte_for_byte(talk, streamed):
    talk = talk(Answer(text="Grüße 🎈"), Answer(text="Bye."))
    talk.chat.with_instructions("Be brief.").with_tools(weather).with_temperature(0.5).with_end_user("u")
    talk.ask("Hi 🎈")
    talk.chat.before_request(lambda body: body.update(late=True)).ask_later("Bye")
    body, raw = talk.do("render", stream=streamed), talk.do("render_bytes", stream=streamed)
    assert len(talk.upstream.requests) == 1
    assert body["late"] is True
    talk.stream(None) if streamed else talk.do("complete")
    assert talk.upstream.requests[1].raw == raw
    assert talk.bodies[1] == body
    assert json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode() == raw


@pytest.mark.covers("chat A.1 106")
def test_what_is_done_to_a_rendered_body_does_not_reach_the_chat(talk):
    talk = talk(Answer(text="One."))
    talk.ask()
    before = talk.do("render_bytes")
    body = talk.do("render")
    for one in conversation(body):
        one["content"] = "spoiled"
    assert talk.do("render_bytes") == before
    assert talk.said == [("user", "Hi"), ("assistant", "One.")]


@pytest.mark.covers("chat A.1 87", "chat A.2 706")
def test_each_request_is_the_one_before_and_what_came_after(talk):
    rome, oslo = ("c1", "weather", {"city": "Rome"}), ("c2", "weather", {"city": "Oslo"})
    talk = talk(
        called(rome, oslo, text="Let me see."), Answer(text="Sun.", thinking="Hm."), called(rome), Answer(text="Sun.")
    )
    talk.chat.with_instructions("Be brief.").with_tools(weather)
    talk.ask("Weather?")
    talk.ask("And again?")
    lists = [conversation(body) for body in talk.bodies]
    assert [after[: len(before)] == before for before, after in pairwise(lists)] == [True] * 3
    rest = [{name: value for name, value in body.items() if name not in {"messages", "input"}} for body in talk.bodies]
    assert rest == rest[:1] * 4


WORDS = st.text(min_size=1, max_size=8).filter(str.strip)
ROUND = st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True)
MOVE = st.one_of(WORDS.map(lambda text: ("say", text)), ROUND.map(lambda ids: ("call", ids)))


def moved(move: tuple[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of a turn."""
    kind, what = move
    if kind == "say":
        return [{"role": "user", "content": what}, {"role": "assistant", "content": what}]
    calls = [{"id": name, "name": "f", "arguments": {"n": name}} for name in what]
    results = [{"role": "tool", "tool_call_id": name, "content": name} for name in what]
    return [{"role": "user", "content": "?"}, {"role": "assistant", "tool_calls": calls}, *results]


@pytest.mark.covers("chat A.1 87")
@pytest.mark.covers("chat A.2 236", "chat A.2 269")
@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(moves=st.lists(MOVE, min_size=1, max_size=6))
def test_rendered_histories_repeat_and_grow_at_their_end_with_calls_beside_results(protocol, moves):
    chat = Chat(
        "m-1",
        provider=PROVIDERS[protocol],
        protocol=protocol,
        assume_model_exists=True,
        api_key="k",
        config=ChatConfig(environ={}),
    )
    before: list[Any] = []
    for move in moves:
        for message in moved(move):
            chat.add_message(message)
        now = conversation(chat.render())
        assert now == conversation(chat.render())
        assert now[: len(before)] == before
        assert paired(now)
        before = now


def paired(items: list[Any]) -> bool:
    """Whether the results of each round, and nothing else, stand right behind its calls."""
    left: list[str] = []
    for kind, name in marks(items):
        if kind == "call":
            left.append(name)
        elif kind == "words" or name not in left:
            if left or kind == "result":
                return False
        else:
            left.remove(name)
    return not left


def marks(items: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield each call and each result by its id, and each item that has neither as words."""
    for item in items:
        content = item.get("content")
        parts = [*item.get("tool_calls", ()), *(content if isinstance(content, list) else ()), item]
        yield from [found for part in parts if (found := mark(part))] or [("words", "")]


def mark(part: dict[str, Any]) -> tuple[str, str] | None:
    kind = part.get("type")
    if kind in {"function", "tool_use"}:
        return "call", part["id"]
    if kind == "function_call":
        return "call", part["call_id"]
    found = part["call_id"] if kind == "function_call_output" else part.get("tool_call_id") or part.get("tool_use_id")
    return ("result", found) if found else None


@pytest.mark.covers("chat A.1 107", "D59")
def test_tokens_are_counted_by_the_provider_and_the_chat_stays_as_it_is(talk):
    talk = talk(Answer(text="One."))
    talk.ask("Hi")
    talk.chat.with_instructions("Be brief.").with_tools(weather).with_provider_options(
        {"secret": "option", "model": "m-2"}
    )
    talk.chat.with_schema({"type": "object"}).before_request(lambda body: body.update(late=True))
    talk.chat.with_provider_tools({"type": "search_tool"}).with_compaction().with_thinking(effort="low")
    before = talk.said
    if talk.protocol == "chat_completions":
        with pytest.raises(Mistake, match="chat_completions has no way to count tokens; protocols that have"):
            talk.do("count_tokens")
        return
    plain, more = talk.do("count_tokens"), talk.do("count_tokens", "And this, which is longer?")
    assert 0 < plain < more
    assert talk.said == before
    path = {"anthropic": "/v1/messages/count_tokens", "responses": "/v1/responses/input_tokens"}[talk.protocol]
    assert [one.path for one in talk.upstream.requests[1:]] == [path, path]
    body = talk.bodies[2]
    assert all(word in json.dumps(body) for word in ("Be brief.", "weather", "json_schema", "And this", "One."))
    assert body["model"] == "m-1"
    assert not {"secret", "late", "max_tokens", "stream", "store", "context_management"} & body.keys()
    assert "search_tool" not in json.dumps(body)
    assert body["reasoning" if talk.protocol == "responses" else "thinking"]
    picture = {"role": "user", "content": "See.", "files": b"\x89PNG\r\n\x1a\n"}
    talk.do("count_tokens", as_message(picture))
    assert '"image' in json.dumps(talk.bodies[3]) or "input_image" in json.dumps(talk.bodies[3])
    assert [one.purpose for one in talk.chat.attempts] == ["chat", *["count_tokens"] * 3]


def test_a_count_that_is_refused_is_an_error(chatting):
    def refuse(server: RawServer, connection: Any) -> None:
        connection.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")

    talk = chatting()
    talk.chat.with_model("m-1", provider="openai", protocol="responses", assume_model_exists=True)
    with RawServer(refuse) as server:
        talk.chat.with_config(ChatConfig(environ={}, base_urls={"openai": server.url}))
        with pytest.raises(ProviderTrouble):
            talk.do("count_tokens", "Hi")


@pytest.mark.covers("chat A.2 269")
def test_calls_without_results_are_never_sent_whatever_becomes_of_the_messages(talk):
    talk = talk(called(("c1", "weather", {"city": "Rome"})), Answer(text="Fine."))
    talk.chat.ask_later("Hi")
    talk.do("generate")
    talk.chat.add_message({"role": "user", "content": "Never mind."})
    assert talk.do("complete").text == "Fine."
    assert "c1" not in json.dumps(talk.bodies[1])
