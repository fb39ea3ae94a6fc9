"""End to end on a small real model: the wire and the accounts are proven, never what the model means."""

import asyncio
import json
import threading

import pytest

from everlog import AsyncChat, Cancelled, Chat, NeverSent

pytestmark = pytest.mark.live

WAYS = [("ollama", "chat_completions"), ("openai", "responses"), ("anthropic", "anthropic")]
MODEL = "smollm2-135m"

each_way = pytest.mark.parametrize(("provider", "protocol"), WAYS)


def opened(kind, config, provider="ollama", protocol="chat_completions", tokens=24):
    chat = kind(MODEL, provider=provider, protocol=protocol, assume_model_exists=True, config=config)
    return chat.with_temperature(0).with_max_output_tokens(tokens)


@each_way
def test_a_conversation_of_two_turns_with_its_tokens(config, provider, protocol):
    chat = opened(Chat, config, provider, protocol).with_instructions("You are brief.")
    first = chat.ask("Say hello.")
    second = chat.ask("And now goodbye.")
    assert first.text
    assert second.text
    assert [one.role for one in chat.messages] == ["system", "user", "assistant", "user", "assistant"]
    counted = [one.usage for one in chat.attempts]
    assert all(one is not None and one.output is not None and 0 < one.output <= 24 for one in counted)
    inputs = [(one.input or 0) + (one.cache_read or 0) for one in counted if one is not None]
    assert inputs[1] > inputs[0] > 0
    assert chat.cost.total_usd is None


@each_way
def test_a_stream_is_the_same_as_the_whole_answer(config, provider, protocol):
    whole = opened(Chat, config, provider, protocol).ask("Name three colours.")
    chat = opened(Chat, config, provider, protocol)
    chunks = list(chat.stream("Name three colours."))
    assert len(chunks) > 3
    assert "".join(one.text for one in chunks) == chat.messages[-1].text == whole.text
    assert chat.tokens.output


def test_many_async_chats_at_once(config):
    async def ask(number):
        chat = opened(AsyncChat, config, tokens=8)
        return [chunk.text async for chunk in chat.stream(f"Count to {number}.")], chat.messages[-1].text

    async def all_of_them():
        return await asyncio.gather(*(ask(number) for number in range(3)))

    for pieces, text in asyncio.run(all_of_them()):
        assert "".join(pieces) == text


def test_an_answer_keeps_to_its_schema(config):
    schema = {
        "type": "object",
        "properties": {
            "colour": {"type": "string", "enum": ["red", "blue"]},
            "count": {"type": "integer", "maximum": 9},
        },
        "required": ["colour", "count"],
        "additionalProperties": False,
    }
    chat = opened(Chat, config, tokens=60).with_schema(schema)
    parsed = chat.ask("Which colour, and how many?").parsed
    assert parsed["colour"] in {"red", "blue"}
    assert set(parsed) == {"colour", "count"}
    assert type(parsed["count"]) is int


def test_a_tool_is_called_in_the_form_of_a_schema(config):
    """So small a model calls no tools by itself; held to a schema, it fills in a call, which is then run."""

    def zoom(node_id: str) -> str:
        return f"Node {node_id} holds three messages."

    call = {
        "type": "object",
        "properties": {
            "tool": {"type": "string", "enum": ["zoom"]},
            "node_id": {"type": "string", "enum": ["n1", "n2", "n3"]},
        },
        "required": ["tool", "node_id"],
        "additionalProperties": False,
    }
    chat = opened(Chat, config, tokens=60).with_schema(call)
    asked = chat.ask("Open node n2.").parsed
    assert asked["tool"] == "zoom"
    result = zoom(asked["node_id"])
    assert asked["node_id"] in result
    answer = chat.with_schema(None).ask(json.dumps({"result": result}))
    assert answer.text


@pytest.mark.parametrize("stream", [False, True])
def test_a_long_answer_can_be_cancelled_and_the_server_goes_on(config, stream):
    chat = opened(Chat, config, tokens=3000)
    began, raised = threading.Event(), []

    def talk():
        try:
            if stream:
                for _ in chat.stream("Tell me a very long story."):
                    began.set()
            else:
                began.set()
                chat.ask("Tell me a very long story.")
        except Cancelled as error:
            raised.append(error)

    thread = threading.Thread(target=talk)
    thread.start()
    assert began.wait(60)
    if not stream:
        thread.join(1.0)  # the answer takes far longer than this
    chat.cancel(hard=True)
    thread.join(20)
    assert not thread.is_alive()
    assert len(raised) == 1
    assert [one.status for one in chat.attempts] == ["cancelled"]
    assert [one.role for one in chat.messages] == ["user"]
    assert opened(Chat, config, tokens=4).ask("Say hello.").text


def test_a_fallback_answers_for_a_server_that_is_dead(config, unused_url):
    dead = {**config.base_urls, "openai": unused_url}
    chat = Chat(
        "m", provider="openai", assume_model_exists=True, config=type(config)(base_urls=dead, api_keys=config.api_keys)
    )
    chat.with_max_output_tokens(8).with_fallbacks(f"ollama/{MODEL}")
    told = []
    chat.before_fallback(lambda fallback: told.append((type(fallback.error), fallback.target)))
    message = chat.ask("Say hello.")
    assert message.text
    assert told == [(NeverSent, f"ollama/{MODEL}")]
    assert [one.status for one in chat.attempts] == ["failed"] * 4 + ["succeeded"]
    assert chat.tokens.output
    assert chat.model.id == "m"
