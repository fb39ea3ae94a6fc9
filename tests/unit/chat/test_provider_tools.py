"""Tools that run at the provider, answers in pieces, and compaction (chat A.1 88 to 90, 99 to 102)."""

import json
from typing import Any

import pytest

from everlog.chat.provider_tools import ProviderTool
from everlog.errors import Mistake
from everlog.protocols.exchange import Step
from everlog.testing.upstream import Answer

RAW = {"type": "web_search_20250305", "name": "web_search"}
USE = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "tide"}}
ITEM: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "status": "completed",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Ok.", "annotations": [], "logprobs": []}],
}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}


def paused(*content: dict[str, Any]) -> Answer:
    return Answer(fields={"stop_reason": "pause_turn", "content": list(content)}, input_tokens=10, output_tokens=2)


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"Sun in {city}."


@pytest.mark.covers("chat A.1 99", "D24", "D81")
def test_entries_are_names_names_with_options_and_whole_tools_and_add_up(chatting):
    chat = chatting().chat.with_provider_tools("web_search", RAW)
    assert chat.with_provider_tools(None, file_search={"vector_store_ids": ["v"]}) is chat
    assert chat.provider_tools == (
        ProviderTool(name="web_search"),
        ProviderTool(options=RAW),
        ProviderTool(name="file_search", options={"vector_store_ids": ["v"]}),
    )
    assert chat.with_provider_tools(None).provider_tools == ()
    for given, named in [((5,), {}), ((), {"web_search": "x"})]:
        with pytest.raises(Mistake, match="a mapping"):
            chat.with_provider_tools(*given, **named)


@pytest.mark.covers("chat A.1 100", "D81", "D83")
def test_names_are_understood_as_the_protocol_has_them(talk):
    talk = talk()
    talk.chat.with_provider_tools("code_execution", web_search={"allowed_domains": ["a.example"]})
    if talk.protocol == "chat_completions":
        with pytest.raises(
            Mistake, match="chat_completions has no provider tool 'code_execution'; it has none by name"
        ):
            talk.do("render")
        return
    tools = {
        "responses": [
            {"type": "code_interpreter", "container": {"type": "auto"}},
            {"type": "web_search", "allowed_domains": ["a.example"]},
        ],
        "anthropic": [
            {"type": "code_execution_20260521", "name": "code_execution"},
            {"type": "web_search_20260318", "name": "web_search", "allowed_domains": ["a.example"]},
        ],
    }
    assert talk.do("render")["tools"] == tools[talk.protocol]
    talk.chat.with_provider_tools("time_travel")
    with pytest.raises(Mistake, match=f"{talk.protocol} has no provider tool 'time_travel'; it has web_search"):
        talk.do("render")
    assert talk.upstream.requests == []


@pytest.mark.covers("chat A.1 100")
def test_a_server_of_tools_is_named_where_each_protocol_wants_it(talk):
    talk = talk(Answer(text="Ok."))
    server = {"url": "https://tools.example/mcp", "name": "tools"}
    if talk.protocol == "chat_completions":
        talk.chat.with_provider_tools({"type": "mcp", **server})
        assert talk.do("render")["tools"] == [{"type": "mcp", **server}]
        return
    talk.chat.with_provider_tools(mcp=server).with_headers({"Anthropic-Beta": "mine, mcp-client-2025-11-20"})
    talk.ask()
    body, headers = talk.bodies[0], talk.upstream.requests[0].headers
    if talk.protocol == "responses":
        assert body["tools"] == [{"type": "mcp", **server}]
    else:
        assert body["tools"] == [{"type": "mcp_toolset", "mcp_server_name": "tools"}]
        assert body["mcp_servers"] == [{"type": "url", **server}]
        assert headers["anthropic-beta"] == "mine,mcp-client-2025-11-20"


@pytest.mark.covers("chat A.1 101")
def test_they_stand_behind_functions_and_what_is_laid_over(talk):
    talk = talk()
    talk.chat.with_tools(weather).with_provider_tools(RAW).with_provider_options({"tools": [{"type": "mine"}]})
    assert [one["type"] for one in talk.do("render")["tools"]] == ["mine", RAW["type"]]
    talk.chat.with_provider_options(None)
    tools = talk.do("render")["tools"]
    assert ("weather" in json.dumps(tools[0]), tools[1]) == (True, RAW)


