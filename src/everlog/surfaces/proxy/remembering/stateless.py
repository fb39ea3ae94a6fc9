"""A client's request of Responses as one that needs nothing of what a server keeps. Pure.

Where memory compiles the prompt, the server is asked to keep nothing, is named nothing, and hands out its reasoning sealed, so
that it can be shown to it again. What the server alone holds cannot be sent from the log: such a request goes up as
it came, and memory is off for it.
"""

from typing import Literal, TypeAlias

from everlog.protocols.responses.requests import SEALED
from everlog.protocols.shapes import Record, string
from everlog.surfaces.proxy.hidden.items import PREFIX
from everlog.surfaces.proxy.recording.exchanges import conversation

THEIRS = "conv_"
"""What ids of conversations begin with that a server made, and holds."""

NAMES = frozenset({"previous_response_id", "conversation"})
"""Fields that name what was said before instead of saying it."""

Elsewhere: TypeAlias = Literal["background", "conversation", "previous_response"]
"""Why a request goes on at the server: it keeps the answer, it holds the conversation, or it alone has what came before."""


def stateless(body: Record) -> Record:
    """Return a request that a server answers without what it keeps, and keeps nothing of; what was said before is yet to
    be put into it.
    """
    asked = body.get("include")
    out = {name: value for name, value in body.items() if name not in NAMES}
    if asked is None or (isinstance(asked, list) and SEALED not in asked):
        out["include"] = [*(asked or ()), SEALED]
    return {**out, "store": False}


def elsewhere(body: Record, *, is_known: bool) -> Elsewhere | None:
    """Return why a request goes on at the server; None if all that it goes on from is in the log.

    Args:
        body: the client's request.
        is_known: whether what it goes on from is in the log for who asks, from its beginning.
    """
    if body.get("background") is True:
        return "background"
    if conversation(body).startswith(THEIRS):
        return "conversation"
    return None if is_known or is_ours(body) else "previous_response"


def is_ours(body: Record) -> bool:
    """Whether a request goes on from an answer of ours, which no server knows."""
    return string(body.get("previous_response_id")).startswith(PREFIX)


def is_held_here(body: Record) -> bool:
    """Whether a request goes on from what the log alone holds: an answer of ours, or a conversation that the client named."""
    named = conversation(body)
    return is_ours(body) or (named != "" and not named.startswith(THEIRS))
