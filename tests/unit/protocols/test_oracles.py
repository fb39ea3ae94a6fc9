"""The official SDKs as oracles: they take what we make, read what we read, and put streams together as we do.

Requests go through the SDK itself: it is called with our body as its arguments, over a transport that captures what it
would send. Types of the SDK then validate each message of it.
"""

import json
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message as AnthropicMessage
from anthropic.types import RawMessageStreamEvent
from hypothesis import given
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

from everlog.errors import Mistake
from everlog.messages import Media, Message, Result
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Said, Schema, Settings, Thinking, Tool, said
from everlog.protocols.sse import Frames
from everlog.testing.upstream.answers import body_of
from everlog.testing.upstream.streams import events_of
from tests.unit.protocols.answers import SIMPLE
from tests.unit.protocols.histories import called, talks
from tests.unit.protocols.sdk_types import adapter_of, lawful

each_protocol = pytest.mark.parametrize("name", sorted(FORMATS))
ANSWERS = pytest.mark.parametrize("answer", SIMPLE.values(), ids=SIMPLE)

READ = Tool(
    name="read",
    description="Read a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
LIST = Tool(name="list", strict=True, parameters={"type": "object", "properties": {}, "additionalProperties": False})
TALK = said(
    [
        Message(kind="system", text="Be brief."),
        Message(kind="user", text="What is this?", parts=(Media(media_type="image/png", content=b"\x89PNG"),)),
        Message(kind="assistant", text="I look."),
        called("call_a", "read", '{"path":"a"}'),
        called("call_b", "list", "{}"),
        Message(kind="tool_result", text="a heron", parts=(Result(call_id="call_a"),)),
        Message(kind="tool_result", text="a.txt", parts=(Result(call_id="call_b"),)),
        Message(kind="assistant", text="A heron."),
        Message(kind="user", text="Sure?"),
    ]
)
MARKED = (*TALK[:-1], Said(messages=TALK[-1].messages, cached=True))

SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "tools": {"tools": (READ, LIST)},
    "auto": {"tools": (READ,), "choice": "auto"},
    "none": {"tools": (READ,), "choice": "none"},
    "required": {"tools": (READ,), "choice": "required", "parallel": False},
    "named": {"tools": (READ,), "choice": "read", "parallel": True},
    "one at a time": {"tools": (READ,), "parallel": False},
    "limits": {"max_output_tokens": 100},
    "schema": {"schema": Schema(name="bird", schema={"type": "object", "properties": {"a": {"type": "string"}}})},
    "effort": {"thinking": Thinking(effort="high")},
    "no thinking": {"thinking": Thinking(enabled=False)},
    "end user": {"end_user": "u-1"},
    "caching": {"caching": {}},
    "caching with a ttl": {"caching": {"ttl": "1h"}},
    "options": {"options": {"service_tier": "auto"}},
    "stream": {"stream": True, "tools": (READ,)},
}


class Captured(Exception):
    """What would have been sent."""

    def __init__(self, body: Any) -> None:
        super().__init__("captured")
        self.body = body


def capturing(request):
    raise Captured(json.loads(request.content))


def sent(name: str, body: dict[str, Any]) -> Any:
    """Return what the SDK of a protocol sends for a body, given as its arguments."""
    client = httpx2.Client(transport=httpx2.MockTransport(capturing))
    openai_client = openai.OpenAI(api_key="k", base_url="http://127.0.0.1/v1", http_client=client, max_retries=0)
    anthropic_client = anthropic.Anthropic(api_key="k", base_url="http://127.0.0.1", http_client=client, max_retries=0)
    create: Any = {
        "chat_completions": openai_client.chat.completions.create,
        "responses": openai_client.responses.create,
        "anthropic": anthropic_client.messages.create,
    }[name]
    with pytest.raises((Captured, anthropic.APIConnectionError)) as raised:
        create(**body)
    captured = raised.value if isinstance(raised.value, Captured) else raised.value.__cause__
    assert isinstance(captured, Captured)
    return captured.body


