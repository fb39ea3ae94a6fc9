"""Answers of each protocol that hold what providers send beside words, for the tests of parsing and streaming."""

from everlog.testing.upstream.answers import Answer, body_of

SIMPLE = {
    "words": Answer(text="Grüße, \U0001f980!"),
    "nothing": Answer(),
    "cut": Answer(text="and then", finish="length"),
    "a call": Answer(calls=(("call_0", "read", {"path": "a.txt"}),)),
    "a call without arguments": Answer(calls=(("call_0", "list", {}),)),
    "words and calls": Answer(
        text="I look.", calls=(("call_0", "read", {"path": "a"}), ("call_1", "list", {"n": 1.5}))
    ),
    "thinking": Answer(thinking="What is meant?\nHm.", text="Heron.", calls=(("t1", "read", {"path": "ü"}),)),
    "cached": Answer(text="ok", input_tokens=1000, cached_tokens=900),
}

RICH = {
    "chat_completions": {
        "annotations": {
            "id": "gen-1",
            "provider": "Somebody",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "logprobs": None,
                    "message": {
                        "role": "assistant",
                        "content": "See there.",
                        "refusal": None,
                        "annotations": [
                            {
                                "type": "url_citation",
                                "url_citation": {
                                    "url": "https://a.example",
                                    "title": "A",
                                    "start_index": 0,
                                    "end_index": 3,
                                },
                            }
                        ],
                        "reasoning_details": [{"index": 0, "type": "reasoning.text", "text": "Hm.", "signature": "s"}],
                    },
                }
            ],
            "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7, "cost": 0.25},
        },
    },
    "responses": {
        "search and an item of tomorrow": {
            **body_of(Answer(text="Found."), "responses", "m"),
            "output": [
                {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "sealed"},
                {
                    "id": "ws_1",
                    "type": "web_search_call",
                    "status": "completed",
                    "action": {"type": "search", "query": "q"},
                },
                {"id": "xx_1", "type": "x_tomorrow", "payload": {"deep": [1, None]}},
                {
                    "id": "msg_1",
                    "type": "message",
                    "status": "completed",
                    "role": "assistant",
                    "content": [
                        {
                            "type": "output_text",
                            "text": "Found.",
                            "logprobs": [],
                            "annotations": [
                                {
                                    "type": "url_citation",
                                    "url": "https://a.example",
                                    "title": "A",
                                    "start_index": 0,
                                    "end_index": 5,
                                }
                            ],
                        }
                    ],
                },
            ],
        },
    },
    "anthropic": {
        "search and citations": {
            **body_of(Answer(text="x"), "anthropic", "m"),
            "content": [
                {"type": "thinking", "thinking": "Search.", "signature": "EqQB"},
                {"type": "redacted_thinking", "data": "EmwK"},
                {"type": "text", "text": "I search.", "citations": None},
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "herons"}},
                {
                    "type": "web_search_tool_result",
                    "tool_use_id": "srvtoolu_1",
                    "content": [
                        {
                            "type": "web_search_result",
                            "url": "https://a.example",
                            "title": "A",
                            "encrypted_content": "E",
                            "page_age": None,
                        }
                    ],
                },
                {
                    "type": "text",
                    "text": "Herons wade",
                    "citations": [
                        {
                            "type": "web_search_result_location",
                            "url": "https://a.example",
                            "title": "A",
                            "encrypted_index": "E",
                            "cited_text": "wade",
                        }
                    ],
                },
                {"type": "text", "text": " and fish.", "citations": None},
                {"type": "x_tomorrow", "payload": {"deep": [1, None]}},
            ],
        },
        "compaction": {
            **body_of(Answer(text="x"), "anthropic", "m"),
            "content": [{"type": "compaction", "content": "So far: herons."}, {"type": "text", "text": "On we go."}],
        },
    },
}


def bodies(protocol):
    """Return named bodies of responses."""
    return {name: body_of(answer, protocol, "m-1") for name, answer in SIMPLE.items()} | RICH[protocol]


CASES = [(protocol, name) for protocol in ("chat_completions", "responses", "anthropic") for name in bodies(protocol)]
