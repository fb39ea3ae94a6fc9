"""What the store needs of a database engine, and what a unit needs of the transaction that it runs in."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeAlias, TypeVar

from everlog.store.statements import Compiled, Compiler

T = TypeVar("T")

Row: TypeAlias = tuple[Any, ...]
Params: TypeAlias = Mapping[str, Any]
Answer: TypeAlias = Callable[[], list[Row]]

THREADS = 8
"""Threads, and server connections, of one engine."""


class Connection(Protocol):
    """One open transaction."""

    compiler: Compiler
    alone: bool
    """Whether nothing else can commit while it is open, so that what was read stays so."""
    pipelined: bool
    """Whether asking early saves waiting later."""

    def enter(self, tenant: str) -> None:
        """Hold the transaction to a tenant, where the engine itself can (row-level security)."""
        ...

    def ask(self, compiled: Compiled, params: Params) -> Answer:
        """Start a query and return how to wait for its rows."""
        ...

    def run(self, compiled: Compiled, params: Sequence[Params]) -> None:
        """Write once for each parameter set, at the latest when the transaction commits."""
        ...

    def count(self, compiled: Compiled, params: Params) -> int:
        """Write once and return how many rows changed."""
        ...

    def touch(self) -> None:
        """Write what changes nothing, so that the commit shows whether something can be written."""
        ...


class Engine(Protocol):
    """Runs units, each in one transaction; thread-safe."""

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        ...

    def write(self, name: str, act: Callable[[Connection], T]) -> T:
        """Run a unit and return its result when it is committed.

        Raises:
            StoreUnavailable: it left nothing.
        """
        ...

    def submit(self, name: str, act: Callable[[Connection], T]) -> "Future[T]":
        """As `write`, without waiting; a unit whose future is cancelled before it began is not run."""
        ...

    def read(self, act: Callable[[Connection], T]) -> T:
        """Run a unit that only reads, in one snapshot."""
        ...

    def submit_read(self, act: Callable[[Connection], T]) -> "Future[T]":
        """As `read`, without waiting."""
        ...

    def close(self) -> None:
        """Finish what was submitted and let go of the database."""
        ...
