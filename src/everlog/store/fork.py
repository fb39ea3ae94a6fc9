"""Keeping a store across `fork()`: nobody is inside the database at that moment, and no open file is inherited.

SQLite knows its locks once per process. A child that inherits an open file believes that it holds what its parent held
at that moment: it reads without a lock, or waits for the write lock for ever (measured). So just before a fork whoever
works in a file finishes, all files are closed, and both sides open them anew when they next need them.
"""

import os
import threading
import time
import weakref
from types import TracebackType
from typing import Protocol

WAIT_S = 15.0
"""How long a fork waits for a unit that runs; a little longer than a unit waits for the write lock."""


class Forkable(Protocol):
    """An engine that is told of forks."""

    def before_fork(self) -> None:
        """Close what must not be inherited."""
        ...

    def after_fork_in_parent(self) -> None:
        """Go on."""
        ...

    def after_fork_in_child(self) -> None:
        """Begin anew."""
        ...


class Gate:
    """Counts who is inside, and can be held shut until nobody is."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._inside: dict[int, int] = {}
        self._held_by: int | None = None

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._changed:
            while self._held_by not in (None, me):
                self._changed.wait()
            self._inside[me] = self._inside.get(me, 0) + 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        me = threading.get_ident()
        with self._changed:
            self._inside[me] -= 1
            if not self._inside[me]:
                del self._inside[me]
            self._changed.notify_all()

    def shut(self) -> bool:
        """Let nobody else in, and wait until all others are out, but not for ever; return whether they are."""
        me = threading.get_ident()
        until = time.monotonic() + WAIT_S
        with self._changed:
            self._changed.wait_for(lambda: self._held_by is None, WAIT_S)
            self._held_by = me
            return self._changed.wait_for(lambda: not self._inside.keys() - {me}, until - time.monotonic())

    def open(self) -> None:
        """Let them in again."""
        with self._changed:
            self._held_by = None
            self._changed.notify_all()


class _Hooks:
    """What is done around each fork of this process; one thread forks at a time."""

    def __init__(self) -> None:
        self.engines: weakref.WeakSet[Forkable] = weakref.WeakSet()
        self._told: list[Forkable] = []
        self._forking = threading.Lock()

    def before(self) -> None:
        self._forking.acquire()
        self._told = list(self.engines)
        for engine in self._told:
            engine.before_fork()

    def after_in_parent(self) -> None:
        for engine in self._told:
            engine.after_fork_in_parent()
        self._forking.release()

    def after_in_child(self) -> None:
        for engine in self._told:
            engine.after_fork_in_child()
        self._forking = threading.Lock()


_hooks = _Hooks()
os.register_at_fork(before=_hooks.before, after_in_parent=_hooks.after_in_parent, after_in_child=_hooks.after_in_child)


def survive(engine: Forkable) -> None:
    """Tell an engine of every fork for as long as it lives."""
    _hooks.engines.add(engine)
