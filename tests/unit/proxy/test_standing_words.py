"""Where memory's words stand in a body, by how a model takes system messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.protocols import FORMATS
from everlog.surfaces.proxy.remembering.standing_words import fitted, placed

WORDS = "Lines with numbers stand for what was said before."
HI = {"role": "user", "content": "hi"}
YES = {"role": "assistant", "content": "yes"}
RULE = {"role": "system", "content": "Be brief."}
DEV = {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]}
LATER = {"role": "system", "content": "It is Monday."}
OURS = {"role": "system", "content": WORDS}
BOTH = {"role": "system", "content": f"Be brief.\n\n{WORDS}"}


def chat(*messages):
    return {"model": "m", "messages": list(messages)}


@pytest.mark.parametrize(
    ("how", "given_", "wanted"),
    [
        (None, [RULE, HI], [BOTH, HI]),
        (None, [HI], [OURS, HI]),
        (None, [{"role": "system", "content": " "}, HI], [OURS, HI]),
        (None, [RULE, LATER, HI, YES, LATER], [BOTH, LATER, HI, YES, LATER]),
        (None, [DEV, HI], [{**DEV, "content": [*DEV["content"], {"type": "text", "text": WORDS}]}, HI]),
        ("own", [RULE, HI], [RULE, OURS, HI]),
        ("own", [DEV, HI], [DEV, {"role": "developer", "content": WORDS}, HI]),
        ("own", [HI], [OURS, HI]),
        ("merged", [RULE, HI], [BOTH, HI]),
        ("merged", [RULE, LATER, HI], [{**RULE, "content": f"Be brief.\n\n{WORDS}\n\nIt is Monday."}, HI]),
        ("merged", [HI, YES, LATER], [OURS, HI, YES, {**LATER, "role": "user"}]),
        ("none", [RULE, HI], [{**HI, "content": f"Be brief.\n\n{WORDS}\n\nhi"}]),
        ("none", [HI, YES, LATER], [{**HI, "content": f"{WORDS}\n\nhi"}, YES, {**LATER, "role": "user"}]),
        ("none", [YES], [{"role": "user", "content": WORDS}, YES]),
    ],
)
def test_words_stand_in_chat_completions_where_the_model_takes_them(how, given_, wanted):
    assert placed("chat_completions", chat(*given_), WORDS, how)["messages"] == wanted


BLOCK = {"type": "text", "text": WORDS}


@pytest.mark.parametrize(
    ("how", "system", "wanted"),
    [
        (None, None, [BLOCK]),
        (None, "", [BLOCK]),
        (None, "Be brief.", [{"type": "text", "text": "Be brief."}, BLOCK]),
        (
            "own",
            [{"type": "text", "text": "A", "cache_control": {"type": "ephemeral"}}],
            [{"type": "text", "text": "A", "cache_control": {"type": "ephemeral"}}, BLOCK],
        ),
        ("merged", "Be brief.", [{"type": "text", "text": "Be brief."}, BLOCK]),
    ],
)
def test_words_are_one_more_block_of_the_system_field(how, system, wanted):
    body = {"messages": [HI, YES, HI]} | ({} if system is None else {"system": system})
    assert placed("anthropic", body, WORDS, how) == {"system": wanted, "messages": [HI, YES, HI]}


def test_system_messages_of_anthropic_that_a_server_does_not_take_are_the_users():
    body = {"system": "A", "messages": [HI, LATER]}
    assert placed("anthropic", body, WORDS, "merged")["messages"] == [HI, {**LATER, "role": "user"}]


def test_nothing_stands_before_results_of_tools():
    results = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "1"}]}
    body = {"system": "A", "messages": [results, HI]}
    done = placed("anthropic", body, WORDS, "none")
    said = [{"type": "text", "text": "A"}, BLOCK, {"type": "text", "text": "hi"}]
    assert done == {"messages": [results, {"role": "user", "content": said}]}


ITEM = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Base."}]}


@pytest.mark.parametrize(
    ("how", "body", "wanted"),
    [
        (None, {"instructions": "A", "input": [HI]}, {"instructions": f"A\n\n{WORDS}", "input": [HI]}),
        (None, {"input": [HI]}, {"instructions": WORDS, "input": [HI]}),
        (None, {"input": "hi"}, {"instructions": WORDS, "input": "hi"}),
        (
            None,
            {"input": [ITEM, HI]},
            {"input": [{**ITEM, "content": [*ITEM["content"], {"type": "input_text", "text": WORDS}]}, HI]},
        ),
        ("own", {"instructions": "A", "input": [HI]}, {"instructions": "A", "input": [OURS, HI]}),
        (
            "merged",
            {"instructions": "A", "input": [ITEM, HI, LATER]},
            {"instructions": f"A\n\n{WORDS}\n\nBase.", "input": [HI, {**LATER, "role": "user"}]},
        ),
        (
            "none",
            {"instructions": "A", "input": [ITEM, HI]},
            {
                "input": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "input_text", "text": "A" + "\n\n" + WORDS},
                            {"type": "input_text", "text": "Base."},
                            {"type": "input_text", "text": "hi"},
                        ],
                    }
                ]
            },
        ),
    ],
)
def test_words_stand_behind_the_instructions_of_responses(how, body, wanted):
    assert placed("responses", body, WORDS, how) == wanted


contents = st.sampled_from(["", "a", "b b", [{"type": "text", "text": "c"}]])
messages = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["system", "developer", "user", "assistant"]),
        contents,
    ),
    max_size=6,
)


@given(protocol=st.sampled_from(sorted(FORMATS)), said=messages, how=st.sampled_from([None, "own", "merged", "none"]))
def test_words_are_there_once_and_nothing_of_the_clients_is_lost(protocol, said, how):
    name = "input" if protocol == "responses" else "messages"
    body = {"model": "m", name: said}
    done = placed(protocol, body, WORDS, how)
    assert repr(done).count(WORDS) == 1
    assert repr(done).count("b b") == repr(body).count("b b")
    assert placed(protocol, body, WORDS, how) == done
    assert body == {"model": "m", name: said}


@given(said=messages, how=st.sampled_from(["merged", "none"]))
def test_what_a_model_takes_is_left_alone(said, how):
    once = fitted("chat_completions", {"messages": said}, how)
    assert fitted("chat_completions", once, how) is once
    roles = [one["role"] for one in once["messages"]]
    assert roles.count("system") + roles.count("developer") <= (1 if how == "merged" else 0)
    assert "system" not in roles[1:]
