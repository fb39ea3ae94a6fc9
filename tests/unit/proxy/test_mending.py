"""What upstreams refuse, in their own words, and what is tried then.

The words are those of public reports: vLLM, SGLang, llama.cpp, LM Studio, Ollama, OpenRouter, OpenAI, Anthropic, DeepSeek,
Moonshot, Groq, Cerebras, Mistral, Fireworks.
"""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.protocols import FORMATS
from everlog.protocols.exchange import Fault
from everlog.protocols.shapes import Record
from everlog.surfaces.proxy.remembering.learned import Learned
from everlog.surfaces.proxy.remembering.mending import ACTS, LASTING, OF_THREAD, fault_in, mended, without
from everlog.surfaces.proxy.remembering.standing_words import placed
from tests.unit.protocols.histories import anthropic_bodies, chat_bodies, responses_bodies

HI = {"role": "user", "content": "hi"}
MARK = {"cache_control": {"type": "ephemeral"}}


def tool(name):
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


CHAT: Record = {
    "model": "m",
    "messages": [
        {
            "role": "developer",
            "content": [{"type": "text", "text": "A", "prompt_cache_breakpoint": {"mode": "explicit"}}],
        },
        HI,
        {"role": "assistant", "content": "yes", "reasoning_content": "hm"},
        {"role": "system", "content": "B"},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": "no"},
        {"role": "user", "content": [{"type": "text", "text": "go", **MARK}]},
    ],
    "tools": [tool("everlog_zoom")],
    "tool_choice": "auto",
}
ANTHROPIC: Record = {
    "model": "m",
    "system": [{"type": "text", "text": "A", **MARK}],
    "thinking": {"type": "enabled", "budget_tokens": 2000},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "messages": [
        HI,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "a", "name": "read", "input": {}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "1", **MARK}]},
    ],
    "tools": [{"name": "read", "input_schema": {}}, {"name": "everlog_zoom", "input_schema": {}, **MARK}],
}
RESPONSES: Record = {
    "model": "m",
    "instructions": "A",
    "include": ["reasoning.encrypted_content"],
    "input": [
        HI,
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "1"},
    ],
    "tools": [{"type": "function", "name": "everlog_zoom"}],
}
BODIES: dict[str, Record] = {"chat_completions": CHAT, "anthropic": ANTHROPIC, "responses": RESPONSES}


def tried(protocol, body, words, status=400):
    return mended(protocol, body, status, Fault(type="invalid_request_error", message=words))


def fault_of(protocol, answered):
    found = fault_in(protocol, answered)
    assert found is not None
    return found


def openai(words, **more):
    return {"error": {"message": words, "type": "invalid_request_error", "param": None, "code": None, **more}}


def claude(words):
    return {"type": "error", "error": {"type": "invalid_request_error", "message": words}, "request_id": "req_1"}


