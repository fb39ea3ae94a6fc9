"""Where a prompt is marked for the provider's cache: at places that stay where they are until the epoch turns. Pure.

Anthropic reads up to a mark, or up to 20 blocks before one, and takes four: behind the instructions, behind the past,
where the request before this one ended, and at the end, which moves. Others read the longest beginning that they know
between exact breakpoints, and set one at the end by themselves; for those the first two are enough. Marks are laid over
what is rendered; nothing that they mark changes by them but in its form.
"""

from collections.abc import Sequence
from dataclasses import replace

from everlog.context.values import Marking
from everlog.protocols.exchange import Said


def marked(head: Sequence[Said], pieces: Sequence[Said], *, past: int, sent: int, marking: Marking) -> tuple[Said, ...]:
    """Return instructions and pieces with their marks.

    Args:
        head: the instructions.
        pieces: what comes behind them.
        past: how many of `pieces` stand for the past.
        sent: how many of `pieces` the request before this one had.
        marking: what the provider takes.
    """
    plain = (*head, *pieces)
    if marking == "none" or not plain:
        return plain
    places = set()
    if head:
        places.add(len(head) - 1)
    if past:
        places.add(len(head) + past - 2)  # the view; the answer behind it takes no mark
    if marking == "blocks":
        if sent:
            places.add(len(head) + _last_own(pieces, sent))
        places.add(len(plain) - 1)
    return tuple(replace(one, cached=True) if n in places else one for n, one in enumerate(plain))


def _last_own(pieces: Sequence[Said], sent: int) -> int:
    """Return the last of the first `sent` pieces that a user or a tool said: a request ends with such a one."""
    for n in range(min(sent, len(pieces)) - 1, -1, -1):
        if pieces[n].messages and pieces[n].messages[0].kind not in ("assistant", "tool_call"):
            return n
    return 0
