"""What tokens cost, by the prices of the registry. Pure.

A number that is not known is None, never zero: a sum in which one is missing is None too. What a provider itself says
that an answer cost counts before any price list. Fees for a provider's own tools, such as searches, are in no price list
of ours; they are in the cost only where the provider says the cost.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

from everlog.protocols.exchange import Usage
from everlog.registry import Model, Price


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Dollars, of each kind of tokens and of all; None where nobody can say."""

    input_usd: float | None = None
    output_usd: float | None = None
    cache_read_usd: float | None = None
    cache_write_usd: float | None = None
    total_usd: float | None = None


PARTS = {"input_usd": "input", "output_usd": "output", "cache_read_usd": "cache_read", "cache_write_usd": "cache_write"}
"""The parts of a cost, and the tokens that each is for."""


def cost_of(usage: Usage | None, model: Model) -> Cost:
    """Return what an answer of a model cost.

    The price is that for as many input tokens as there are, those of caches included: long prompts cost more a token.
    """
    if usage is None:
        return Cost()
    price = model.price((usage.input or 0) + (usage.cache_read or 0) + (usage.cache_write or 0)) or Price()
    parts = {
        "input_usd": _dollars(usage.input, price.input),
        "output_usd": _dollars(usage.output, price.output),
        "cache_read_usd": _dollars(usage.cache_read, price.cache_read),
        "cache_write_usd": _written(usage, price),
    }
    return Cost(**parts, total_usd=_total(usage, parts))


def _dollars(tokens: int | None, price: float | None) -> float | None:
    if tokens is None or (price is None and tokens):
        return None
    return tokens * (price or 0) / 1e6


def _written(usage: Usage, price: Price) -> float | None:
    """Return the cost of what was written into a cache, of which a part may be kept for longer, at another price."""
    long = min(usage.cache_write_long or 0, usage.cache_write or 0)
    short = _dollars(None if usage.cache_write is None else usage.cache_write - long, price.cache_write)
    longer = _dollars(long, price.cache_write_long)
    return None if short is None or longer is None else short + longer


def _total(usage: Usage, parts: Mapping[str, float | None]) -> float | None:
    if usage.cost_usd is not None:
        return usage.cost_usd
    if usage.input is None or usage.output is None or _unpriced(usage, parts):
        return None
    return sum(part for part in parts.values() if part is not None)


def _unpriced(usage: Usage, parts: Mapping[str, float | None]) -> list[str]:
    """Return the parts for which there are tokens but no price."""
    return [part for part, tokens in PARTS.items() if getattr(usage, tokens) and parts[part] is None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What some answers cost together, so that others can be added to it."""

    parts: Mapping[str, float] = field(default_factory=dict)
    gaps: frozenset[str] = frozenset()
    """Parts that have no price in one of them."""
    answers: int = 0
    known: int = 0
    """How many of them have a total."""
    total: float = 0.0

    def plus(self, usage: Usage | None, model: Model) -> "Bill":
        """Return it with one more answer."""
        cost = cost_of(usage, model)
        parts = dict(self.parts)
        for part in PARTS:
            if (value := getattr(cost, part)) is not None:
                parts[part] = parts.get(part, 0.0) + value
        missing = _unpriced(usage, {part: getattr(cost, part) for part in PARTS}) if usage is not None else []
        return Bill(
            parts=parts,
            gaps=self.gaps.union(missing),
            answers=self.answers + 1,
            known=self.known + (cost.total_usd is not None),
            total=self.total + (cost.total_usd or 0.0),
        )

    @property
    def cost(self) -> Cost:
        """What they cost: a part that has no price in one of them is None, and so is a total with a gap."""
        parts = {part: None if part in self.gaps else self.parts.get(part) for part in PARTS}
        whole = self.answers and self.known == self.answers
        return Cost(**parts, total_usd=self.total if whole else None)


def sum_costs(answers: Iterable[tuple[Usage | None, Model]], since: Bill | None = None) -> Cost:
    """Return what many answers cost, beside those on a bill; see `Bill.cost`."""
    return reduce(lambda bill, answer: bill.plus(*answer), answers, since or Bill()).cost


def _complete(values: list[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return sum(found) if found and len(found) == len(values) else None


def sum_usages(usages: Iterable[Usage | None]) -> Usage:
    """Return the tokens of many answers; a kind that nobody counted stays None."""
    known = [one for one in usages if one is not None]
    counts = ("input", "cache_read", "cache_write", "output", "thinking", "cache_write_long")
    summed = {name: [value for one in known if (value := getattr(one, name)) is not None] for name in counts}
    tools: dict[str, int] = {}
    for one in known:
        for name, uses in one.provider_tools.items():
            tools[name] = tools.get(name, 0) + uses
    return Usage(
        **{name: sum(values) if values else None for name, values in summed.items()},
        cost_usd=_complete([one.cost_usd for one in known]),
        provider_tools=tools,
    )
