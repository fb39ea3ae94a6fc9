"""The official SDKs, unchanged, behind a translation: what they put together is what the upstream said."""

import json
from datetime import UTC, datetime
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from everlog.messages import JSON
from everlog.protocols import FORMATS
from everlog.protocols.answering import Stamp
from everlog.protocols.shapes import encoded
from everlog.registry import Model
from everlog.surfaces.proxy.translation.translating import Translation
from everlog.testing.upstream.answers import Answer, body_of
from everlog.testing.upstream.failures import error_body, error_event
from everlog.testing.upstream.streams import Manner, events_of
from tests.unit.proxy.test_translating import WAYS, each_way

STAMP = Stamp(id="7", at=datetime(2026, 1, 5, 8, tzinfo=UTC))
CALLS: tuple[tuple[str, str, JSON], ...] = (("call_a", "read", {"path": "ü"}), ("call_b", "list", {}))
TALKING = Answer(text="I look.", calls=CALLS, cached_tokens=40)
PATHS = {"chat_completions": "/v1/chat/completions", "responses": "/v1/responses", "anthropic": "/v1/messages"}


class Behind(httpx2.BaseTransport):
    """An upstream of one protocol for a client of another, without a connection."""

    def __init__(self, client: str, upstream: str, answer: Answer, *, status: int = 200, breaks: bool = False) -> None:
        model = Model(id="up-1", provider="any")
        self._translation = Translation(client=FORMATS[client], upstream=FORMATS[upstream], model=model)
        self._path = PATHS[client]
        self._upstream = upstream
        self._answer = answer
        self._status = status
        self._breaks = breaks

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        assert request.url.path == self._path
        sent = self._translation.request(json.loads(request.read()))
        if self._status >= 400:
            status, data = sent.whole(self._status, encoded(error_body(self._status, "No.", self._upstream)), STAMP)
            return httpx2.Response(status, content=data, headers={"content-type": "application/json"})
        body = body_of(self._answer, self._upstream, "up-1")
        if not sent.body.get("stream"):
            status, data = sent.whole(200, encoded(body), STAMP)
            return httpx2.Response(status, content=data, headers={"content-type": "application/json"})
        pieces = list(events_of(body, self._upstream, Manner(piece=3)))
        if self._breaks:
            event = error_event("Busy.", self._upstream)
            pieces[6:] = [f"event: {event.get('type', 'error')}\ndata: {json.dumps(event)}\n\n".encode()]
        stream = sent.stream(STAMP)
        out = b"".join([*map(stream.feed, pieces), stream.end()])
        return httpx2.Response(200, content=out, headers={"content-type": "text/event-stream"})


def sdk(client: str, upstream: str, answer: Answer = TALKING, **trouble: Any) -> Any:
    http = httpx2.Client(transport=Behind(client, upstream, answer, **trouble))
    if client == "anthropic":
        return anthropic.Anthropic(api_key="k", base_url="http://127.0.0.1", http_client=http, max_retries=0)
    return openai.OpenAI(api_key="k", base_url="http://127.0.0.1/v1", http_client=http, max_retries=0)


ASKED: dict[str, dict[str, Any]] = {
    "chat_completions": {"model": "m", "messages": [{"role": "user", "content": "go"}]},
    "responses": {"model": "m", "input": "go"},
    "anthropic": {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "go"}]},
}


def called(client: str, api: Any, *, stream: bool) -> Any:
    """Return what the SDK makes of an answer, by its own helper for streams."""
    asked = ASKED[client]
    place = {"chat_completions": lambda: api.chat.completions, "responses": lambda: api.responses}.get(
        client, lambda: api.messages
    )()
    if not stream:
        return place.create(**asked)
    options = {"stream_options": {"include_usage": True}} if client == "chat_completions" else {}
    with place.stream(**asked, **options) as events:
        for _ in events:
            pass
        if client == "chat_completions":
            return events.get_final_completion()
        return events.get_final_response() if client == "responses" else events.get_final_message()


def told(client: str, answer: Any) -> Any:
    """Return words, calls, reason and tokens of an answer of an SDK."""
    if client == "chat_completions":
        choice = answer.choices[0]
        calls = [(one.id, one.function.name, json.loads(one.function.arguments)) for one in choice.message.tool_calls]
        usage = answer.usage
        read = usage.prompt_tokens_details.cached_tokens
        return choice.message.content, calls, choice.finish_reason, usage.prompt_tokens, read, usage.completion_tokens
    if client == "responses":
        calls = [
            (one.call_id, one.name, json.loads(one.arguments)) for one in answer.output if one.type == "function_call"
        ]
        usage = answer.usage
        read = usage.input_tokens_details.cached_tokens
        return answer.output_text, calls, answer.status, usage.input_tokens, read, usage.output_tokens
    calls = [(one.id, one.name, one.input) for one in answer.content if one.type == "tool_use"]
    words = "".join(one.text for one in answer.content if one.type == "text")
    usage = answer.usage
    whole = usage.input_tokens + usage.cache_read_input_tokens
    return words, calls, answer.stop_reason, whole, usage.cache_read_input_tokens, usage.output_tokens


@each_way
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_an_sdk_gets_words_calls_reason_and_tokens(client, upstream, stream):
    reason = {"chat_completions": "tool_calls", "responses": "completed", "anthropic": "tool_use"}[client]
    answer = called(client, sdk(client, upstream), stream=stream)
    assert told(client, answer) == ("I look.", list(CALLS), reason, 100, 40, 20)


@each_way
def test_an_sdk_raises_the_error_of_a_status(client, upstream):
    module: Any = anthropic if client == "anthropic" else openai
    for stream in (False, True):
        with pytest.raises(module.RateLimitError) as raised:
            called(client, sdk(client, upstream, status=429), stream=stream)
        assert "No." in str(raised.value)


@pytest.mark.parametrize(("client", "upstream"), [way for way in WAYS if way[0] != "responses"])
def test_an_sdk_raises_an_error_that_comes_in_mid_stream(client, upstream):
    module: Any = anthropic if client == "anthropic" else openai
    with pytest.raises(module.APIError) as raised:
        called(client, sdk(client, upstream, breaks=True), stream=True)
    assert "Busy." in str(raised.value)


@pytest.mark.parametrize("upstream", ["anthropic", "chat_completions"])
def test_a_client_of_responses_sees_that_its_answer_failed(upstream):
    events = list(sdk("responses", upstream, breaks=True).responses.create(model="m", input="go", stream=True))
    assert events[-1].type == "response.failed"
    assert events[-1].response.error.message == "Busy."
