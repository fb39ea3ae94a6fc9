"""What settings become, in each protocol."""

from typing import Any

import pytest

from everlog.messages import Message
from everlog.protocols import FORMATS
from everlog.protocols.anthropic.requests import render_betas
from everlog.protocols.exchange import Raw, Said, Schema, Settings, Thinking, Tool, said

HISTORY = said([Message(kind="user", text="hi")])
READ = Tool(name="read", description="Read.", parameters={"type": "object"})
BIRD = Schema(name="bird", schema={"type": "object"}, description="A bird.")

CASES: list[tuple[dict[str, Any], ...]] = [
    (
        {"tools": (READ,), "choice": "read", "parallel": False},
        {
            "tool_choice": {"type": "function", "function": {"name": "read"}},
            "parallel_tool_calls": False,
            "tools": [
                {
                    "type": "function",
                    "function": {"name": "read", "description": "Read.", "parameters": {"type": "object"}},
                }
            ],
        },
        {
            "tool_choice": {"type": "function", "name": "read"},
            "parallel_tool_calls": False,
            "tools": [
                {
                    "type": "function",
                    "name": "read",
                    "description": "Read.",
                    "parameters": {"type": "object"},
                    "strict": False,
                }
            ],
        },
        {
            "tool_choice": {"type": "tool", "name": "read", "disable_parallel_tool_use": True},
            "tools": [{"name": "read", "description": "Read.", "input_schema": {"type": "object"}}],
        },
    ),
    (
        {"tools": (READ,), "choice": "required"},
        {"tool_choice": "required"},
        {"tool_choice": "required"},
        {"tool_choice": {"type": "any"}},
    ),
    ({"choice": "required"}, {"tool_choice": None}, {"tool_choice": None}, {"tool_choice": None}),
    (
        {"schema": BIRD},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "bird", "description": "A bird.", "schema": {"type": "object"}, "strict": True},
            }
        },
        {
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": "bird",
                    "description": "A bird.",
                    "schema": {"type": "object"},
                    "strict": True,
                }
            }
        },
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
    ),
    (
        {"thinking": Thinking(effort="xhigh", display="summarized")},
        {"reasoning_effort": "xhigh"},
        {"reasoning": {"effort": "xhigh", "summary": "auto"}, "include": ["reasoning.encrypted_content"]},
        {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "xhigh"}},
    ),
    (
        {"thinking": Thinking(budget_tokens=2000)},
        {"reasoning_effort": None},
        {"reasoning": None},
        {"thinking": {"type": "enabled", "budget_tokens": 2000}},
    ),
    (
        {"thinking": Thinking(enabled=False)},
        {"reasoning_effort": "none"},
        {"reasoning": {"effort": "none"}, "include": None},
        {"thinking": {"type": "disabled"}},
    ),
    (
        {"temperature": 0.0, "max_output_tokens": 7},
        {"temperature": 0.0, "max_completion_tokens": 7},
        {"temperature": 0.0, "max_output_tokens": 7},
        {"temperature": 0.0, "max_tokens": 7},
    ),
    ({"temperature": 0.5, "reasons": True}, {"temperature": 0.5}, {"temperature": None}, {"temperature": 0.5}),
    (
        {"names": {"max_output_tokens": "max_tokens", "end_user": "user"}, "max_output_tokens": 7, "end_user": "u"},
        {"max_tokens": 7, "user": "u", "max_completion_tokens": None},
        {"user": "u", "max_output_tokens": 7},
        {"metadata": {"user_id": "u"}, "max_tokens": 7},
    ),
    (
        {"compaction": {"at": 50_000, "instructions": "Keep decisions.", "pause_after": True}},
        {"context_management": None},
        {"context_management": [{"type": "compaction", "compact_threshold": 50_000}]},
        {
            "context_management": {
                "edits": [
                    {
                        "type": "compact_20260112",
                        "trigger": {"type": "input_tokens", "value": 50_000},
                        "instructions": "Keep decisions.",
                        "pause_after_compaction": True,
                    }
                ]
            }
        },
    ),
    (
        {"stream": True},
        {"stream": True, "stream_options": {"include_usage": True}},
        {"stream": True, "store": False},
        {"stream": True},
    ),
    (
        {"caching": {"ttl": "1h"}},
        {"prompt_cache_options": {"ttl": "1h"}},
        {"prompt_cache_options": {"ttl": "1h"}},
        {"cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ),
]


@pytest.mark.covers(
    "chat A.1 36",
    "chat A.1 38",
    "chat A.1 82",
    "chat A.1 83",
    "chat A.1 89",
    "chat A.1 93",
    "chat A.1 94",
    "chat A.1 95",
    "chat A.1 96",
    "chat A.1 105",
)
@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("case", CASES, ids=[f"{n} {' '.join(case[0])}" for n, case in enumerate(CASES)])
def test_settings_become_fields(name, case):
    """Facts 36-38, 82, 83, 88, 89, 92-96, 105. None means that the field is not there."""
    settings, *wanted = case
    fields = dict(zip(("chat_completions", "responses", "anthropic"), wanted, strict=True))[name]
    body = FORMATS[name].render_request(HISTORY, Settings(model="m", **settings))
    assert {field: body.get(field) for field in fields} == fields
    assert [field for field, value in fields.items() if value is None and field in body] == []


@pytest.mark.covers("chat A.1 101", "D80")
@pytest.mark.parametrize("name", sorted(FORMATS))
def test_options_are_laid_over_the_finished_body_and_tools_of_the_provider_come_last(name):
    search = {"type": "web_search_20260318", "name": "web_search"}
    settings = Settings(
        model="m",
        tools=(READ,),
        schema=BIRD,
        thinking=Thinking(effort="low"),
        options={"service_tier": "flex", "output_config": {"x": 1}, "model": "other"},
        provider_tools=(search,),
    )
    body = FORMATS[name].render_request(HISTORY, settings)
    assert (body["service_tier"], body["model"]) == ("flex", "other")
    assert body["tools"][1:] == [search]
    if name == "anthropic":
        assert body["output_config"] == {"effort": "low", "format": body["output_config"]["format"], "x": 1}


@pytest.mark.covers("chat A.1 84", "chat A.1 85")
def test_a_cached_message_is_marked_at_its_last_part_once():
    history = (*said([Message(kind="assistant", text="ho")]), Said(messages=HISTORY[0].messages, cached=True))
    explicit = {"mode": "explicit"}
    chat = FORMATS["chat_completions"].render_request(history, Settings(model="m"))
    assert chat["messages"][-1]["content"] == [{"type": "text", "text": "hi", "prompt_cache_breakpoint": explicit}]
    assert chat["prompt_cache_options"] == explicit
    body = FORMATS["responses"].render_request(history, Settings(model="m"))
    assert body["input"][-1]["content"] == [{"type": "input_text", "text": "hi", "prompt_cache_breakpoint": explicit}]
    marked = FORMATS["anthropic"].render_request(history, Settings(model="m"))
    block = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    assert marked["messages"][-1]["content"] == [block]
    for name, sent in (("chat_completions", chat), ("responses", body), ("anthropic", marked)):
        again = FORMATS[name].parse_history(sent)
        twice = (*again[:-1], Said(messages=again[-1].messages, raw=again[-1].raw, cached=True))
        field = "input" if name == "responses" else "messages"
        assert FORMATS[name].render_request(twice, Settings(model="m"))[field] == sent[field]


@pytest.mark.covers("chat A.1 84")
def test_a_cached_system_message_is_an_item_of_responses():
    system = Said(messages=(Message(kind="system", text="Be brief."),), cached=True)
    body = FORMATS["responses"].render_request((*HISTORY, system), Settings(model="m"))
    assert "instructions" not in body
    assert [item["role"] for item in body["input"]] == ["system", "user"]
    assert "prompt_cache_breakpoint" in body["input"][0]["content"][0]


@pytest.mark.covers("chat A.1 89")
def test_compaction_needs_one_beta_of_anthropic():
    assert render_betas(Settings(model="m", compaction={})) == ("compact-2026-01-12",)
    assert render_betas(Settings(model="m")) == ()


def test_anthropic_always_gets_a_limit():
    assert FORMATS["anthropic"].render_request(HISTORY, Settings(model="m"))["max_tokens"] == 4096


@pytest.mark.covers("chat A.1 85")
@pytest.mark.parametrize(
    ("protocol", "mark"),
    [
        ("chat_completions", {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}),
        ("responses", {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}),
        ("anthropic", {"cache_control": {"type": "ephemeral", "ttl": "1h"}}),
    ],
)
def test_a_block_that_is_marked_already_keeps_its_mark(protocol, mark):
    part = {"type": "input_text" if protocol == "responses" else "text", "text": "Hello?", **mark}
    item: dict[str, Any] = {"role": "user", "content": [part]}
    marked = Said(messages=(), raw=Raw(protocol=protocol, items=(item,)), cached=True)
    body = FORMATS[protocol].render_request((marked,), Settings(model="m"))
    assert body["input" if protocol == "responses" else "messages"][-1]["content"] == [part]


@pytest.mark.covers("chat A.1 109")
@pytest.mark.parametrize(
    ("protocol", "counted"),
    [
        (
            "chat_completions",
            {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 10}},
        ),
        (
            "responses",
            {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 10}},
        ),
        (
            "anthropic",
            {"input_tokens": 50, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 10},
        ),
    ],
)
def test_input_is_what_no_cache_was_read_for_or_written(protocol, counted):
    usage = FORMATS[protocol].parse_reply({"usage": counted}).usage
    assert usage is not None
    assert (usage.input, usage.cache_read, usage.cache_write) == (50, 40, 10)
