"""The upstream for tests, as the official SDKs see it over real HTTP."""

from typing import Any

import anthropic
import httpx2
import openai
import pytest

from everlog.protocols import FORMATS
from everlog.protocols.sse import Frames
from everlog.testing.upstream import Answer, Broken, Cut, Malformed, Manner, Refused, Reset, Stalled, Upstream

TALKATIVE = Answer(text="Grüße, \U0001f980!", thinking="Hm.", calls=(("call_0", "read", {"path": "a"}),))
PATHS = {"chat_completions": "/chat/completions", "responses": "/responses", "anthropic": "/messages"}
each_protocol = pytest.mark.parametrize("name", sorted(PATHS))


def openai_client(upstream, **options):
    return openai.OpenAI(base_url=upstream.url, api_key="k", max_retries=0, timeout=20, **options)


def anthropic_client(upstream):
    base = upstream.url.removesuffix("/v1")
    return anthropic.Anthropic(base_url=base, api_key="k", max_retries=0, timeout=20)


def asked(name, upstream, *, stream):
    """Ask through the SDK of a protocol and return text, calls and, for a stream, how many events there were."""
    hi: Any = [{"role": "user", "content": "hi"}]
    if name == "anthropic":
        with anthropic_client(upstream) as client:
            if stream:
                with client.messages.stream(model="m", max_tokens=9, messages=hi) as events:
                    message: Any = events.get_final_message()
            else:
                message = client.messages.create(model="m", max_tokens=9, messages=hi)
        texts = [block.text for block in message.content if block.type == "text"]
        calls = [(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"]
        return "".join(texts), calls, message.usage.input_tokens
    with openai_client(upstream) as client:
        if name == "responses":
            if stream:
                with client.responses.stream(model="m", input=hi) as events:
                    response: Any = events.get_final_response()
            else:
                response = client.responses.create(model="m", input=hi)
            calls = [(one.call_id, one.name, one.arguments) for one in response.output if one.type == "function_call"]
            return response.output_text, calls, response.usage.input_tokens
        if stream:
            with client.chat.completions.stream(
                model="m", messages=hi, stream_options={"include_usage": True}
            ) as events:
                completion: Any = events.get_final_completion()
        else:
            completion = client.chat.completions.create(model="m", messages=hi)
    message = completion.choices[0].message
    calls = [(one.id, one.function.name, one.function.arguments) for one in message.tool_calls or ()]
    return message.content, calls, completion.usage.prompt_tokens


@each_protocol
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_official_sdks_understand_it(name, stream):
    with Upstream([TALKATIVE, Answer(text="Bye.")]) as upstream:
        arguments: Any = {"path": "a"} if name == "anthropic" else '{"path":"a"}'
        assert asked(name, upstream, stream=stream) == (TALKATIVE.text, [("call_0", "read", arguments)], 100)
        assert asked(name, upstream, stream=stream)[:2] == ("Bye.", [])
    assert [(one.protocol, one.body["model"], one.body.get("stream", False)) for one in upstream.requests] == [
        (name, "m", stream)
    ] * 2
    assert "authorization" in upstream.requests[0].headers or "x-api-key" in upstream.requests[0].headers


def test_a_script_may_be_a_function_of_the_request():
    with Upstream(lambda received: Answer(text=received.body["messages"][-1]["content"] * 2)) as upstream:
        assert asked("chat_completions", upstream, stream=False)[0] == "hihi"


def test_a_script_that_is_over_is_an_error_and_not_a_hang():
    with Upstream() as upstream, pytest.raises(openai.InternalServerError, match="script of the upstream is over"):
        asked("responses", upstream, stream=False)


@pytest.mark.parametrize(
    ("status", "error"),
    [(429, "RateLimitError"), (500, "InternalServerError"), (401, "AuthenticationError"), (400, "BadRequestError")],
)
@each_protocol
def test_refusals_are_the_errors_that_the_sdks_know(name, status, error):
    module: Any = anthropic if name == "anthropic" else openai
    told = Refused(status=status, retry_after="7")
    with Upstream([told]) as upstream, pytest.raises(getattr(module, error)) as raised:
        asked(name, upstream, stream=True)
    assert raised.value.response.headers["retry-after"] == "7"


def test_529_is_overloaded():
    with Upstream([Refused(status=529)]) as upstream, pytest.raises(anthropic.APIStatusError) as raised:
        asked("anthropic", upstream, stream=False)
    assert raised.value.status_code == 529
    assert "overloaded_error" in str(raised.value.body)


@each_protocol
def test_a_reset_is_a_connection_error(name):
    module: Any = anthropic if name == "anthropic" else openai
    with Upstream([Reset()]) as upstream, pytest.raises(module.APIConnectionError):
        asked(name, upstream, stream=False)


def posted(name, upstream, *, stream):
    return httpx2.stream("POST", upstream.url + PATHS[name], json={"model": "m", "stream": stream}, timeout=20)


@each_protocol
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_cut_answer_ends_before_it_is_whole(name, stream):
    with Upstream([Cut(answer=TALKATIVE, events=4)]) as upstream, posted(name, upstream, stream=stream) as response:
        received = []
        with pytest.raises(httpx2.RemoteProtocolError):
            received += list(response.iter_bytes())
        assert response.status_code == 200


@each_protocol
def test_an_error_in_mid_stream_is_seen_by_our_own_parser(name):
    with Upstream([Broken(answer=TALKATIVE, events=4)]) as upstream, posted(name, upstream, stream=True) as response:
        frames, stream = Frames(), FORMATS[name].stream()
        for chunk in response.iter_bytes():
            for event in frames.feed(chunk):
                stream.feed(event)
    assert stream.fault
    assert stream.fault.message == "Overloaded"
    assert not stream.done


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_stalled_answer_lasts_until_the_client_goes(stream):
    with Upstream([Stalled(answer=TALKATIVE, events=2)]) as upstream:
        with posted("anthropic", upstream, stream=stream) as response:
            chunks = response.iter_bytes()
            if stream:
                assert b"message_start" in next(chunks)
            assert upstream.gone == 0
        assert upstream.wait_until_gone()


def test_a_stalled_answer_does_not_keep_the_upstream_from_closing():
    client = httpx2.Client(timeout=20)
    with client, Upstream([Stalled(answer=TALKATIVE)]) as upstream:
        request = client.build_request("POST", upstream.url + "/messages", json={"stream": True})
        response = client.send(request, stream=True)
        assert response.status_code == 200
    assert upstream.gone == 0


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_malformed_answers_have_a_good_status(stream):
    with Upstream([Malformed()]) as upstream, posted("chat_completions", upstream, stream=stream) as response:
        assert response.status_code == 200
        assert b'{"choices": [{"' in response.read()


@pytest.mark.parametrize(
    "manner",
    [
        Manner(whole_calls=True),
        Manner(repeats_ids=True, comments="OPENROUTER PROCESSING"),
        Manner(empty_choices=True, usage=False),
        Manner(empty_output=True, piece=1),
    ],
    ids=["whole calls", "repeated ids", "empty choices, no usage", "empty output"],
)
@each_protocol
def test_oddities_of_other_servers_change_nothing_for_our_own_parser(name, manner):
    with Upstream([TALKATIVE], manner=manner) as upstream, posted(name, upstream, stream=True) as response:
        frames, stream = Frames(), FORMATS[name].stream()
        for chunk in response.iter_bytes(7):
            for event in frames.feed(chunk):
                stream.feed(event)
    reply = stream.reply()
    assert (reply.text, reply.thinking, stream.done) == (TALKATIVE.text, TALKATIVE.thinking, True)
    assert [one.call.name for one in reply.said.messages if one.call] == ["read"]


def test_it_lists_models_and_counts_tokens():
    with Upstream(models=("m-1", "m-2")) as upstream, openai_client(upstream) as client:
        assert [model.id for model in client.models.list()] == ["m-1", "m-2"]
        with anthropic_client(upstream) as other:
            hi: Any = [{"role": "user", "content": "hi"}]
            assert other.messages.count_tokens(model="m", messages=hi).input_tokens > 0
