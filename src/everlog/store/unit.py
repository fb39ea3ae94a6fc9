"""A unit of work: a short, idempotent function of one tenant, run in one transaction and retried whole.

The function gets a `Unit`: it reads and writes rows of its tenant only, seals and opens values, and knows one time.
It must not call a model, a network or another unit, and it must bear being run again from the start. On PostgreSQL
statements are sent in a pipeline: `ask` sends and waits only when its answer is used, `run` waits for nothing, so a
unit that asks first and writes last takes two round trips.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from sqlalchemy import Column

from everlog.clock import Clock, micros
from everlog.errors import Damaged, KeyTrouble
from everlog.store import rows
from everlog.store.engine import Answer, Connection, Params, Row
from everlog.store.keys import MISSING_KEY, PLAIN, DataKey, version_of
from everlog.store.statements import Compiled, Statement
from everlog.store.vault import TENANT_OWNER, Vault

_SECRET_BYTES = 32
_NONE: Params = MappingProxyType({})


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
        early = writes and connection.pipelined
        self._state: Answer | None = self.ask(rows.STATE) if early else None
        self._tenant_row: Answer | None = None
        self._tenant_keys: Answer | None = None
        if early and vault.provider is not None:
            self._tenant_keys = self.ask(rows.KEYS_OF, owner=TENANT_OWNER)
        self._encrypted: bool | None = None
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

    def run(self, statement: Statement, params: Params | Sequence[Params] = _NONE) -> None:
        """Write, once for each parameter set; nothing is returned."""
        compiled = self._writing(statement)
        many = [params] if isinstance(params, Mapping) else params
        if many:
            self._connection.run(compiled, [{**compiled.fixed, **one, "tenant": self.tenant} for one in many])

    def count(self, statement: Statement, **params: Any) -> int:
        """Write once and return how many rows changed; the condition of a compare-and-set."""
        compiled = self._writing(statement)
        return self._connection.count(compiled, {**compiled.fixed, **params, "tenant": self.tenant})

    def expect(self, owner: str) -> None:
        """Say early that values of an owner will be sealed, so that its key comes with the next answer."""
        if owner not in self._sealing and owner not in self._expected and self._vault.provider is not None:
            self._expected[owner] = self._ask_keys(owner)

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
            if self._vault.complete:
                raise Damaged("a value stands unsealed in a database that is encrypted throughout")
            return sealed[1:]
        return self.opening_key(str(key[0]), version).open(sealed, self._place(column, key))

    def sealing_key(self, owner: str) -> DataKey | None:
        """Return the newest key of an owner, made if it is the first; None where the store is not encrypted."""
        known = self._sealing.get(owner)
        if known is not None:
            return known
        if not self.encrypted:
            return None
        expected = self._expected.pop(owner, None) or self._ask_keys(owner)
        self._sealing[owner] = key = self._vault.newest(self, owner, expected())
        return key

    def opening_key(self, owner: str, version: int) -> DataKey:
        """Return one version of an owner's key."""
        known = self._opening.get((owner, version))
        if known is None:
            sealing = self._sealing.get(owner)
            if sealing and sealing.version == version:
                known = sealing
            else:
                asked = self._tenant_keys if owner == TENANT_OWNER else None
                found = (asked or self.ask(rows.KEYS_OF, owner=owner))()
                known = self._vault.version(self, owner, version, found)
            self._opening[owner, version] = known
        return known

    def renew_key(self, owner: str, version: int) -> DataKey:
        """Make a further version of an owner's key; what this unit seals from now on is sealed with it."""
        self._sealing[owner] = key = self._vault.renew(self, owner, version)
        return key

    @property
    def encrypted(self) -> bool:
        """Whether what this unit writes is sealed."""
        if self._encrypted is None:
            state = self._state or self.ask(rows.STATE)
            self._encrypted = ("encryption", "off") not in state()
        if self._encrypted and self._vault.provider is None:
            raise KeyTrouble(MISSING_KEY)
        return self._encrypted

    @property
    def master_key_name(self) -> str:
        """Name of the master key that wraps now; empty where the store is not encrypted."""
        provider = self._vault.provider
        return provider.name if provider is not None and self.encrypted else ""

    def secret(self) -> bytes:
        """Return the tenant's secret, which keys its fingerprints and hashes; a writing unit makes it if need be."""
        if self._secret is None:
            found = (self._tenant_row or self.ask(rows.GET_TENANT))()
            column = rows.tenant.c.secret
            if found:
                self._secret = self.open(column, (TENANT_OWNER,), found[0][1])
            else:
                self._secret = self.clock.random(_SECRET_BYTES)
                if self.writes:
                    sealed = self.seal(column, (TENANT_OWNER,), self._secret)
                    made = {"created_at": self.now_us, "generation": 0, "secret": sealed}
                    self.run(rows.PUT_TENANT, made)
        return self._secret

    def reread_tenant(self) -> None:
        """Say that a lock was asked for that keeps the tenant from being erased, so its secret is read after that.

        Where others commit meanwhile, the tenant that was there before the lock may be gone, and another one of its
        name may have begun under a secret of its own.
        """
        if self.writes and not self._connection.alone:
            self._secret = None
            self._tenant_row = self.ask(rows.GET_TENANT) if self._connection.pipelined else None

    def _writing(self, statement: Statement) -> Compiled:
        if not self.writes:
            raise RuntimeError("a reading unit cannot write; use write instead of read")
        return self._connection.compiler(statement)

    def _ask_keys(self, owner: str) -> Answer:
        """Ask for an owner's key versions, newest first, none of which can be replaced until this unit ends.

        Where others commit meanwhile, the rows are locked and then read again: who had to wait for the lock was given
        what stood there before the wait.
        """
        if self._connection.alone:
            return self.ask(rows.KEYS_OF, owner=owner)
        locked, now = self.ask(rows.KEYS_TO_WRITE, owner=owner), self.ask(rows.KEYS_OF, owner=owner)

        def answer() -> list[Row]:
            found = now()
            return found if locked()[:1] == found[:1] else self._ask_keys(owner)()

        return answer

    def _place(self, column: "Column[Any]", key: Sequence[object]) -> bytes:
        return "\x1f".join((self.tenant, column.table.name, column.name, *map(str, key))).encode()
