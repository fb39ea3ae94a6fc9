"""What an import has to say besides conversations: what it could not read, and what it counted on the way.

Nothing here ever holds the words of a conversation.
"""

import re
from collections import Counter
from dataclasses import dataclass, field

_NAME = re.compile(r"[A-Za-z][\w./:-]{0,47}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A conversation, or one line or message of it, that could not be read and was left out."""

    where: str
    """File, and archive member where there is one."""
    reason: str
    """What is wrong with it."""
    position: int
    """Which line of the file, or which conversation of its list, or which message of it: 1 is the first; 0 is all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What was met while reading, by name; it grows until the last conversation is out."""

    unknown: Counter[str] = field(default_factory=Counter)
    """Forms we do not know. Parts of messages are kept verbatim as `Unknown`; whole lines and nodes are only counted."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Forms we know and leave out, such as reasoning, progress events and emptied messages."""
    assumed: Counter[str] = field(default_factory=Counter)
    """What the source left open and we filled in, such as the zone of a time."""


class Malformed(ValueError):
    """A conversation is not of its format's form; becomes a `Problem`."""


def label(value: object) -> str:
    """Return value if it is fit to be the name of a counted form, else a stand-in, since it may be anybody's words."""
    return value if isinstance(value, str) and _NAME.fullmatch(value) else "(no name)"