KNOWN = [
    ("chat_completions", 400, openai("System message must be at the beginning."), "merged"),
    ("chat_completions", 500, openai("system message must be at the beginning"), "merged"),
    ("chat_completions", 400, openai("Chat template error: System message must be at the beginning."), "merged"),
    (
        "chat_completions",
        400,
        openai(
            "Failed to deserialize the JSON body into the target type: messages[0].role: unknown variant `developer`, "
            "expected one of `system`, `user`, `assistant`, `tool` at line 1 column 85"
        ),
        "merged",
    ),
    ("chat_completions", 422, {"detail": "Input should be 'system', 'user', 'assistant', or 'tool'"}, "merged"),
    (
        "chat_completions",
        400,
        openai("Input tag 'developer' found using 'role' does not match any of the expected tags: 'system', 'user'"),
        "merged",
    ),
    (
        "chat_completions",
        400,
        openai("Conversation roles must alternate user/assistant/user/assistant/..."),
        "merged",
    ),
    (
        "chat_completions",
        400,
        {"object": "error", "message": "System role not supported", "type": "BadRequestError", "code": 400},
        "none",
    ),
    (
        "chat_completions",
        400,
        openai(
            "Unsupported value: 'messages[0].role' does not support 'system' with this model.", code="unsupported_value"
        ),
        "none",
    ),
    (
        "chat_completions",
        400,
        {"error": {"code": 400, "message": "Developer instruction is not enabled for models/gemma-3-27b-it"}},
        "none",
    ),
    ("chat_completions", 400, {"error": "registry.ollama.ai/library/gemma3:4b does not support tools"}, "tools"),
    (
        "chat_completions",
        400,
        {
            "object": "error",
            "message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
            "type": "BadRequestError",
            "code": 400,
        },
        "tools",
    ),
    (
        "chat_completions",
        404,
        {"error": {"message": "No endpoints found that support tool use. To learn more about provider …", "code": 404}},
        "tools",
    ),
    (
        "chat_completions",
        400,
        openai(
            "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length "
            "131 instead.",
            code="array_above_max_length",
        ),
        "tools",
    ),
    ("responses", 400, openai("Invalid schema for function 'everlog_zoom': …"), "tools"),
    (
        "chat_completions",
        400,
        {
            "error": {
                "object": "error",
                "type": "invalid_request_error",
                "message": "Error from provider: Extra inputs are not permitted, field: 'messages[0].cache_control'",
            }
        },
        "marks",
    ),
    (
        "chat_completions",
        400,
        openai("Unknown parameter: 'messages[0].content[0].prompt_cache_breakpoint'.", code="unknown_parameter"),
        "marks",
    ),
    ("anthropic", 400, claude("messages.0.content.0.text.cache_control: Extra inputs are not permitted"), "marks"),
    ("anthropic", 400, claude("A maximum of 4 blocks with cache_control may be provided. Found 5."), "misplaced"),
    (
        "anthropic",
        400,
        claude("messages.1.content.0.thinking.cache_control: Extra inputs are not permitted"),
        "misplaced",
    ),
    (
        "anthropic",
        400,
        claude(
            "messages.5.content.1: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
            "modified. These blocks must remain as they were in the original response."
        ),
        "reasoning",
    ),
    (
        "anthropic",
        400,
        claude(
            "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When "
            "`thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost "
            "set of `tool_use` and `tool_result` blocks)."
        ),
        "reasoning",
    ),
    ("anthropic", 400, claude("messages.1.content.0: Invalid `signature` in `thinking` block"), "reasoning"),
    (
        "anthropic",
        400,
        claude(
            "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different "
            'conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
        ),
        "reasoning",
    ),
    (
        "anthropic",
        400,
        claude("The `content[].thinking` in the thinking mode must be passed back to the API."),
        "unthinking",
    ),
    (
        "chat_completions",
        400,
        openai("The `reasoning_content` in the thinking mode must be passed back to the API."),
        "blank",
    ),
    (
        "chat_completions",
        400,
        {
            "code": 20015,
            "message": "thinking is enabled but reasoning_content is missing in assistant tool call message",
        },
        "blank",
    ),
    (
        "chat_completions",
        400,
        openai(
            "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property "
            "'reasoning_content' is unsupported)]"
        ),
        "thoughts",
    ),
    (
        "chat_completions",
        400,
        {
            "message": "messages.2.assistant.reasoning_content: property 'messages.2.assistant.reasoning_content' is unsupported",
            "type": "invalid_request_error",
        },
        "thoughts",
    ),
    (
        "chat_completions",
        422,
        {
            "detail": [
                {
                    "type": "extra_forbidden",
                    "loc": ["body", "messages", 2, "assistant", "reasoning_content"],
                    "msg": "Extra inputs are not permitted",
                }
            ]
        },
        "thoughts",
    ),
    (
        "responses",
        400,
        openai("Item 'rs_0c38' of type 'reasoning' was provided without its required following item.", param="input"),
        "items",
    ),
    (
        "responses",
        400,
        openai("Item 'fc_07dd' of type 'function_call' was provided without its required 'reasoning' item: 'rs_07'."),
        "items",
    ),
    (
        "responses",
        400,
        openai("The encrypted content gAAA...DQ== could not be verified.", code="invalid_encrypted_content"),
        "items",
    ),
    (
        "responses",
        404,
        openai("Item with id 'rs_0de7' not found. Items are not persisted when `store` is set to false."),
        "items",
    ),
    ("responses", 400, openai("Encrypted content is not supported with this model.", param="include"), "sealed"),
    (
        "chat_completions",
        400,
        openai("This model's maximum context length is 128000 tokens. However, …", code="context_length_exceeded"),
        "too_long",
    ),
    ("anthropic", 400, claude("prompt is too long: 208310 tokens > 200000 maximum"), "too_long"),
    (
        "chat_completions",
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size",
                "type": "exceed_context_size_error",
            }
        },
        "too_long",
    ),
    (
        "chat_completions",
        400,
        openai(
            "Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with context "
            "length of only 7866 tokens, which is not enough."
        ),
        "too_long",
    ),
    ("responses", None, openai("Your input exceeds the context window of this model."), "too_long"),
]


