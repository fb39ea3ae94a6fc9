"""Which replies can be said again from their words and calls alone."""

import pytest

from everlog.protocols.exchange import Raw
from everlog.protocols.plain import is_plain

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TEXT = {"type": "text", "text": "Hi"}
OUTPUT = {"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}


@pytest.mark.parametrize(
    ("protocol", "item", "plain"),
    [
        ("chat_completions", {"role": "assistant", "content": "Hi", "refusal": None}, True),
        ("chat_completions", {"role": "assistant", "content": None, "tool_calls": [CALL], "annotations": []}, True),
        ("chat_completions", {"role": "assistant", "content": "Hi", "reasoning_content": "Hm"}, False),
        ("chat_completions", {"role": "assistant", "content": "Hi", "reasoning_content": ""}, True),
        ("chat_completions", {"role": "assistant", "tool_calls": [{**CALL, "extra_content": {"signature": "s"}}]}, False),
        ("chat_completions", {"role": "assistant", "content": [TEXT]}, False),
        ("chat_completions", {"role": "assistant", "content": None, "audio": {"id": "a"}}, False),
        ("anthropic", {"role": "assistant", "content": [TEXT, {"type": "tool_use", "id": "c", "name": "f", "input": {}}]}, True),
        ("anthropic", {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm", "signature": "s"}, TEXT]}, False),
        ("anthropic", {"role": "assistant", "content": [{**TEXT, "citations": [{"type": "page_location"}]}]}, False),
        ("anthropic", {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "web_search"}]}, False),
        ("responses", {"type": "message", "role": "assistant", "content": [OUTPUT]}, True),
        ("responses", {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, True),
        ("responses", {"type": "reasoning", "id": "r", "encrypted_content": "e"}, False),
        ("responses", {"type": "message", "role": "assistant", "content": [{**OUTPUT, "annotations": [{"type": "url"}]}]}, False),
        ("gemini", {"role": "model"}, False),
    ],
)  # fmt: skip
def test_a_reply_of_words_and_calls_is_plain_and_all_else_is_not(protocol, item, plain):
    assert is_plain(Raw(protocol=protocol, items=(item,))) is plain
