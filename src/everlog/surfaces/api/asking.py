"""What a request asks for, as values; and in our words what is wrong with it. Pure."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from everlog.chat.options import meant
from everlog.errors import Mistake

EVERYWHERE = "user_id"
"""What each request may name: whose threads it is about, which is looked at before it comes here."""

_KINDS = {"int": "a whole number", "str": "a text", "bool": "true or false"}

_WRONG: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"Expected `int` >= (\d+)", lambda found: f"is at least {int(found[1]):,}"),
    (r"Expected `int` <= (\d+)", lambda found: f"is at most {int(found[1]):,}"),
    (r"Expected `str` of length >= 1", lambda _: "is empty"),
    (r"Expected `str` of length <= (\d+)", lambda found: f"has at most {int(found[1]):,} characters"),
    (r"Expected `(int|str|bool)(?: \| null)?`", lambda found: f"is {_KINDS[found[1]]}"),
)


def parsed(kind: type, given: Mapping[str, Any]) -> Any:
    """Return what is asked for.

    Raises:
        Mistake: something of it is unknown, missing, or not what it has to be.
    """
    known = {field.name: field for field in msgspec.structs.fields(kind)}
    given = {name: value for name, value in given.items() if name in known or name != EVERYWHERE}
    for name in given:
        if name not in known:
            there = f"there are {', '.join(known)}" if known else "nothing can be asked for here"
            raise Mistake(f"there is no {name!r}{meant(name, known) or f'; {there}'}")
    missing = next((name for name, field in known.items() if field.required and name not in given), None)
    if missing is not None:
        raise Mistake(f"{missing!r} is missing")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Mistake(_said(str(error))) from None


def _said(error: str) -> str:
    what, _, where = error.partition(" - at ")
    name = where.strip("`").removeprefix("$.")
    for pattern, words in _WRONG:
        if found := re.match(pattern, what):
            return f"{name!r} {words(found)}"
    return f"{name!r} is not what it has to be"
