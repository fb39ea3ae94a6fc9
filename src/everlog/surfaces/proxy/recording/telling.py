"""The headers by which an answer tells what was made of its request. Pure.

That a request is none of the conversation's is told always, the rest to a client that asks (`X-Everlog-Debug: on`).
"""

from everlog.conversation.alignment.presence import Placed
from everlog.conversation.alignment.values import Request
from everlog.surfaces.proxy.incoming import Headers

LONGEST = 240

HINT = (b"x-everlog-hint", b"a history without its beginning is a new thread; X-Everlog-Session-ID says whose it is")
ASIDE = (b"x-everlog-decision", b"side")
"""Taken for a client's own question, such as for a title, and so for no message; a person's may be as short."""
DEBUG = (
    "x-everlog-decision",
    "x-everlog-thread",
    "x-everlog-resolved-user-id",
    "x-everlog-resolved-project-id",
    "x-everlog-project-derived-from-cwd",
)
"""Told only if asked; never a working directory."""


def told(request: Request, placed: Placed | None, *, all_of_it: bool) -> Headers:
    """Return them; what is not known yet, or is not there, has none."""
    if not all_of_it:
        return _unasked(request, placed)
    is_derived = (request.origin.project or "").startswith("cwd:")
    decision = None if placed is None else "side" if request.is_side else placed.decision
    said = (
        decision,
        _thread(request, placed),
        request.caller.user,
        request.origin.project,
        "true" if is_derived else None,
    )
    more = ((name.encode(), _shown(value)) for name, value in zip(DEBUG, said, strict=True) if value)
    hints = (one for one in _unasked(request, placed) if one != ASIDE)
    return (*hints, *((name, shown) for name, shown in more if shown))


def _unasked(request: Request, placed: Placed | None) -> Headers:
    if request.is_side:
        return (ASIDE,)
    return (HINT,) if placed is not None and placed.is_unproven else ()


def _thread(request: Request, placed: Placed | None) -> str | None:
    """Return the key of the thread that a request goes on in; None where it is in none, or in a fork that is still to be made."""
    if placed is None or request.is_side or placed.forks_at is not None:
        return None
    return placed.key if placed.thread is None else placed.thread.key


def _shown(value: str) -> bytes:
    """Return a value as a header can hold it."""
    return bytes(one for one in value.encode("ascii", "ignore") if 32 <= one < 127)[:LONGEST].strip()
