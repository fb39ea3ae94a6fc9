"""Acting on a thread as it was seen: what is planned in a unit that reads is carried out in another, if it still holds.

Whoever finds it overtaken plans again; somebody else has got on meanwhile.
"""

from itertools import count

from everlog import log
from everlog.errors import Erased
from everlog.log import ThreadRow
from everlog.store import Unit


class Overtaken(Exception):
    """What was planned on is no longer so: somebody else wrote to the thread, erased it, or took the key."""


def unchanged(unit: Unit, seen: ThreadRow) -> ThreadRow:
    """Return a thread, locked, if it is as it was seen.

    Raises:
        Overtaken: it is not.
    """
    try:
        thread = log.load(unit, seen.id)
    except Erased:
        raise Overtaken from None
    if (thread.next, thread.generation) != (seen.next, seen.generation):
        raise Overtaken
    return thread


def made(unit: Unit, key: str, *, title: str | None = None) -> ThreadRow:
    """Make a thread.

    Raises:
        Overtaken: somebody took the key.
    """
    _free(unit, key)
    return log.create(unit, key, title=title)


def forked(unit: Unit, parent: ThreadRow, at: int, key: str, *, title: str | None = None) -> ThreadRow:
    """Fork a thread that is as it was seen; it is looked at when it is locked, which forking does in the right order.

    Raises:
        Overtaken: it is not, or somebody took the key.
    """
    _free(unit, key)
    try:
        thread = log.fork(unit, parent.id, at, key, title=title)
    except Erased:
        if log.key_of(unit, parent.id) is None:
            raise Overtaken from None
        raise
    unchanged(unit, parent)
    return thread


def free_key(unit: Unit, key: str) -> str:
    """Return the first name of `key~1`, `key~2` … that no thread has."""
    names = (log.variant(key, n) for n in count(1))
    return next(name for name in names if log.known(unit, name) is None)


def _free(unit: Unit, key: str) -> None:
    if log.known(unit, key) is not None:
        raise Overtaken
