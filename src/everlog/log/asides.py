"""What a model answered beside a conversation: to a client that asked for a summary of it, a title, a list of files.

That is no part of the conversation. But a client that puts a summary in the place of the past sends it back as a
message, word for word, and from then on it is all that ties the history to its thread. So long ones are kept, the newest
few of each thread, to be known again.
"""

from everlog.log import rows
from everlog.log.fingerprints import QUOTE_BYTES
from everlog.log.shelves import Shelf
from everlog.log.threads import ThreadRow
from everlog.store import Unit
from everlog.tokens import size_bytes

KEPT = 4
"""Answers aside kept for a thread: a summary comes back in the next request, or not at all."""

_SHELF = Shelf(
    name="aside",
    body=rows.aside.c.body,
    prints=rows.ASIDE_PRINTS,
    texts=rows.ASIDES,
    put=rows.PUT_ASIDE,
    drop=rows.DROP_ASIDE,
    kept=KEPT,
)


def set_aside(unit: Unit, thread: ThreadRow, text: str) -> None:
    """Keep an answer that may come back; one that is too short to be known again is not kept."""
    if size_bytes(text) >= QUOTE_BYTES:
        _SHELF.add(unit, thread, [text])


def asides(unit: Unit, thread: ThreadRow) -> list[str]:
    """Return the answers kept beside a thread, the oldest first."""
    return _SHELF.read(unit, thread)
