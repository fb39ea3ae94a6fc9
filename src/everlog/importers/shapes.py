"""Reading JSON whose shape nobody promises: each question has an answer, never an exception."""

from typing import Any, TypeAlias

from everlog.jsonl import dumps
from everlog.messages import JSON, Unknown

Record: TypeAlias = dict[str, Any]

DEPTH = 200
"""How deep a kept value may be nested; deeper ones are kept as their JSON text, since most programs would choke."""


def record(value: object) -> Record:
    """Return value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def array(value: object) -> list[Any]:
    """Return value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def string(value: object) -> str | None:
    """Return value if it is a text and not empty."""
    return value if isinstance(value, str) and value else None


def compact(**facts: JSON) -> dict[str, JSON]:
    """Return the facts that say something."""
    return {name: fact for name, fact in facts.items() if fact is not None and fact != "" and fact is not False}


def unknown(source: str, value: JSON, offset: int = 0) -> Unknown:
    """Return a part that keeps a value verbatim."""
    return Unknown(source=source, value=value if _is_flat(value) else dumps(value), offset=offset)


def _is_flat(value: JSON) -> bool:
    level = [value]
    for _ in range(DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return True
    return False