@each_protocol
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("history", [TALK, MARKED], ids=["talk", "marked"])
def test_the_sdk_sends_the_same_body(name, shape, history):
    body = FORMATS[name].render_request(history, Settings(model="m", **SHAPES[shape]))
    assert sent(name, body) == body
    lawful(name, body)


@each_protocol
@given(talk=talks())
def test_any_talk_is_lawful_for_the_sdks_types(name, talk):
    lawful(name, FORMATS[name].render_request(talk, Settings(model="m")))


@each_protocol
@ANSWERS
def test_an_answer_is_lawful_for_the_sdks_types_and_may_be_sent_back(name, answer):
    body = body_of(answer, name, "m")
    types: dict[str, Any] = {"chat_completions": ChatCompletion, "responses": Response, "anthropic": AnthropicMessage}
    types[name].model_validate(body, strict=True)
    reply = FORMATS[name].parse_reply(body)
    results = [
        Message(kind="tool_result", text="ok", parts=(Result(call_id=one.call.call_id),))
        for one in reply.said.messages
        if one.call
    ]
    asked = said([Message(kind="user", text="go")])
    lawful(name, FORMATS[name].render_request((*asked, reply.said, *said(results), *asked), Settings(model="m")))


def events(name, answer):
    frames = Frames()
    data = b"".join(events_of(body_of(answer, name, "m"), name))
    return [json.loads(event.data) for event in frames.feed(data) if event.data != "[DONE]"]


@ANSWERS
def test_chunks_are_lawful_and_put_together_as_openai_does(answer):
    state: Any = ChatCompletionStreamState()
    for event in events("chat_completions", answer):
        state.handle_chunk(ChatCompletionChunk.model_validate(event, strict=True))
    message = state.current_completion_snapshot.choices[0].message
    reply = FORMATS["chat_completions"].parse_reply(body_of(answer, "chat_completions", "m"))
    assert (message.content or "") == reply.text
    calls = [(one.id, one.function.name, one.function.arguments) for one in message.tool_calls or ()]
    assert calls == [(one.call.call_id, one.call.name, one.call.arguments) for one in reply.said.messages if one.call]


@ANSWERS
def test_events_of_responses_are_lawful_for_openais_types(answer):
    adapter = adapter_of(ResponseStreamEvent)
    for event in events("responses", answer):
        adapter.validate_python(event)


@ANSWERS
def test_events_of_anthropic_are_lawful_and_put_together_as_anthropic_does(answer):
    adapter = adapter_of(RawMessageStreamEvent)
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for event in events("anthropic", answer):
        if event["type"] != "ping":
            parsed = adapter.validate_python(event)
            snapshot = accumulate_event(event=parsed, current_snapshot=snapshot, json_bufs=buffers)
    wanted = body_of(answer, "anthropic", "m")
    content = [block.model_dump(exclude_none=True) for block in snapshot.content]
    for block in content:
        block.pop("parsed_output", None)
    assert content == [{k: v for k, v in block.items() if v is not None} for block in wanted["content"]]
    assert snapshot.usage.output_tokens == answer.output_tokens


@pytest.mark.covers("chat A.1 109")
def test_tokens_are_counted_in_one_place_each():
    """Fact 109: what was read from a cache is no input, whoever counts."""
    for name, form in FORMATS.items():
        usage = form.parse_reply(body_of(SIMPLE["cached"], name, "m")).usage
        assert usage
        assert (usage.input, usage.cache_read, usage.output) == (100, 900, 20), name


@pytest.mark.covers("chat A.1 82", "chat A.1 83")
@pytest.mark.parametrize(
    ("name", "options", "valid"),
    [
        ("anthropic", {"key": "k"}, "ttl"),
        ("responses", {"id": "x"}, "key, ttl, mode"),
        ("chat_completions", {"x": 1}, "key"),
    ],
)
def test_a_caching_option_of_another_protocol_is_refused_when_it_is_rendered(name, options, valid):
    with pytest.raises(Mistake, match=f"{valid}.*not {next(iter(options))}"):
        FORMATS[name].render_request(TALK, Settings(model="m", caching=options))