@pytest.mark.parametrize(("protocol", "status", "answered", "reason"), KNOWN)
def test_what_is_refused_is_known_by_the_words_of_whoever_refuses_it(protocol, status, answered, reason):
    body = BODIES[protocol]
    found = mended(protocol, body, status, fault_of(protocol, answered))
    assert found is not None
    assert found.reason == reason
    assert (found.body is body) == (reason == "too_long")


@pytest.mark.parametrize(("protocol", "status", "answered", "reason"), KNOWN)
def test_each_refusal_is_mended_a_few_times_at_most_and_then_it_is_the_clients(protocol, status, answered, reason):
    if reason == "too_long":
        return
    body, tries = BODIES[protocol], 0
    while (found := mended(protocol, body, status, fault_of(protocol, answered))) is not None:
        body, tries = found.body, tries + 1
        assert tries <= 3
    assert mended(protocol, body, status, fault_of(protocol, answered)) is None


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "Unsupported parameter: 'max_tokens' is not supported with this model."),
        (400, "Invalid 'temperature': decimal above maximum value."),
        (404, "The model `gpt-9` does not exist"),
        (401, "System role not supported"),
        (429, "Rate limit reached for system messages must be first"),
        (529, "Overloaded"),
        (500, "Internal server error"),
    ],
)
def test_nothing_is_tried_for_a_refusal_that_nobody_knows(status, words):
    assert tried("chat_completions", CHAT, words, status) is None


def test_a_clients_own_tools_stay():
    found = tried("anthropic", ANTHROPIC, "this model does not support tools")
    assert found.body["tools"] == [{"name": "read", "input_schema": {}}]
    assert tried("anthropic", found.body, "this model does not support tools") is None


def test_without_tools_of_the_client_no_word_of_tools_is_left():
    found = tried("chat_completions", CHAT, "m does not support tools")
    assert found.body.keys() == {"model", "messages"}


def test_reasoning_of_turns_that_are_over_goes_first_and_an_open_round_keeps_its_own():
    first, reply, result = ANTHROPIC["messages"]
    ended = {"role": "assistant", "content": [{"type": "text", "text": "so"}]}
    called = {**reply, "content": [reply["content"][0], {**reply["content"][1], "id": "b"}]}
    answered = {**result, "content": [{"type": "tool_result", "tool_use_id": "b", "content": "2"}]}
    talk = {**ANTHROPIC, "messages": [first, reply, result, ended, HI, called, answered]}
    found = tried("anthropic", talk, "messages.1.content.0: Invalid `signature` in `thinking` block")
    assert found.reason == "past"
    assert found.body["thinking"] == ANTHROPIC["thinking"]
    without_past = {**reply, "content": reply["content"][1:]}
    assert found.body["messages"] == [first, without_past, result, ended, HI, called, answered]


def test_a_reply_whose_thoughts_are_missing_has_blank_ones():
    words = "thinking is enabled but reasoning_content is missing in assistant tool call message at index 5"
    found = tried("chat_completions", CHAT, words)
    thoughts = [one.get("reasoning_content") for one in found.body["messages"] if one["role"] == "assistant"]
    assert thoughts == ["hm", " "]
    assert tried("chat_completions", found.body, words).reason == "unthinking"


def test_a_round_that_is_open_goes_on_without_thinking():
    words = "Invalid `signature` in `thinking` block"
    body = tried("anthropic", ANTHROPIC, words).body
    assert body["thinking"] == {"type": "disabled"}
    assert "context_management" not in body
    assert body["messages"][1]["content"] == ANTHROPIC["messages"][1]["content"][1:]


