"""The thread that the beginning of its key means, for whoever reads. Pure."""

from collections.abc import Sequence

from everlog.errors import UnknownThread

PROPOSED = 3
"""Threads named by a proposal."""


def begun_by(keys: Sequence[str], word: str) -> str | None:
    """Return the key that begins so; None where none does.

    The beginning of what stands after `format:` will do. Other ways that the same conversation went, `key~1` and
    `key#2`, are not meant where the conversation itself fits.

    Raises:
        UnknownThread: there are several.
    """
    begun = [key for key in keys if key.startswith(word) or key.partition(":")[2].startswith(word)]
    roots = [key for key in begun if not any(_varies(key, other) for other in begun)]
    if len(roots) > 1:
        more = f" and {len(roots) - PROPOSED:,} more" if len(roots) > PROPOSED else ""
        names = ", ".join(map(repr, roots[:PROPOSED]))
        raise UnknownThread(f"{word!r} is the beginning of several threads: {names}{more}; give more of the key")
    return next(iter(roots), None)


def _varies(key: str, other: str) -> bool:
    return key.startswith((f"{other}~", f"{other}#"))
