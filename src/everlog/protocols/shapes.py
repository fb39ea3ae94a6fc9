"""Reading JSON whose shape nobody promises, and the one way in which we write it.

Each question about a value has an answer and never raises. Bodies are written compact, in the order of their keys, in
UTF-8; lone halves of surrogate pairs, which UTF-8 cannot hold, are written as the escapes that JSON has for them.
"""

import json
from typing import Any, TypeAlias

from everlog.messages import JSON

Record: TypeAlias = dict[str, Any]

MOST = 1e9
"""No answer costs as much."""

MOST_COUNTED = 10**15
"""There is no more of anything that is counted; a float holds each number up to it."""

DEPTH = 200
"""How deep a value from a server may be nested."""

_NESTED = frozenset({dict, list})

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_decode = json.JSONDecoder().raw_decode


def record(value: object) -> Record:
    """Return value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def array(value: object) -> list[Any]:
    """Return value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def string(value: object) -> str:
    """Return value if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int | None:
    """Return value if it is a number of things, else None."""
    return value if type(value) is int and 0 <= value <= MOST_COUNTED else None


def number(value: object) -> float | None:
    """Return value if it is a finite number, else None."""
    return value if type(value) in {int, float} and abs(value) < MOST else None  # type: ignore[arg-type, return-value]


def amount(value: object) -> float | None:
    """Return value if it is a sum of money, else None."""
    return float(value) if type(value) in {int, float} and 0 <= value < MOST else None  # type: ignore[operator, arg-type]


def dumps(value: JSON) -> str:
    """Return value as compact JSON text."""
    return _encode(value)


def encoded(value: JSON) -> bytes:
    """Return value as the bytes that are sent."""
    text = _encode(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


def loads(text: str) -> JSON:
    """Return what JSON text says; None if it is not JSON, or nested so deeply that nobody could copy or write it."""
    try:
        text = text.strip(" \t\n\r")
        parsed: JSON
        parsed, end = _decode(text)
    except (ValueError, RecursionError):
        return None
    if end != len(text):
        return None
    return parsed if len(text) <= DEPTH or _is_shallow(parsed) else None


def _is_shallow(value: JSON) -> bool:
    level = [value] if type(value) in _NESTED else []
    for _ in range(DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)  # type: ignore[union-attr]
            if type(inner) in _NESTED
        ]
        if not level:
            return True
    return False


def given(**fields: JSON) -> Record:
    """Return the fields that are not None, in order."""
    return {name: value for name, value in fields.items() if value is not None}


def merged(body: Record, over: Record) -> Record:
    """Return body with another one laid over it: objects are merged to any depth, everything else is replaced."""
    out = dict(body)
    for name, value in over.items():
        old = out.get(name)
        out[name] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return out
