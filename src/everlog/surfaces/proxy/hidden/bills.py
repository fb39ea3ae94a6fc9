"""What several rounds took, as a client is told it.

Agents take the input of an answer for how full their window is, and compact themselves when it is: so it is that of the
last round, while output is the sum of all. The whole bill stands beside them.
"""

from collections.abc import Iterable, Sequence

from everlog.messages import JSON
from everlog.protocols.exchange import Usage
from everlog.protocols.shapes import Record, given, record

PUT_OUT = {
    "completion_tokens": "prompt_tokens",
    "output_tokens": "input_tokens",
}
"""The count of what was put out, and that of what was read, in each protocol's words."""

SUMMED = (*PUT_OUT, "completion_tokens_details", "output_tokens_details", "server_tool_use", "cost", "cost_details")
"""What is the sum of all rounds."""


def told_usage(counted: Sequence[Record], usages: Sequence[Usage | None], *, sums: bool) -> Record | None:
    """Return the usage of an answer of several rounds; None where the upstream counted nothing.

    Args:
        counted: what the upstream said in each round that it counted, in its own words.
        usages: the same as values, one of each round.
        sums: whether input is the sum of all rounds too.
    """
    known = [one for one in counted if one]
    if not known:
        return None
    first, last = known[0], known[-1]
    told: Record = {**first, **last}
    for name in told if sums else SUMMED:
        if values := [one[name] for one in known if one.get(name) is not None]:
            told[name] = _summed(values)
    if "total_tokens" in told:
        read, out = next(((told.get(read), told.get(out)) for out, read in PUT_OUT.items() if out in told), (0, 0))
        told["total_tokens"] = _summed([read, out])
    return {**told, "everlog": _bill(usages)}


def _summed(values: Sequence[JSON]) -> JSON:
    """Return the sum of counts; of objects that of each count in them; of all else the last."""
    last = values[-1]
    if isinstance(last, dict):
        names = dict.fromkeys(name for value in values for name in record(value))
        return {
            name: _summed([record(one)[name] for one in values if record(one).get(name) is not None] or [None])
            for name in names
        }
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    return sum(numbers) if numbers else last


def _bill(usages: Sequence[Usage | None]) -> Record:
    known = [one for one in usages if one is not None]
    return {
        "rounds": len(usages),
        "input_tokens": sum(one.whole_input for one in known),
        "output_tokens": _counted(one.output for one in known) or 0,
        **given(
            cached_tokens=_counted(one.cache_read for one in known),
            cache_write_tokens=_counted(one.cache_write for one in known),
        ),
    }


def _counted(counts: Iterable[int | None]) -> int | None:
    known = [one for one in counts if one is not None]
    return sum(known) if known else None
