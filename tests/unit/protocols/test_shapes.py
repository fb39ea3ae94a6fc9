"""JSON as it is read and written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.protocols import FORMATS
from everlog.protocols.shapes import DEPTH, amount, dumps, encoded, loads

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=8,
)
blanks = st.text(alphabet=" \t\r\n", max_size=4)


@given(values, blanks, blanks)
def test_a_value_is_read_whatever_blanks_are_around_it(value, before, after):
    assert loads(before + dumps(value) + after) == value
    assert json.loads(encoded(value)) == value


@given(st.text())
def test_what_is_no_json_is_none_and_nothing_is_raised(text):
    try:
        wanted = json.loads(text)
    except ValueError:
        wanted = None
    assert repr(loads(text)) == repr(wanted)


@pytest.mark.parametrize("text", ["", " ", "{} {}", "[1] x", "\ufeff{}", '{"a":', "[" * 100_000])
def test_these_are_none(text):
    assert loads(text) is None


def test_what_is_nested_too_deeply_is_none():
    assert loads("[" * DEPTH + "]" * DEPTH) is not None
    assert loads("[" * (DEPTH + 1) + "]" * (DEPTH + 1)) is None


@pytest.mark.parametrize(
    "value", [10**400, float("inf"), float("nan"), -1, True, "1", None], ids=lambda one: str(one)[:9]
)
def test_a_sum_of_money_is_a_number_that_can_be_one(value):
    assert amount(value) is None
    assert (amount(0), amount(0.5)) == (0, 0.5)


@pytest.mark.parametrize("protocol", ["chat_completions", "responses"])
def test_an_absurd_cost_is_none(protocol):
    usage = FORMATS[protocol].parse_reply({"usage": {"cost": 10**400}}).usage
    assert usage is not None
    assert usage.cost_usd is None
