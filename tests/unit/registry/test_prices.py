"""Our prices beside those of another table, made by other people: `genai-prices`."""

from datetime import UTC, datetime
from typing import Any

import pytest
from genai_prices.data import providers

from everlog.registry import builtin

KINDS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}

DAY = datetime(2026, 11, 30, 3, tzinfo=UTC)
"""A moment at which DeepSeek takes its prices by day."""

APART = {
    "claude-sonnet-4-5": "above 200,000 tokens the other table has a higher price, models.dev has none; which holds is not known",
    "claude-sonnet-4-5-20250929": "the same",
    "deepseek-chat": "models.dev has the price of the model that the name stands for now, the other table that of an older one",
    "deepseek-reasoner": "the same",
    "deepseek-v4-flash": "the other table has the price of deepseek-flash, which came after our table",
}
"""Models whose prices differ, and why."""


def bands(price: Any) -> dict[int, float]:
    """Prices by the input above which they hold."""
    if price is None:
        return {}
    if not hasattr(price, "base"):
        return {0: float(price)}
    return {0: float(price.base), **{tier.start: float(tier.price) for tier in price.tiers}}


@pytest.mark.parametrize("provider", ["openai", "anthropic", "deepseek"])
def test_prices_are_those_of_another_table(provider):
    table = next(one for one in providers if one.id == provider)
    compared, apart = 0, set()
    for (place, name), model in builtin().models.items():
        other = table.find_model(name) if place == provider and model.prices else None
        if other is None:
            continue
        theirs = other.get_prices(DAY)
        for kind, field in KINDS.items():
            for above, price in bands(getattr(theirs, field)).items():
                found = model.price(above + 1)
                ours = getattr(found, kind) if found is not None else None
                if ours is not None:
                    compared += 1
                    apart |= {name} if ours != pytest.approx(price) else set()
    assert compared > 10
    assert apart == {name for name in APART if (provider, name) in builtin().models}