@pytest.mark.covers("chat A.1 102", "D82")
@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_in_pieces_is_one_message_with_all_blocks_and_tokens(chatting, streamed):
    text: dict[str, Any] = {"type": "text", "text": "Noon.", "citations": None}
    script = [paused(USE), paused(FOUND), Answer(fields={"content": [text]}, input_tokens=10, output_tokens=2)]
    talk = chatting(*script, Answer(text="Yes."))
    talk.chat.with_model("claude-sonnet-5-5").with_provider_tools("web_search")
    told: list[str] = []
    talk.chat.before_message(lambda: told.append("before")).before_request(lambda body: told.append("request"))
    message = talk.ask("When?", on_chunk=print if streamed else None)
    assert sorted(told) == ["before", "request", "request", "request"]
    assert (message.text, message.finish, len(talk.chat)) == ("Noon.", "stop", 2)
    assert [(one.name, one.input, one.result) for one in message.provider_steps] == [
        ("web_search", {"query": "tide"}, [])
    ]
    assert [(one.type, one.id, one.raw) for one in message.provider_steps] == [("server_tool_use", "s1", (USE, FOUND))]
    assert (message.tokens.input, message.tokens.output) == (30, 6)
    assert message.reply.usage == message.tokens
    assert talk.bodies[2]["messages"][-1] == {"role": "assistant", "content": [USE, FOUND]}
    talk.ask("Sure?")
    assert talk.bodies[3]["messages"][1]["content"][:2] == [USE, FOUND]


