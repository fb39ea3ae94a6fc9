"""What must hold of every request that goes up: it is lawful, memory keeps to its budget, and it begins like the one before.

Judges are the rules of the providers (`tests/unit/protocols/rules.py`), the types of the official SDKs, and `repair`, which
returns a lawful body as the very object that it was given. Words are counted on the wire, by none of our own functions.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import everlog
from everlog import log
from everlog.context import Epoch, stored
from everlog.protocols import FORMATS
from everlog.store import Unit
from tests.acceptance.looking import Asked
from tests.unit.protocols.rules import RULES
from tests.unit.protocols.sdk_types import MESSAGES, adapter_of, exhausted

MARKS = ("cache_control", "prompt_cache_breakpoint")


def listed(body: Mapping[str, Any]) -> list[Any]:
    """Return messages or items of a body."""
    return list(body["input" if "input" in body else "messages"])


class Lawful:
    """Judges bodies; what one message was judged is remembered, since each comes again and again."""

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol
        self._adapter = adapter_of(MESSAGES[protocol])
        self._judged: set[str] = set()

    def __call__(self, body: dict[str, Any]) -> None:
        """Fail where a provider would refuse it, or an SDK would not know it."""
        assert RULES[self._protocol](body) == []
        assert FORMATS[self._protocol].repair(body) is body, "repair had something to do"
        for one in listed(body):
            if (written := json.dumps(one)) not in self._judged:
                exhausted(self._adapter.validate_python(one))
                self._judged.add(written)


def memory_bytes(body: Mapping[str, Any], question: str) -> int:
    """Return the bytes of what stands between the caller's instructions and what the user said last, in words and arguments.

    Args:
        body: what went up.
        question: the text of the user that opens the turn under way.
    """
    sizes: list[int] = []
    for one in listed(body):
        words = list(_words(one))
        if one.get("role") in ("system", "developer"):
            continue
        if one.get("role") == "user" and any(text.strip() == question for text in words):
            break
        sizes.append(sum(len(text.encode()) for text in words))
    else:
        raise AssertionError("what the user said is not there")
    return sum(sizes)


def _words(one: Any) -> Iterator[str]:
    """Yield what a message says: its texts, and arguments of calls."""
    if isinstance(one, str):
        yield one
    elif isinstance(one, list):
        for part in one:
            yield from _words(part)
    elif isinstance(one, dict):
        for name in ("content", "text", "output", "arguments"):
            yield from _words(one.get(name))
        yield from (call["function"]["arguments"] for call in one.get("tool_calls") or ())
        if one.get("type") == "tool_use":
            yield json.dumps(one["input"])


def segments(body: Mapping[str, Any]) -> list[str]:
    """Return what a cache reads of a body, in order, without marks: tools, instructions, blocks of messages."""
    found = [f"tools {json.dumps(body.get('tools'))}"]
    for name in ("system", "instructions"):
        value = body.get(name)
        blocks = value if isinstance(value, list) else [] if value is None else [{"type": "text", "text": value}]
        found += [f"{name} {json.dumps(_bare(block))}" for block in blocks]
    for one in listed(body):
        content = one.get("content")
        rest = {key: value for key, value in one.items() if key != "content"}
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        found += [f"{json.dumps(_bare(rest))} {json.dumps(_bare(block))}" for block in blocks]
    return found


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _bare(one) for name, one in value.items() if name not in MARKS}
    return [_bare(one) for one in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A request that did not begin with all of the one before."""

    after: float
    before: float
    """Seconds since 1970 between which it was made."""
    at: int
    of: int
    """How many segments were the same, of how many."""
    number: int
    """Which request it was."""


def breaks(asked: Sequence[Asked]) -> list[Break]:
    """Return where prefixes broke in the requests of one conversation."""
    found: list[Break] = []
    before: list[str] = []
    last = 0.0
    for number, one in enumerate(asked):
        now = segments(one.received.body)
        if now[: len(before)] != before:
            same = next(n for n, (old, new) in enumerate(zip(before, [*now, None], strict=False)) if old != new)
            found.append(Break(after=last, before=one.at, at=same, of=len(before), number=number))
        before, last = now, one.at
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A thread as it is in the database."""

    key: str
    entries: tuple[tuple[str, str], ...]
    """Kind and text."""
    epochs: tuple[Epoch, ...]
    """Of all its consumers, in the order in which they opened."""
    consumers: tuple[str, ...]


def kept(database: Path) -> list[Kept]:
    """Return all threads of a database, those with the most entries first."""
    with everlog.open(database) as home:
        found = []
        for id_, key in home.store.read(home.name, log.names):
            epochs = home.store.read(home.name, partial(_epochs, thread=id_))
            entries = tuple((one.kind, one.text) for one in home.thread(key).entries())
            consumers = tuple(home.store.read(home.name, partial(stored.consumers, thread=id_)))
            found.append(Kept(key=key, entries=entries, epochs=epochs, consumers=consumers))
        return sorted(found, key=lambda one: -len(one.entries))


def _epochs(unit: Unit, thread: str) -> tuple[Epoch, ...]:
    found = [one for consumer in stored.consumers(unit, thread) for one in stored.epochs(unit, thread, consumer)]
    return tuple(sorted(found, key=lambda one: one.opened_at))


def named(found: Sequence[Break], epochs: Sequence[Epoch]) -> dict[int, str]:
    """Return the reason of each break, by the request that broke; fails where no epoch opened for it."""
    reasons: dict[int, str] = {}
    for one in found:
        opened = [epoch.reason for epoch in epochs if one.after <= epoch.opened_at.timestamp() <= one.before]
        assert opened, f"no epoch opened for {one}"
        reasons[one.number] = opened[-1]
    return reasons
