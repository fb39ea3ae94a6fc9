"""Tokens and what they cost (chat A.1 108-110; D57, D58)."""

from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.chat.cost import Cost, cost_of, sum_costs, sum_usages
from everlog.chat.ledger import Attempt, Ledger
from everlog.clock import EPOCH
from everlog.protocols.exchange import Usage
from everlog.registry import Model, Price, builtin

PRICED = Model(
    id="m",
    provider="p",
    prices=(
        Price(input=2, output=10, cache_read=0.5, cache_write=2.5, cache_write_long=4),
        Price(above_tokens=1000, input=4, output=20, cache_read=1, cache_write=5, cache_write_long=8),
    ),
)
UNKNOWN = Model(id="new", provider="p")
counts = st.one_of(st.none(), st.integers(0, 5000))
usages = st.builds(
    Usage, input=counts, output=counts, cache_read=counts, cache_write=counts, cache_write_long=counts, thinking=counts
)


@pytest.mark.covers("chat A.1 110", "D57")
def test_a_known_case_by_hand():
    """Claude Sonnet 4.6: 50 read anew, 40 from and 10 into the cache, 20 out."""
    model = builtin().find("claude-sonnet-4-6", provider="anthropic")
    usage = Usage(input=50, cache_read=40, cache_write=10, output=20)
    assert cost_of(usage, model).total_usd == pytest.approx(0.0004995)


@pytest.mark.covers("chat A.1 110")
def test_each_part_has_its_price():
    usage = Usage(input=100, cache_read=200, cache_write=300, cache_write_long=100, output=50)
    assert asdict(cost_of(usage, PRICED)) == pytest.approx(
        {
            "input_usd": 200e-6,
            "cache_read_usd": 100e-6,
            "cache_write_usd": (200 * 2.5 + 100 * 4) / 1e6,
            "output_usd": 500e-6,
            "total_usd": (200 + 100 + 900 + 500) / 1e6,
        }
    )


@pytest.mark.covers("chat A.1 110")
def test_the_price_of_long_prompts_is_decided_on_all_input_with_that_of_caches():
    short, long = Usage(input=500, cache_read=500, output=0), Usage(input=500, cache_read=501, output=0)
    assert cost_of(short, PRICED).input_usd == pytest.approx(1000e-6)
    assert cost_of(long, PRICED).input_usd == pytest.approx(2000e-6)


@pytest.mark.covers("chat A.1 109")
def test_thinking_is_part_of_the_output_and_costs_nothing_more():
    usage = Usage(input=0, output=100)
    assert cost_of(replace(usage, thinking=90), PRICED) == cost_of(usage, PRICED)


@pytest.mark.covers("chat A.1 110")
def test_what_the_provider_says_it_cost_counts_for_the_total():
    usage = Usage(input=100, output=50, cost_usd=0.5)
    assert cost_of(usage, PRICED).total_usd == cost_of(usage, UNKNOWN).total_usd == 0.5
    assert cost_of(usage, PRICED).input_usd == pytest.approx(200e-6)


@pytest.mark.parametrize(
    ("usage", "model"),
    [
        (None, PRICED),
        (Usage(), PRICED),
        (Usage(input=100), PRICED),
        (Usage(output=100), PRICED),
        (Usage(input=100, output=1), UNKNOWN),
        (Usage(input=1, output=1, cache_read=1), replace(PRICED, prices=(Price(input=1, output=1),))),
        (Usage(input=1, output=1, cache_write=2, cache_write_long=1), replace(PRICED, prices=(Price(cache_write=1),))),
    ],
)
def test_a_total_with_a_gap_is_none(usage, model):
    assert cost_of(usage, model).total_usd is None


def test_nothing_used_costs_nothing_at_any_model():
    assert cost_of(Usage(input=0, output=0, cache_read=0), UNKNOWN).total_usd == 0


@pytest.mark.covers("chat A.1 109")
@given(usages)
def test_a_sum_of_one_is_that_one(usage):
    assert sum_usages([usage]) == usage
    for model in (PRICED, UNKNOWN):
        assert sum_costs([(usage, model)]) == cost_of(usage, model)


@pytest.mark.covers("chat A.1 110")
@given(st.lists(st.tuples(st.one_of(st.none(), usages), st.sampled_from([PRICED, UNKNOWN])), max_size=4))
def test_a_sum_has_a_total_only_if_each_has_one(rows):
    totals = [cost_of(usage, model).total_usd for usage, model in rows]
    total = sum_costs(rows).total_usd
    known = [one for one in totals if one is not None]
    assert total == (pytest.approx(sum(known)) if rows and len(known) == len(rows) else None)


def test_a_part_without_a_price_in_one_answer_is_missing_in_the_sum():
    rows = [(Usage(input=100, output=1), PRICED), (Usage(input=100, output=1), UNKNOWN)]
    assert sum_costs(rows) == Cost()


@pytest.mark.covers("chat A.1 109", "D58")
def test_missing_counts_stay_missing():
    assert sum_usages([Usage(input=1), None, Usage(input=2, output=3)]) == Usage(input=3, output=3)
    assert sum_usages([]) == Usage()
    tools = [Usage(provider_tools={"web_search": 2}), Usage(provider_tools={"web_search": 1, "code": 1})]
    assert sum_usages(tools).provider_tools == {"web_search": 3, "code": 1}


def test_a_ledger_adds_up_from_any_place_on():
    ledger = Ledger()
    for number, (status, usage) in enumerate(
        [("failed", None), ("succeeded", Usage(input=100, output=10)), ("succeeded", Usage(input=1, output=1))]
    ):
        place = ledger.begin(Attempt(provider="p", model=PRICED, protocol="responses", began=EPOCH, number=number))
        assert ledger.attempts[place].status == "pending"
        ledger.end(place, status=status, usage=usage)
    assert len(ledger.attempts) == 3
    assert (ledger.tokens().input, sum_usages(one.usage for one in ledger.since(2)).input) == (101, 1)
    assert ledger.cost().total_usd is None
    assert sum_costs((one.usage, one.model) for one in ledger.since(1)).total_usd == pytest.approx(
        (101 * 2 + 11 * 10) / 1e6
    )
    assert ledger.attempts[1].cost.total_usd == pytest.approx((100 * 2 + 10 * 10) / 1e6)


@given(
    st.lists(st.tuples(st.one_of(st.none(), usages), st.sampled_from([PRICED, UNKNOWN])), max_size=6), st.integers(1, 3)
)
def test_a_ledger_that_forgets_single_attempts_keeps_their_sums(rows, kept):
    ledger = Ledger()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("everlog.chat.ledger.KEPT", kept)
        for usage, model in rows:
            place = ledger.begin(Attempt(provider="p", model=model, protocol="responses", began=EPOCH))
            assert place == len(ledger) - 1
            ledger.end(place, status="succeeded", usage=usage)
    assert len(ledger) == len(rows)
    assert len(ledger.attempts) <= kept
    assert [one.usage for one in ledger.since(len(rows) - 1)] == [usage for usage, _ in rows[-1:]]
    assert ledger.tokens() == sum_usages(usage for usage, _ in rows)
    total, whole = ledger.cost(), sum_costs(rows)
    assert [getattr(total, name) for name in ("input_usd", "total_usd")] == [
        None if value is None else pytest.approx(value) for value in (whole.input_usd, whole.total_usd)
    ]
