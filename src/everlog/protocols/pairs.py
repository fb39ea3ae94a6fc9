"""Calls and their results, paired by id wherever they stand.

Ids repeat: some servers call every first call of a round `call_0`. So a result belongs to the latest call of its id
before it that is still open.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

Place: TypeAlias = tuple[int, int]
"""Number of the message, and of the part in it."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A call, or a result, somewhere in a history."""

    place: Place
    id: str
    is_call: bool


@dataclass(frozen=True, slots=True)
class Pairs:
    """Which belong together."""

    results: dict[Place, Place]
    """The result of each answered call."""
    calls: dict[Place, Place]
    """The call of each result that has one."""
    ids: dict[Place, str]
    """The lawful, unique id of each of them."""


def paired(marks: Iterable[Mark], allowed: re.Pattern[str], limit: int, *, unique: bool) -> Pairs:
    """Pair calls with results, in order; ids are made to fit, and unique in the whole history where that is asked for."""
    results: dict[Place, Place] = {}
    waiting: dict[str, list[Place]] = {}
    wanted: dict[Place, str] = {}
    for mark in marks:
        if mark.is_call:
            waiting.setdefault(mark.id, []).append(mark.place)
            wanted[mark.place] = mark.id
        elif waiting.get(mark.id):
            results[waiting[mark.id].pop()] = mark.place
    ids = _fitting({call: wanted[call] for call in wanted if call in results}, allowed, limit, unique=unique)
    ids |= {results[call]: ids[call] for call in results}
    return Pairs(results, {result: call for call, result in results.items()}, ids)


def _fitting(wanted: dict[Place, str], allowed: re.Pattern[str], limit: int, *, unique: bool) -> dict[Place, str]:
    """Return an id for each call that has the right letters and length; the first to want an id gets it as it is."""
    ids: dict[Place, str] = {}
    taken: set[tuple[int, str]] = set()
    fits = {one for one in wanted.values() if allowed.fullmatch(one) and len(one) <= limit}
    for place, name in wanted.items():
        scope = 0 if unique else place[0]
        found, number = name if name in fits else _made_fit(name, allowed, limit), 1
        while (scope, found) in taken or (found != name and found in fits):
            number += 1
            found = _made_fit(f"{name}_{number}", allowed, limit)
        taken.add((scope, found))
        ids[place] = found
    return ids


def _made_fit(name: str, allowed: re.Pattern[str], limit: int) -> str:
    letters = "".join(letter if allowed.fullmatch(letter) else "_" for letter in name)
    if letters and len(letters) <= limit:
        return letters
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{letters[: limit - 17]}_{digest}" if letters else f"call_{digest}"
