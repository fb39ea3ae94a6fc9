"""What clients ask for beside the conversation, and what nobody else has a word for."""

import json

import pytest

from everlog.messages import JSON
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Schema, Settings, Thinking, Tool
from tests.unit.protocols.test_oracles import SHAPES, TALK

each_protocol = pytest.mark.parametrize("name", sorted(FORMATS))

UNASKED = {"options", "caching", "caching with a ttl"}
"""Shapes in a provider's words, or in ways that are not a client's to say here."""


@each_protocol
@pytest.mark.parametrize("shape", sorted(set(SHAPES) - UNASKED))
def test_what_is_rendered_is_what_is_asked_for(name, shape):
    settings = Settings(model="m", top_p=0.5, **SHAPES[shape])
    asked = FORMATS[name].parse_settings(FORMATS[name].render_request(TALK, settings))
    again = FORMATS[name].render_request(TALK, asked.settings)
    assert json.dumps(again) == json.dumps(FORMATS[name].render_request(TALK, settings))
    assert asked.dropped == ()


READ: dict[str, JSON] = {"type": "object", "properties": {"path": {"type": "string"}}}


def test_a_client_of_chat_completions_is_understood():
    asked = FORMATS["chat_completions"].parse_settings(
        {
            "model": "m",
            "messages": [],
            "tools": [
                {"type": "function", "function": {"name": "read", "description": "Read.", "parameters": READ}},
                {"type": "custom", "custom": {"name": "patch"}},
            ],
            "tool_choice": {"type": "function", "function": {"name": "read"}},
            "parallel_tool_calls": False,
            "temperature": 0.5,
            "max_tokens": 10,
            "stop": "END",
            "reasoning_effort": "high",
            "response_format": {"type": "json_schema", "json_schema": {"name": "bird", "schema": READ, "strict": True}},
            "user": "u-1",
            "prompt_cache_key": "k",
            "stream": True,
            "stream_options": {"include_usage": True},
            "n": 1,
            "store": False,
            "logprobs": None,
            "seed": 7,
            "x-ünknown": 1,
        }
    )
    assert asked.settings == Settings(
        model="m",
        tools=(Tool(name="read", description="Read.", parameters=READ),),
        choice="read",
        parallel=False,
        temperature=0.5,
        max_output_tokens=10,
        stop=("END",),
        schema=Schema(schema=READ, name="bird", strict=True),
        thinking=Thinking(effort="high"),
        end_user="u-1",
        caching={"key": "k"},
        stream=True,
    )
    assert asked.dropped == ("tools.custom", "seed", "unnamed")


def test_a_client_of_anthropic_is_understood():
    asked = FORMATS["anthropic"].parse_settings(
        {
            "model": "m",
            "max_tokens": 9000,
            "system": "Be brief.",
            "messages": [],
            "tools": [
                {"name": "read", "input_schema": READ, "cache_control": {"type": "ephemeral"}},
                {"type": "web_search_20250305", "name": "web_search"},
            ],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
            "thinking": {"type": "enabled", "budget_tokens": 2000},
            "stop_sequences": ["END"],
            "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": READ}},
            "metadata": {"user_id": "u-1"},
            "top_k": 5,
            "context_management": {"edits": []},
            "service_tier": "auto",
        }
    )
    assert asked.settings == Settings(
        model="m",
        tools=(Tool(name="read", parameters=READ),),
        choice="required",
        parallel=False,
        max_output_tokens=9000,
        stop=("END",),
        schema=Schema(schema=READ, strict=False),
        thinking=Thinking(effort="low", budget_tokens=2000),
        end_user="u-1",
    )
    assert asked.dropped == ("tools.web_search_20250305", "top_k", "context_management")


def test_a_schema_is_strict_elsewhere_only_if_it_leaves_nothing_open():
    closed: dict[str, JSON] = {**READ, "required": ["path"], "additionalProperties": False}
    nested: dict[str, JSON] = {
        "type": "object",
        "properties": {"a": READ},
        "required": ["a"],
        "additionalProperties": False,
    }
    words: dict[str, JSON] = {"type": "string"}
    for schema, strict in ((READ, False), (closed, True), (nested, False), (words, True)):
        body = {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
        found = FORMATS["anthropic"].parse_settings(body).settings.schema
        assert found == Schema(schema=schema, strict=strict)


def test_a_client_of_responses_is_understood_with_tools_that_take_a_text_or_have_a_namespace():
    asked = FORMATS["responses"].parse_settings(
        {
            "model": "m",
            "input": [],
            "tools": [
                {"type": "function", "name": "read", "strict": False, "parameters": READ},
                {"type": "custom", "name": "patch", "description": "Patch."},
                {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "spawn"}]},
                {"type": "web_search", "external_web_access": True},
            ],
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []},
            "reasoning": {"summary": "auto"},
            "include": ["reasoning.encrypted_content"],
            "text": {"verbosity": "low"},
            "store": False,
            "truncation": "disabled",
            "client_metadata": {"a": "b"},
        }
    )
    assert [one.name for one in asked.settings.tools] == ["read", "patch", "spawn"]
    assert asked.settings.tools[1].parameters["required"] == ["input"]
    assert asked.freeform == {"patch"}
    assert asked.settings.choice is None
    assert asked.settings.thinking == Thinking(display="summarized")
    assert asked.dropped == ("tools.web_search", "tool_choice", "text.verbosity", "client_metadata")


@each_protocol
def test_no_body_makes_it_fail(name):
    values: tuple[JSON, ...] = (None, 1, "x", [], {}, [1], [None], {"a": 1}, {"type": []}, [{"type": {}}], True, -1.5)
    for value in values:
        fields = ("tools", "tool_choice", "stop", "stop_sequences", "thinking", "reasoning", "reasoning_effort", "text")
        more = ("response_format", "output_config", "metadata", "temperature", "max_tokens", "stream", "include")
        asked = FORMATS[name].parse_settings(dict.fromkeys((*fields, *more), value))
        FORMATS[name].render_request((), asked.settings)
