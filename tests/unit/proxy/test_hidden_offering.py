"""Where memory tools may be offered, and how they stand in a request."""

import pytest

from everlog.memory.tree.schemas import SCHEMAS
from everlog.protocols import FORMATS
from everlog.surfaces.proxy.hidden.offering import offers, tool_names, with_tools
from tests.hidden_rounds import PROTOCOLS, Case, body_of_client

each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
FUNCTION = {"type": "function", "function": {"name": "read"}}

OFFERS = [
    ("chat_completions", {}, "yes"),
    ("chat_completions", {"n": 1, "response_format": {"type": "text"}, "tool_choice": "auto"}, "yes"),
    ("chat_completions", {"tools": [FUNCTION], "tool_choice": "required"}, "yes"),
    ("chat_completions", {"tool_choice": "required"}, "no"),
    ("chat_completions", {"n": 2}, "no"),
    ("chat_completions", {"response_format": {"type": "json_object"}}, "no"),
    ("chat_completions", {"functions": [{"name": "f"}]}, "no"),
    ("chat_completions", {"function_call": "auto"}, "no"),
    ("chat_completions", {"tool_choice": "none"}, "kept"),
    ("chat_completions", {"tool_choice": {"type": "function", "function": {"name": "read"}}}, "kept"),
    ("chat_completions", {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required"}}}, "no"),
    ("chat_completions", {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}}}, "kept"),
    ("chat_completions", {"tools": [{"type": "function", "function": {"name": "mcp__everlog__zoom"}}]}, "no"),
    ("responses", {"background": False, "text": {"format": {"type": "text"}}}, "yes"),
    ("responses", {"background": True}, "no"),
    ("responses", {"prompt": {"id": "pmpt_1"}}, "no"),
    ("responses", {"text": {"format": {"type": "json_schema", "name": "x", "schema": {}}}}, "no"),
    ("responses", {"tool_choice": {"type": "allowed_tools", "mode": "required", "tools": []}}, "no"),
    ("responses", {"tool_choice": {"type": "function", "name": "read"}}, "kept"),
    ("responses", {"tools": [{"type": "mcp", "server_label": "everlog", "server_url": "https://x.example"}]}, "no"),
    ("responses", {"tools": [{"type": "namespace", "name": "everlog", "tools": [{"name": "zoom"}]}]}, "no"),
    ("anthropic", {"tools": [{"name": "read"}], "tool_choice": {"type": "any"}}, "yes"),
    ("anthropic", {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, "yes"),
    ("anthropic", {"tool_choice": {"type": "none"}}, "kept"),
    ("anthropic", {"tool_choice": {"type": "tool", "name": "read"}}, "kept"),
    ("anthropic", {"output_config": {"format": {"type": "json_schema", "schema": {}}}}, "no"),
    ("anthropic", {"output_config": {"effort": "low"}}, "yes"),
    ("anthropic", {"tools": [{"name": "everlog_search"}]}, "no"),
    ("anthropic", {"tools": [{"name": "everlog-read"}]}, "no"),
    ("anthropic", {"tools": [{"name": "zoom"}, {"name": "evermore_read"}]}, "yes"),
    ("anthropic", {"mcp_servers": [{"type": "url", "name": "everlog", "url": "https://x.example"}]}, "no"),
]


@pytest.mark.parametrize(("protocol", "asked", "offer"), OFFERS)
def test_tools_are_offered_where_an_answer_may_have_calls_of_ours(protocol, asked, offer):
    assert offers(protocol, asked) == offer


@each_protocol
def test_whatever_a_body_holds_there_is_an_answer(protocol):
    for odd in (None, 7, "x", [], [None, 7, {"name": 7}], {"type": 7}, {"type": {"a": 1}}):
        for name in ("tools", "tool_choice", "n", "response_format", "text", "output_config", "mcp_servers"):
            assert offers(protocol, {name: odd}) in {"yes", "kept", "no"}


@each_protocol
def test_our_tools_stand_behind_the_clients_own_and_nothing_else_changes(protocol):
    body = body_of_client(protocol, Case(rounds=()), stream=True)
    sent = with_tools(protocol, body, [*SCHEMAS.values()])
    assert [*tool_names(sent)] == ["read", "list", "everlog_zoom", "everlog_read", "everlog_date", "everlog_search"]
    assert sent["tools"][:2] == body["tools"]
    assert {**sent, "tools": 0} == {**body, "tools": 0}
    tools = FORMATS[protocol].parse_settings(sent).settings.tools
    assert [tool.parameters for tool in tools[2:]] == [one["parameters"] for one in SCHEMAS.values()]
    assert offers(protocol, sent) == "no"


@each_protocol
def test_descriptions_call_our_tools_as_they_are_called_on_the_wire(protocol):
    tools = FORMATS[protocol].parse_settings(with_tools(protocol, {}, [*SCHEMAS.values()])).settings.tools
    told = " ".join(tool.description for tool in tools)
    assert "everlog_zoom(id, 1)" in told
    assert " zoom(" not in told
