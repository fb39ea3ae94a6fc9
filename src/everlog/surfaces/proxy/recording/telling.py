"""The headers by which an answer tells what was made of its request, for a client that asks (`X-Everlog-Debug: on`). Pure."""

from everlog.conversation.alignment.presence import Placed
from everlog.conversation.alignment.values import Request
from everlog.surfaces.proxy.incoming import Headers

LONGEST = 240
DEBUG = (
    "x-everlog-decision",
    "x-everlog-thread",
    "x-everlog-resolved-user-id",
    "x-everlog-resolved-project-id",
    "x-everlog-project-derived-from-cwd",
)
"""Told only if asked; never a working directory."""


def told(request: Request, placed: Placed | None) -> Headers:
    """Return them; what is not known yet, or is not there, has none."""
    is_derived = (request.origin.project or "").startswith("cwd:")
    thread = None if placed is None or request.is_side else placed.key if placed.thread is None else placed.thread.key
    decision = None if placed is None else "side" if request.is_side else placed.decision
    said = (decision, thread, request.caller.user, request.origin.project, "true" if is_derived else None)
    return tuple(
        (name.encode(), shown) for name, value in zip(DEBUG, said, strict=True) if value and (shown := _shown(value))
    )


def _shown(value: str) -> bytes:
    """Return a value as a header can hold it."""
    return bytes(one for one in value.encode("ascii", "ignore") if 32 <= one < 127)[:LONGEST].strip()
