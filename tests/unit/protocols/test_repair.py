"""Any history becomes lawful, by rules that are written down a second time in `rules.py`."""

import copy
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from everlog.protocols import FORMATS
from everlog.protocols.exchange import Settings
from everlog.protocols.shapes import encoded
from tests.unit.protocols.histories import BODIES, histories, talks
from tests.unit.protocols.rules import RULES

each_protocol = pytest.mark.parametrize("name", sorted(FORMATS))
SETTINGS = Settings(model="m")


@each_protocol
@given(data=st.data())
def test_any_history_is_lawful_after_repair(name, data):
    body = data.draw(BODIES[name])
    assert RULES[name](FORMATS[name].repair(body)) == []


@each_protocol
@given(data=st.data())
def test_a_lawful_body_is_returned_as_it_is(name, data):
    repaired = FORMATS[name].repair(data.draw(BODIES[name]))
    assert FORMATS[name].repair(repaired) is repaired


@each_protocol
@given(data=st.data())
def test_repair_changes_nothing_that_it_was_given(name, data):
    body = data.draw(BODIES[name])
    before = copy.deepcopy(body)
    FORMATS[name].repair(body)
    assert body == before


@each_protocol
@given(data=st.data())
def test_repair_touches_the_history_alone_and_keeps_the_words_of_people(name, data):
    body = data.draw(BODIES[name])
    repaired = FORMATS[name].repair(body)
    assert list(repaired) == list(body)
    assert repaired["x_future"] == body["x_future"]
    words = [text for text in spoken(name, body, "user") if text.strip()]
    kept = spoken(name, repaired, "user")
    assert [text for text in kept if text.strip() and text != "…"] == words


@pytest.mark.covers("chat A.2 269")
@each_protocol
@given(history=histories)
def test_any_history_of_ours_renders_lawful(name, history):
    assert RULES[name](FORMATS[name].render_request(history, SETTINGS)) == []


@each_protocol
@given(talk=talks())
def test_a_lawful_talk_needs_no_repair(name, talk):
    """Law 9: what was together when it was said is together when it is sent, untouched."""
    form = FORMATS[name]
    body = form.with_history({"model": "m"} | ({"input": []} if name == "responses" else {"messages": []}), talk)
    assert form.repair(body) is body


@pytest.mark.covers("chat A.1 87", "chat A.2 706")
@each_protocol
@given(talk=talks(), data=st.data())
def test_a_history_that_grows_keeps_the_bytes_of_its_beginning(name, talk, data):
    """Fact 87. The beginning ends where a request was sent: behind the user's words or the results of a round."""
    ends = [i + 1 for i, one in enumerate(talk) if one.messages[-1].kind in {"user", "tool_result"}]
    end = data.draw(st.sampled_from(ends))
    form = FORMATS[name]
    field = "input" if name == "responses" else "messages"
    short, long = (form.render_request(history, SETTINGS)[field] for history in (talk[:end], talk))
    assert encoded(long).startswith(encoded(short)[:-1])
    assert encoded(form.render_request(talk, SETTINGS)) == encoded(form.render_request(talk, SETTINGS))


@each_protocol
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "messages",
                        "input",
                        "role",
                        "content",
                        "type",
                        "id",
                        "call_id",
                        "tool_calls",
                        "system",
                        "assistant",
                        "text",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
@example(value={"messages": [1, None, {"role": "assistant", "tool_calls": 3}], "input": [None, {"type": 4}]})
def test_what_is_no_history_is_left_for_the_provider_to_refuse(name, value):
    body = value if isinstance(value, dict) else {"messages": value, "input": value}
    form = FORMATS[name]
    json.dumps(form.repair(body))
    assert form.repair(form.repair(body)) == form.repair(body)
    assert encoded(form.with_history(body, form.parse_history(body))) == encoded(body)


def spoken(name, body, role):
    """Return all texts that somebody said, in order, leaving out results."""
    found = []
    for item in body["input" if name == "responses" else "messages"]:
        if item.get("role") == role:
            content = item["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            found += [block["text"] for block in blocks if "text" in block]
    return found


def test_a_result_belongs_to_the_latest_open_call_of_its_id():
    """Servers that call each first call `call_0`; each round keeps its own result."""
    messages = []
    for answer in ("one", "two"):
        call = {"id": "call_0", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_0", "content": answer},
        ]
    body = {"messages": messages}
    assert FORMATS["chat_completions"].repair(body) is body
    cut = {"messages": [messages[0], {"role": "user", "content": "again"}, *messages]}
    assert FORMATS["chat_completions"].repair(cut)["messages"] == cut["messages"][1:]
    items = [
        {"type": "function_call", "call_id": "call_0", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_0", "output": "one"},
    ] * 2
    repaired = FORMATS["responses"].repair({"input": items})["input"]
    assert [item["call_id"] for item in repaired] == ["call_0", "call_0", "call_0_2", "call_0_2"]


def test_results_far_from_their_round_come_back_to_it():
    body = {
        "messages": [
            {"role": "user", "content": "read both"},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "a", "name": "read", "input": {}},
                    {"type": "tool_use", "id": "b", "name": "read", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "text", "text": "wait"}, {"type": "tool_result", "tool_use_id": "b"}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]},
        ]
    }
    assert FORMATS["anthropic"].repair(body)["messages"][2:] == [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "b"},
                {"type": "tool_result", "tool_use_id": "a"},
                {"type": "text", "text": "wait"},
            ],
        }
    ]


def test_thinking_of_a_cut_round_goes_with_its_call():
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    cut = [thinking, {"type": "text", "text": "I look."}, {"type": "tool_use", "id": "a", "name": "read", "input": {}}]
    body = {"messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": cut}]}
    assert FORMATS["anthropic"].repair(body)["messages"][1]["content"] == [{"type": "text", "text": "I look."}]
    whole = {"messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": cut[:2]}]}
    assert FORMATS["anthropic"].repair(whole) is whole


@pytest.mark.parametrize("rest", [{"previous_response_id": "resp_1"}, {"conversation": "conv_1"}])
def test_outputs_of_calls_that_the_server_holds_are_left_alone(rest):
    body = {**rest, "input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}
    assert FORMATS["responses"].repair(body) is body
    assert FORMATS["responses"].repair({"input": body["input"]})["input"] == []


def test_outputs_may_answer_calls_that_are_only_referred_to():
    body = {
        "input": [
            {"type": "item_reference", "id": "fc_1"},
            {"type": "function_call_output", "call_id": "c", "output": "x"},
        ]
    }
    assert FORMATS["responses"].repair(body) is body


def test_a_step_of_the_provider_may_wait_for_the_callers_own_results():
    """pause_turn, and calls that a program at the provider makes."""
    step = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {}}
    call = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
    body = {
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [step, call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]},
        ]
    }
    assert FORMATS["anthropic"].repair(body) is body


@pytest.mark.covers("chat A.1 85")
def test_the_last_four_marks_stay():
    mark = {"cache_control": {"type": "ephemeral"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": str(i), **mark}]} for i in range(4)]
    body = {
        "tools": [{"name": "read", **mark}],
        "system": [{"type": "text", "text": "s", **mark}],
        "messages": messages,
    }
    repaired = FORMATS["anthropic"].repair(body)
    assert "cache_control" not in repaired["tools"][0]
    assert "cache_control" not in repaired["system"][0]
    assert repaired["messages"] == messages
