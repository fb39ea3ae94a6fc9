"""The terms of a prompt that memory makes of a client's request, and the body that it becomes."""

import pytest

import everlog
from everlog import context
from everlog.conversation.remembering.asking import threshold_tokens
from everlog.messages import Message
from everlog.protocols import FORMATS
from everlog.protocols.shapes import dumps
from everlog.registry import Model
from everlog.surfaces.proxy.recording.profiles.blocks import LEFT_OUT
from everlog.surfaces.proxy.remembering.terms import (
    Client,
    Manner,
    beside,
    body_of,
    terms_of,
    window_of,
)

UNKNOWN = Model(id="m", provider="p")
CLAUDE = Model(id="m", provider="anthropic")
MARK = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        (UNKNOWN, 20_000),
        (Model(id="m", provider="p", context_tokens=200_000), 20_000),
        (Model(id="m", provider="p", context_tokens=32_000), 16_000),
        (Model(id="m", provider="p", context_tokens=8_001), 4_000),
        (Model(id="m", provider="p", input_tokens=10_000), 5_000),
    ],
)
def test_memory_begins_at_the_budget_or_at_half_of_the_window(model, tokens):
    assert threshold_tokens(20_000, model) == tokens


@pytest.mark.parametrize(
    ("model", "body", "tokens"),
    [
        (UNKNOWN, {"max_tokens": 10}, None),
        (Model(id="m", provider="p", context_tokens=100_000), {}, 100_000),
        (Model(id="m", provider="p", context_tokens=100_000, output_tokens=8_000), {}, 92_000),
        (Model(id="m", provider="p", context_tokens=100_000, output_tokens=8_000), {"max_tokens": 20_000}, 80_000),
        (Model(id="m", provider="p", context_tokens=100_000), {"max_output_tokens": 5_000}, 95_000),
        (Model(id="m", provider="p", context_tokens=100_000), {"max_completion_tokens": 5_000}, 95_000),
        (Model(id="m", provider="p", context_tokens=100_000), {"max_tokens": 99_000}, 50_000),
        (Model(id="m", provider="p", context_tokens=100_000), {"max_tokens": "many"}, 100_000),
        (Model(id="m", provider="p", context_tokens=100_000, input_tokens=70_000), {"max_tokens": 10_000}, 70_000),
        (Model(id="m", provider="p", input_tokens=70_000), {}, 70_000),
    ],
)
def test_a_window_is_what_the_answer_leaves_of_it_and_half_of_it_at_least(model, body, tokens):
    assert window_of(model, body) == tokens


def test_what_stands_beside_the_first_message_is_found_behind_instructions():
    rule = Message(kind="system", text="Be brief.", meta={LEFT_OUT: ["not this"]})
    first = Message(kind="user", text="Hi", meta={LEFT_OUT: ["<rules>", "<date>"]})
    later = Message(kind="user", text="So?", meta={LEFT_OUT: ["<moved>"]})
    assert beside([rule, first, later]) == ("<rules>", "<date>")
    assert beside([Message(kind="user", text="Hi"), later]) == ()
    assert beside([rule]) == ()


def made(body, manner):
    """Return what becomes of a client's second request of Anthropic in a thread that is longer than its budget."""
    form = FORMATS["anthropic"]
    client = Client(protocol=form, body=body, leading=tuple(form.parse_history({**body, "messages": []})))
    with everlog.open(":memory:") as home:
        thread = home.thread("talk")
        for n in range(40):
            thread.append("user" if n % 2 == 0 else "assistant", f"{n} " + "words " * 60)
        thread.append("user", "What was it?")
        thread.pump()
        terms = _terms(client, manner, 40)
        context.prepare(home.store, home.name, thread.id, terms)
        thread.append("assistant", "Words.")
        thread.append("user", "And now?")
        terms = _terms(client, manner, 42)
        return body_of(client, context.prepare(home.store, home.name, thread.id, terms), terms, manner)


def _terms(client, manner, open_at):
    return terms_of(client, mode="tree", budget_tokens=1_000, model=CLAUDE, family="c", manner=manner, open_at=open_at)


@pytest.mark.parametrize(("tools", "blocks"), [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)])
def test_there_are_four_marks_at_most_and_those_of_a_clients_tools_and_instructions_stay(tools, blocks):
    body = {
        "model": "m",
        "max_tokens": 9,
        "tools": [{"name": f"tool_{n}", "input_schema": {"type": "object"}, **MARK} for n in range(tools)],
        "system": [{"type": "text", "text": f"Rule {n}.", **MARK} for n in range(blocks)] or "Be brief.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "And now?", **MARK}]}],
    }
    found = made(body, Manner(marking="blocks"))
    assert found["tools"][:tools] == body["tools"]
    if blocks:
        assert found["system"][:blocks] == body["system"]
    own = tools + blocks
    marks = [dumps(found[name]).count('"cache_control"') for name in ("tools", "system", "messages")]
    assert marks == [tools, blocks or 1, min(3, 4 - max(own, 1))]
    if marks[2]:
        assert "cache_control" in dumps(found["messages"][-1]), "the end is marked as long as there is a mark for it"