@pytest.mark.covers("chat A.1 90", "chat A.2 763")
@pytest.mark.parametrize("streamed", [False, True])
def test_an_item_of_compaction_is_kept_and_sent_again_as_it_came(chatting, streamed):
    item: dict[str, Any] = {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"}
    talk = chatting(Answer(fields={"output": [item, ITEM]}), Answer(text="Yes."))
    talk.chat.with_model("gpt-5.6-luna").with_compaction()
    message = talk.ask("One", on_chunk=print if streamed else None)
    assert (message.text, message.said.raw.items) == ("Ok.", (item, ITEM))
    talk.ask("Two")
    assert talk.bodies[1]["input"][1:3] == [item, ITEM]
    assert [one["role"] for one in (talk.bodies[1]["input"][0], talk.bodies[1]["input"][-1])] == ["user", "user"]


@pytest.mark.covers("chat A.1 102", "D82")
@pytest.mark.parametrize("streamed", [False, True])
def test_what_tools_of_responses_did_is_told_and_sent_again(chatting, streamed):
    search: dict[str, Any] = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    search["action"] = {"type": "search", "query": "tide"}
    talk = chatting(Answer(fields={"output": [search, ITEM]}), Answer(text="Yes."))
    talk.chat.with_model("gpt-5.6-luna").with_provider_tools("web_search")
    message = talk.ask("When?", on_chunk=print if streamed else None)
    step = Step(type="web_search_call", name="web_search", id="ws_1", input=search["action"], raw=(search,))
    assert message.provider_steps == (step,)
    talk.ask("Sure?")
    assert talk.bodies[1]["input"][1:3] == [search, ITEM]


@pytest.mark.covers("D82")
def test_uses_of_a_providers_tools_are_counted(chatting):
    usage: dict[str, Any] = {"input_tokens": 10, "output_tokens": 2, "server_tool_use": {"web_search_requests": 3}}
    talk = chatting(*[Answer(text="Ok.", fields={"usage": usage})] * 2)
    talk.chat.with_model("claude-sonnet-5-5")
    assert talk.ask().tokens.provider_tools == {"web_search_requests": 3}
    talk.ask()
    assert talk.chat.tokens.provider_tools == {"web_search_requests": 6}


@pytest.mark.covers("chat A.1 102")
def test_a_provider_that_pauses_for_ever_is_left(chatting):
    talk = chatting(lambda received: paused({"type": "text", "text": "Wait."}))
    talk.chat.with_model("claude-sonnet-5-5")
    assert talk.ask().finish == "pause"
    assert len(talk.upstream.requests) == 9


@pytest.mark.covers("chat A.1 88", "D8", "D14", "D70")
def test_compaction_is_unset_on_with_options_or_off(chatting):
    chat = chatting().chat
    assert chat.compaction is None
    assert chat.with_compaction().compaction == {}
    assert chat.with_compaction(at=50_000, pause_after=True).compaction == {"at": 50_000, "pause_after": True}
    assert chat.with_compaction(False).compaction is False
    with pytest.raises(
        Mistake, match=r"it has at, instructions, pause_after; did you mean at\?; others go into with_provider"
    ):
        chat.with_compaction(att=5)
    with pytest.raises(Mistake, match="with_compaction takes True, False or options, not NoneType"):
        chat.with_compaction(None)


@pytest.mark.covers("chat A.1 89", "D71", "D72")
def test_compaction_is_asked_for_in_each_protocols_way(talk, caplog):
    talk = talk(Answer(text="Ok."))
    talk.chat.with_compaction(at=50_000, instructions="Keep numbers.").with_headers({"anthropic-beta": "mine"})
    with caplog.at_level("DEBUG"):
        talk.ask()
    body, headers = talk.bodies[0], talk.upstream.requests[0].headers
    dropped = [one.message for one in caplog.records if "is dropped" in one.message]
    if talk.protocol == "anthropic":
        (edit,) = body["context_management"]["edits"]
        assert edit["trigger"] == {"type": "input_tokens", "value": 50_000}
        assert (edit["instructions"], headers["anthropic-beta"], dropped) == (
            "Keep numbers.",
            "mine,compact-2026-01-12",
            [],
        )
    elif talk.protocol == "responses":
        assert body["context_management"] == [{"type": "compaction", "compact_threshold": 50_000}]
        assert dropped == ["an option of compaction is dropped: the protocol has none"]
    else:
        assert "context_management" not in body
        assert dropped == ["compaction is dropped: the protocol has none"]
    talk.chat.with_compaction(False)
    assert "context_management" not in talk.do("render")


@pytest.mark.covers("chat A.1 89")
def test_a_beta_that_the_caller_names_too_is_sent_once(chatting):
    talk = chatting(Answer(text="Ok."))
    talk.chat.with_model("claude-sonnet-5-5").with_compaction().with_headers({"anthropic-beta": "compact-2026-01-12,a"})
    talk.ask()
    assert talk.upstream.requests[0].headers["anthropic-beta"] == "compact-2026-01-12,a"


@pytest.mark.covers("chat A.1 89", "D71", "D72")
def test_openrouter_condenses_by_a_plugin_that_has_no_options(chatting, caplog):
    talk = chatting(Answer(text="Ok."))
    talk.chat.with_model("some/model", provider="openrouter", assume_model_exists=True).with_compaction(at=50_000)
    with caplog.at_level("DEBUG"):
        talk.ask()
    assert talk.bodies[0]["plugins"] == [{"id": "context-compression"}]
    assert "an option of compaction is dropped: the protocol has none" in [one.message for one in caplog.records]
    talk.chat.with_compaction(False)
    assert "plugins" not in talk.do("render")


@pytest.mark.covers("chat A.1 90", "chat A.2 763")
@pytest.mark.parametrize("streamed", [False, True])
def test_a_block_of_compaction_is_kept_and_sent_again_as_it_came(chatting, streamed):
    block: dict[str, Any] = {"type": "compaction", "content": "sealed"}
    text: dict[str, Any] = {"type": "text", "text": "Ok.", "citations": None}
    talk = chatting(Answer(fields={"content": [block, text]}), Answer(text="Yes."))
    talk.chat.with_model("claude-sonnet-5-5").with_compaction()
    message = talk.ask("One", on_chunk=print if streamed else None)
    assert message.said.raw.items[0]["content"] == [block, text]
    talk.ask("Two")
    assert talk.bodies[1]["messages"][1] == {"role": "assistant", "content": [block, text]}
    assert [role for role, _ in talk.said] == ["user", "assistant"] * 2