def test_in_a_new_turn_the_model_thinks_again():
    ended = {"role": "assistant", "content": [{"type": "text", "text": "so"}]}
    talk = {**ANTHROPIC, "messages": [*ANTHROPIC["messages"], ended, HI]}
    words = "Invalid `signature` in `thinking` block"
    first = tried("anthropic", talk, words)
    assert (first.reason, first.body["thinking"]) == ("past", ANTHROPIC["thinking"])
    second = tried("anthropic", first.body, words)
    assert (second.reason, second.body["thinking"]) == ("unthinking", {"type": "disabled"})


def test_items_of_responses_do_not_name_reasoning_that_is_gone():
    words = "was provided without its required following item"
    items = tried("responses", RESPONSES, words).body["input"]
    assert items == [
        HI,
        {name: RESPONSES["input"][2][name] for name in ("type", "call_id", "name", "arguments")},
        RESPONSES["input"][3],
    ]


def test_two_turns_of_one_side_in_a_row_become_one():
    body = {"messages": [HI, HI, {"role": "assistant", "content": "a"}, HI]}
    words = "Conversation roles must alternate user/assistant/user/assistant/..."
    found = tried("chat_completions", body, words)
    assert found.reason == "turns"
    assert found.body["messages"][0] == {"role": "user", "content": "hi\n\nhi"}


bodies = st.one_of(
    st.tuples(st.just("chat_completions"), chat_bodies()),
    st.tuples(st.just("anthropic"), anthropic_bodies()),
    st.tuples(st.just("responses"), responses_bodies()),
)


@given(case=bodies, reason=st.sampled_from(sorted(ACTS)))
def test_what_was_left_out_once_is_not_there_to_be_left_out(case, reason):
    protocol, body = case
    body = FORMATS[protocol].repair(body)
    before = repr(body)
    once = ACTS[reason](protocol, body)
    assert ACTS[reason](protocol, once) is once
    assert repr(body) == before


@given(case=bodies, reason=st.sampled_from(["past", "reasoning", "items"]))
def test_a_history_without_reasoning_is_lawful(case, reason):
    protocol, body = case
    body = FORMATS[protocol].repair(body)
    done = ACTS[reason](protocol, body)
    assert FORMATS[protocol].repair(done) is done


@pytest.mark.parametrize("how", ["merged", "none"])
def test_what_was_mended_and_what_is_known_from_then_on_are_the_same_bytes(how):
    first = placed("chat_completions", CHAT, "Words of memory.")
    assert without("chat_completions", first, frozenset({how})) == placed(
        "chat_completions", CHAT, "Words of memory.", how
    )


def test_what_a_model_refuses_is_known_for_it_and_what_of_a_thread_for_that():
    learned = Learned()
    learned.note("up", "m", "t1", "none")
    learned.note("up", "m", "t1", "past")
    learned.note("up", "m", "t1", "unthinking")
    learned.note("up", "m", "t1", "too_long")
    assert learned.of("up", "m", "t1") == {"none", "past"}
    assert learned.of("up", "m", "t2") == {"none"}
    assert learned.of("up", "other", "t1") == frozenset()
    assert {"none", "tools", "marks"} <= LASTING
    assert not LASTING & OF_THREAD


def test_no_more_is_remembered_than_there_is_room_for():
    learned = Learned(most=2)
    for model in ("a", "b", "c"):
        learned.note("up", model, "t", "none")
    assert [bool(learned.of("up", model, "t")) for model in ("a", "b", "c")] == [False, True, True]


def test_a_window_is_known_by_the_least_that_was_too_much_and_as_many_as_there_is_room_for():
    learned = Learned(most=2)
    for tokens in (900, 1200, 800):
        learned.outgrew("up", "a", tokens)
    assert (learned.window("up", "a"), learned.window("other", "a")) == (800, None)
    learned.outgrew("up", "b", 500)
    learned.outgrew("up", "c", 500)
    assert [learned.window("up", model) for model in ("a", "b", "c")] == [None, 500, 500]


def test_many_threads_learn_at_once():
    learned = Learned(most=50)

    def act(number):
        for n in range(200):
            learned.note("up", f"m{n % 60}", f"t{number}", "tools")
            assert learned.of("up", f"m{n % 7}", "t") <= {"tools"}

    threads = [threading.Thread(target=act, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(5)
    assert learned.of("up", "m19", "t0") == {"tools"}


def test_an_answer_that_reports_nothing_has_no_fault():
    assert fault_in("chat_completions", {"choices": []}) is None
