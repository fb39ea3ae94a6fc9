"""Requests of Responses without what a server keeps: laws over any body, and what goes on at the server."""

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.surfaces.proxy.remembering.stateless import elsewhere, is_held_here, is_ours, stateless

SEALED = "reasoning.encrypted_content"
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
ids = st.sampled_from(["resp_1", "resp_evl_1", "conv_1", "mine", ""])
bodies = st.fixed_dictionaries(
    {"model": st.just("m"), "input": values},
    optional={
        "previous_response_id": ids | values,
        "conversation": ids | st.fixed_dictionaries({"id": ids}) | values,
        "store": st.booleans() | values,
        "include": st.lists(st.sampled_from(["message.output_text.logprobs", SEALED]), max_size=3) | values,
        "background": st.booleans() | values,
        "metadata": values,
        "tools": values,
    },
)
CHANGED = {"previous_response_id", "conversation", "store", "include"}


@given(bodies)
def test_it_names_nothing_keeps_nothing_and_leaves_all_else_as_it_is(body):
    before = deepcopy(body)
    out = stateless(body)
    assert body == before
    assert out["store"] is False
    assert not {"previous_response_id", "conversation"} & out.keys()
    kept = {name: value for name, value in body.items() if name not in CHANGED}
    assert {name: value for name, value in out.items() if name not in CHANGED} == kept
    assert list(kept) == [name for name in out if name in kept], "fields stay in their order: the prefix is bytes"


@given(bodies)
def test_its_reasoning_is_asked_for_once_beside_what_the_client_asked_for(body):
    asked, out = body.get("include"), stateless(body)["include"]
    if asked is not None and not isinstance(asked, list):
        assert out == asked, "what means nothing is for the server to refuse"
    else:
        assert [one for one in out if one != SEALED] == [one for one in asked or () if one != SEALED]
        assert out.count(SEALED) == max(1, (asked or []).count(SEALED))


@given(bodies)
def test_what_is_made_stateless_is_so_and_goes_on_from_nothing(body):
    once = stateless(body)
    assert stateless(once) == once
    assert not is_held_here(once)
    assert elsewhere(once, is_known=True) == ("background" if body.get("background") is True else None)


@given(bodies, st.booleans())
def test_what_the_log_alone_holds_never_goes_on_at_a_server_for_want_of_it(body, is_known):
    if is_ours(body):
        assert elsewhere(body, is_known=is_known) != "previous_response"
        assert is_held_here(body)


@pytest.mark.parametrize(
    ("fields", "is_known", "why"),
    [
        ({}, True, None),
        ({"previous_response_id": "resp_1"}, True, None),
        ({"previous_response_id": "resp_1"}, False, "previous_response"),
        ({"previous_response_id": "resp_evl_1"}, False, None),
        ({"conversation": "conv_1"}, True, "conversation"),
        ({"conversation": {"id": "conv_1"}}, True, "conversation"),
        ({"conversation": "mine"}, True, None),
        ({"background": True}, True, "background"),
        ({"background": False}, True, None),
    ],
)
def test_what_only_the_server_holds_goes_on_there(fields, is_known, why):
    assert elsewhere({"model": "m", "input": "Hello", **fields}, is_known=is_known) == why
