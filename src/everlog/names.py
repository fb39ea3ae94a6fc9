"""What a name may hold: keys of threads, ids of users, sessions and whatever else is looked up by its name.

A name is seen, and seen as it is: it has no controls, no overrides of direction, no halves of characters, and nothing
without a shape at an end of it or of one of its words. What joins visible characters into others belongs to names that
people have, in Persian, in the scripts of India, in emoji, and is taken where it does so.
"""

import re
from unicodedata import category

_JOINER = "\u200c\u200d"
_ATTACHED = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
_VISIBLE = rf"[^\s{_JOINER}{_ATTACHED}]"
_VIRAMA = "\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca\u1039\u17d2"
# Variants after what they vary, joiners between what they join; after a virama a joiner shapes what stands before it.
_LAWFUL = re.compile(
    rf"(?<={_VISIBLE})(?:[{_ATTACHED}]+[{_JOINER}](?={_VISIBLE})|[{_ATTACHED}]+|[{_JOINER}](?={_VISIBLE}))"
    rf"|(?<=[{_VIRAMA}])[{_JOINER}]"
)
_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f")
_SHAPELESS = re.compile(rf"[{_JOINER}{_ATTACHED}]")
_NEVER_ASSIGNED = re.compile(
    "[\u2065\ufdd0-\ufdef\ufff0-\ufff8\U000e0000-\U000e0fff"
    + "".join(map(chr, (plane << 16 | end for plane in range(17) for end in (0xFFFE, 0xFFFF))))
    + "]"
)


def is_name(text: str, limit: int) -> bool:
    """Return whether a text of 1 to `limit` characters can be a name."""
    if not 0 < len(text) <= limit:
        return False
    if text.isascii():
        return text.isprintable()
    rest = _LAWFUL.sub("", _FLAG.sub("\U0001f3f4", text))
    return _SHAPELESS.search(rest) is None and (rest.isprintable() or all(map(_is_seen, rest)))


def unlike(text: str, limit: int) -> str:
    """Return in what a text is no name, as the end of a sentence that does not repeat it."""
    if not text:
        return "is empty"
    return f"has {len(text)}" if len(text) > limit else "holds others, such as controls, or marks that nobody sees"


def spelled(text: str) -> str:
    """Return a text that can be a name, with U+FFFD for all that might not."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in _SHAPELESS.sub("\ufffd", text))


def _is_seen(letter: str) -> bool:
    """Return whether a character is printable, or may be in a Unicode newer than the one that Python knows."""
    return letter.isprintable() or (category(letter) == "Cn" and _NEVER_ASSIGNED.match(letter) is None)
