"""The request of a later round: that of the first with what was said since, and what is left of its limits."""

from collections.abc import Sequence
from typing import Literal

from everlog.messages import JSON
from everlog.protocols import Format
from everlog.protocols.exchange import Said
from everlog.protocols.shapes import Record, array, count, record
from everlog.surfaces.proxy.hidden.offering import without_tools
from everlog.surfaces.proxy.hidden.telling import Ours

LIMITS = ("max_completion_tokens", "max_output_tokens", "max_tokens")
"""Fields that limit what is put out, in any protocol."""

LEAST_THINKING = 1024
"""What Anthropic takes as the least budget of thinking, which has to be below the limit."""

LEAST = {"responses": 16}
"""The least limit that a protocol takes; of others 1."""

Choice = Literal["as it is", "none", "client's"]
"""Which tools may be called still: those of the request, none, or the client's own."""


def leaves_room(protocol: Format, body: Record, used: int) -> bool:
    """Return whether a request's limit leaves anything for another round."""
    limits = [limit for name in LIMITS if (limit := count(body.get(name))) is not None]
    least = LEAST.get(protocol.name, 1)
    if _budget(body) is not None:
        least = LEAST_THINKING + 1
    return all(limit - used >= least for limit in limits)


def _budget(body: Record) -> int | None:
    return count(record(body.get("thinking")).get("budget_tokens"))


def waits_for_call(body: Record) -> bool:
    """Return whether the client wants a call of its own in any case."""
    choice = body.get("tool_choice")
    return choice == "required" or record(choice).get("type") == "any"


def later(protocol: Format, body: Record, since: Sequence[Said], used: int, choice: Choice, ours: Ours) -> Record:
    """Return the request of a later round.

    Args:
        protocol: of the upstream.
        body: the request of the first round.
        since: what was said since, our results included.
        used: tokens that were put out since.
        choice: what may be called.
        ours: which names are those of tools of ours.
    """
    asked = dict(body)
    name = "input" if protocol.name == "responses" else "messages"
    before = body.get(name)
    words: list[JSON] = [{"role": "user", "content": before}] if isinstance(before, str) else array(before)
    asked[name] = [*words, *protocol.with_history({name: []}, since)[name]]
    for limit in LIMITS:
        if (most := count(body.get(limit))) is not None:
            asked[limit] = most - used
            budget = _budget(body)
            if budget is not None and used:
                asked["thinking"] = {**record(body["thinking"]), "budget_tokens": min(budget, most - used - 1)}
    if choice == "none":
        asked["tool_choice"] = {"type": "none"} if protocol.name == "anthropic" else "none"
    elif choice == "client's":
        asked["tools"] = without_tools(body.get("tools"), ours)
    return protocol.repair(asked)
