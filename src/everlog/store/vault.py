"""The keys in use: which version seals, which opens, kept unwrapped in memory only.

A unit that seals asks the database for the newest version each time, under a shared row lock where the engine has
them, so that rotation in another process can never strand a row under a version that is gone. Opening takes the
version from the value and a small cache. Which owner has a key is a fact of the database; erasing the row shreds it.
"""

from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from everlog.errors import Damaged, Erased, KeyTrouble
from everlog.store import rows, state
from everlog.store.keys import KEY_BYTES, MISSING_KEY, NONCE_BYTES, DataKey, KeyProvider

if TYPE_CHECKING:
    from everlog.store.unit import Unit

_CACHED_KEYS = 4096
_VERSION_DIGITS = 10
TENANT_OWNER = ""


class KeyGone(Erased):
    """A value names a key that is not there: its owner was erased, or, where others commit meanwhile, rotated."""


class Vault:
    """Hands out data keys for one store."""

    def __init__(self, provider: KeyProvider | None) -> None:
        self.provider = provider
        self.complete = False
        """Whether the database was seen to be encrypted throughout, which no other process can take back."""
        self._begun = False
        self._proved: set[str] = set()
        self._open: dict[tuple[str, str, int, bytes], DataKey] = {}

    def believe(self, value: str | None) -> str:
        """Return what the row of state says, `off`, `on` or `complete`; a store without keys can only take its word.

        Raises:
            Damaged: it cannot be so.
        """
        said = state.word(value)
        if self.provider is None:
            return said
        if (said == state.OFF and self._begun) or (said == state.ON and self.complete):
            raise Damaged(state.FLIPPED)
        if said == state.ON and value not in self._proved:
            assert value is not None
            state.prove(self.provider, value)
            self._proved.add(value)
        self._begun = self._begun or said != state.OFF
        self.complete = self.complete or said == state.COMPLETE
        return said

    def newest(self, unit: "Unit", owner: str, found: list[tuple[Any, ...]]) -> DataKey:
        """Return the key that seals now; `found` are the owner's key rows, newest first; the first one is made."""
        if found:
            version, wrapper, wrapped = found[0]
            return self._unwrapped(unit, owner, version, wrapper, wrapped)
        return self.renew(unit, owner, 1)

    def renew(self, unit: "Unit", owner: str, version: int) -> DataKey:
        """Make, store and return a fresh key of the owner."""
        secret = unit.clock.random(KEY_BYTES)
        wrapper, wrapped = self.wrap(unit, owner, version, secret)
        unit.run(
            rows.PUT_KEY,
            {
                "owner": owner,
                "version": version,
                "wrapper": wrapper,
                "wrapped": wrapped,
                "created_at": unit.now_us,
            },
        )
        return self._remember((unit.tenant, owner, version, wrapped), DataKey(version, secret))

    def wrap(self, unit: "Unit", owner: str, version: int, secret: bytes) -> tuple[str, bytes]:
        """Return the name of the wrapping key and the wrapped secret."""
        nonce = unit.clock.random(NONCE_BYTES)
        place = _place(unit.tenant, owner, version)
        if owner == TENANT_OWNER:
            provider = self._provider()
            return provider.name, provider.wrap(secret, place, nonce)
        parent = unit.sealing_key(TENANT_OWNER)
        assert parent is not None
        return f"tenant/{parent.version}", nonce + AESGCM(parent.secret).encrypt(nonce, secret, place)

    def version(self, unit: "Unit", owner: str, version: int, found: list[tuple[Any, ...]]) -> DataKey:
        """Return the version of an owner's key that a value names; `found` are the owner's key rows.

        Raises:
            KeyGone: the key is gone, so nothing sealed with it can be read again.
        """
        for number, wrapper, wrapped in found:
            if number == version:
                return self._unwrapped(unit, owner, version, wrapper, wrapped)
        raise KeyGone("the key of this thread is gone: it was erased")

    def _unwrapped(self, unit: "Unit", owner: str, version: int, wrapper: str, wrapped: bytes) -> DataKey:
        known = self._open.get((unit.tenant, owner, version, wrapped))
        if known is not None:
            return known
        place = _place(unit.tenant, owner, version)
        if owner == TENANT_OWNER:
            secret = self._provider().unwrap(wrapper, wrapped, place)
        else:
            parent = unit.opening_key(TENANT_OWNER, tenant_version(wrapper))
            try:
                secret = AESGCM(parent.secret).decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], place)
            except (InvalidTag, ValueError) as error:
                raise Damaged("a thread's key does not open under its tenant's key") from error
        return self._remember((unit.tenant, owner, version, wrapped), DataKey(version, secret))

    def _remember(self, at: tuple[str, str, int, bytes], key: DataKey) -> DataKey:
        if len(self._open) >= _CACHED_KEYS:
            self._open.clear()
        self._open[at] = key
        return key

    def _provider(self) -> KeyProvider:
        if self.provider is None:
            raise KeyTrouble(MISSING_KEY)
        return self.provider


def tenant_version(wrapper: str) -> int:
    """Return which version of the tenant's key wraps a key, by the name that stands beside it.

    Raises:
        Damaged: it is no such name.
    """
    version = wrapper.removeprefix("tenant/")
    if not (version.isascii() and version.isdecimal() and len(version) <= _VERSION_DIGITS):
        raise Damaged("a row of the table 'wrapped_key' is damaged: it names no key; a backup has what was stored")
    return int(version)


def _place(tenant: str, owner: str, version: int) -> bytes:
    return f"{tenant}\x1fwrapped_key\x1f{owner}\x1f{version}".encode()
