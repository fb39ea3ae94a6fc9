"""A unit of work: a short, idempotent function of one tenant, run in one transaction and retried whole.

The function gets a `Unit`: it reads and writes rows of its tenant only, seals and opens values, and knows one time.
It must not call a model, a network or another unit, and it must bear being run again from the start. On PostgreSQL
statements are sent in a pipeline: `ask` sends and waits only when its answer is used, `run` waits for nothing, so a
unit that asks first and writes last takes two round trips.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeAlias

from sqlalchemy import Column

from everlog.clock import Clock, micros
from everlog.errors import KeyTrouble
from everlog.store import rows
from everlog.store.keys import PLAIN, DataKey, version_of
from everlog.store.statements import Compiled, Compiler, Statement
from everlog.store.vault import TENANT_OWNER, Vault

Row: TypeAlias = tuple[Any, ...]
Params: TypeAlias = Mapping[str, Any]
Answer: TypeAlias = Callable[[], list[Row]]

_SECRET_BYTES = 32


class Connection(Protocol):
    """What a unit needs of an engine's open transaction."""

    compiler: Compiler

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


class Unit:
    """What a unit of work sees of the database."""

    def __init__(self, tenant: str, connection: Connection, vault: Vault, clock: Clock, *, writes: bool) -> None:
        self.tenant = tenant
        self.clock = clock
        self.now: datetime = clock.now()
        self.now_us = micros(self.now)
        self.writes = writes
        self._connection = connection
        self._vault = vault
        connection.enter(tenant)
        self._state: Answer | None = self.ask(rows.STATE) if writes else None
        self._sealing: dict[str, DataKey] = {}
        self._opening: dict[tuple[str, int], DataKey] = {}
        self._expected: dict[str, Answer] = {}
        self._secret: bytes | None = None

    def ask(self, statement: Statement, **params: Any) -> Answer:
        """Start a query; call what is returned to get its rows."""
        compiled = self._connection.compiler(statement)
        return self._connection.ask(compiled, {**compiled.fixed, **params, "tenant": self.tenant})

    def rows(self, statement: Statement, **params: Any) -> list[Row]:
        """Return all rows of a query."""
        return self.ask(statement, **params)()

    def row(self, statement: Statement, **params: Any) -> Row | None:
        """Return the first row of a query, or None."""
        found = self.ask(statement, **params)()
        return found[0] if found else None

    def run(self, statement: Statement, params: Params | Sequence[Params] = ()) -> None:
        """Write, once for each parameter set; nothing is returned."""
        compiled = self._connection.compiler(statement)
        many = [params] if isinstance(params, Mapping) else params or [{}]
        mine = {**compiled.fixed, "tenant": self.tenant}
        self._connection.run(compiled, [{**one, **mine} for one in many])

    def count(self, statement: Statement, **params: Any) -> int:
        """Write once and return how many rows changed; the condition of a compare-and-set."""
        compiled = self._connection.compiler(statement)
        return self._connection.count(compiled, {**compiled.fixed, **params, "tenant": self.tenant})

    def expect(self, owner: str) -> None:
        """Say early that values of an owner will be sealed, so that its key comes with the next answer."""
        if owner not in self._sealing and owner not in self._expected and self._vault.provider is not None:
            self._expected[owner] = self.ask(rows.KEYS_TO_WRITE, owner=owner)

    def seal(self, column: "Column[Any]", key: Sequence[object], plain: bytes) -> bytes:
        """Return `plain` as it is stored in `column` of the row with this key (tenant left out, owner first)."""
        data_key = self.sealing_key(str(key[0]))
        return PLAIN + plain if data_key is None else data_key.seal(plain, self._place(column, key), self.clock)

    def open(self, column: "Column[Any]", key: Sequence[object], sealed: bytes) -> bytes:
        """Return what `seal` was given.

        Raises:
            Erased: the owner's key is gone.
            Damaged: the value was changed or moved.
        """
        sealed = bytes(sealed)
        version = version_of(sealed)
        if not version:
            return sealed[1:]
        return self.opening_key(str(key[0]), version).open(sealed, self._place(column, key))

    def sealing_key(self, owner: str) -> DataKey | None:
        """Return the newest key of an owner, made if it is the first; None where the store is not encrypted."""
        known = self._sealing.get(owner)
        if known is not None:
            return known
        if not self.encrypted:
            return None
        expected = self._expected.pop(owner, None)
        found = expected() if expected else self.rows(rows.KEYS_TO_WRITE, owner=owner)
        self._sealing[owner] = key = self._vault.newest(self, owner, found)
        return key

    def opening_key(self, owner: str, version: int) -> DataKey:
        """Return one version of an owner's key."""
        known = self._opening.get((owner, version))
        if known is None:
            self._opening[owner, version] = known = self._vault.version(self, owner, version)
        return known

    def renew_key(self, owner: str, version: int) -> DataKey:
        """Make a further version of an owner's key; what this unit seals from now on is sealed with it."""
        self._sealing[owner] = key = self._vault.renew(self, owner, version)
        return key

    @property
    def encrypted(self) -> bool:
        """Whether what this unit writes is sealed."""
        if self._state is None:
            self._state = self.ask(rows.STATE)
        found = self._state()
        self._state = lambda: found
        on = ("encryption", "off") not in found
        if on and self._vault.provider is None:
            raise KeyTrouble(
                "this database is encrypted; set EVERLOG_MASTER_KEY, or name the key file, that it was written with"
            )
        return on

    @property
    def master_key_name(self) -> str:
        """Name of the master key that wraps now; empty where the store is not encrypted."""
        provider = self._vault.provider
        return provider.name if provider is not None and self.encrypted else ""

    def secret(self) -> bytes:
        """Return the tenant's secret, which keys its fingerprints and hashes; a writing unit makes it if need be."""
        if self._secret is None:
            found = self.row(rows.GET_TENANT)
            column = rows.tenant.c.secret
            if found is not None:
                self._secret = self.open(column, (TENANT_OWNER,), found[1])
            else:
                self._secret = self.clock.random(_SECRET_BYTES)
                if self.writes:
                    sealed = self.seal(column, (TENANT_OWNER,), self._secret)
                    made = {"created_at": self.now_us, "generation": 0, "secret": sealed}
                    self.run(rows.PUT_TENANT, made)
        return self._secret

    def _place(self, column: "Column[Any]", key: Sequence[object]) -> bytes:
        return "\x1f".join((self.tenant, column.table.name, column.name, *map(str, key))).encode()


def as_json(params: Params) -> dict[str, Any]:
    """Return parameters with lists as JSON text, which is how SQLite takes them."""
    return {name: json.dumps(value) if isinstance(value, list) else value for name, value in params.items()}
