"""Keys and sealing: what turns text into rows nobody else can read.

Three levels. A *master key* (from the environment, a file, or a `KeyProvider` of the user's own) wraps one key per
tenant; the tenant's key wraps one *data key* per owner (a thread, a fact scope). Values are sealed with AES-256-GCM
(NIST SP 800-38D, random 96-bit nonces) under the owner's data key and bound to their place, so that a value moved to
another row, column or tenant does not open.

A sealed value begins with a mark: 0 for plain, which is how a store without encryption keeps everything, or 1, then
the version of the data key, the nonce and the ciphertext. This module is pure but for reading a key file.
"""

import base64
import hashlib
import hmac
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from everlog.clock import Clock
from everlog.errors import Damaged, KeyTrouble, Mistake
from everlog.store.newfile import contents, unwritable

KEY_BYTES = 32
NONCE_BYTES = 12
PLAIN = b"\x00"
SEALED = b"\x01"
_HEADER = 1 + 4 + NONCE_BYTES

MISSING_KEY = "this database is encrypted; open it with the master keys it was written with (`keys=`)"
KEY_FILE_BYTES = 65_536
MAKE_ONE = "make one with `everlog keys new`"


@runtime_checkable
class KeyProvider(Protocol):
    """Wraps the tenants' keys; a key-management service fits behind it (one call per tenant, not per thread)."""

    @property
    def name(self) -> str:
        """Name of the key that wraps now; stored beside what it wrapped."""
        ...

    def wrap(self, key: bytes, place: bytes, nonce: bytes) -> bytes:
        """Return `key` wrapped and bound to `place`; `nonce` is 12 fresh random bytes."""
        ...

    def unwrap(self, name: str, wrapped: bytes, place: bytes) -> bytes:
        """Return the key that was wrapped under the key called `name`.

        Raises:
            KeyTrouble: the provider does not hold that key, or it does not open.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterKeys:
    """Master keys held in memory: the first wraps, all of them unwrap."""

    keys: Sequence[bytes] = field(repr=False)

    def __post_init__(self) -> None:
        if not self.keys or any(len(key) != KEY_BYTES for key in self.keys):
            raise KeyTrouble(f"a master key is {KEY_BYTES} bytes, and there must be one; {MAKE_ONE}")

    @classmethod
    def parse(cls, text: str) -> "MasterKeys":
        """Read one or more base64 keys separated by spaces or commas, the newest first.

        Raises:
            KeyTrouble: not base64, or not 32 bytes each.
        """
        if not text.strip():
            raise KeyTrouble(f"the master key is empty; {MAKE_ONE}")
        try:
            return cls(keys=[base64.b64decode(word, validate=True) for word in text.replace(",", " ").split()])
        except ValueError as error:
            raise KeyTrouble(f"the master key is not base64 of {KEY_BYTES} bytes; {MAKE_ONE}") from error

    @classmethod
    def read(cls, path: str | Path) -> "MasterKeys":
        """Read a key file, in the form that `parse` takes.

        Raises:
            KeyTrouble: it cannot be read, or holds no keys.
        """
        try:
            return cls.parse(contents(Path(path), KEY_FILE_BYTES).decode("ascii"))
        except OSError as error:
            raise KeyTrouble(f"the key file {path} cannot be read: {error.strerror}; {MAKE_ONE}") from error
        except KeyTrouble as error:
            raise KeyTrouble(f"the key file {path}: {error}") from error
        except UnicodeDecodeError as error:
            raise KeyTrouble(f"the key file {path} is not text; it holds one base64 key a line, {MAKE_ONE}") from error
        except Mistake as error:
            raise KeyTrouble(f"the key file {error}") from error

    def text(self) -> str:
        """Return the keys as `parse` takes them, one a line."""
        return "\n".join(base64.b64encode(key).decode("ascii") for key in self.keys)

    @property
    def name(self) -> str:
        return _name(self.keys[0])

    def wrap(self, key: bytes, place: bytes, nonce: bytes) -> bytes:
        return nonce + AESGCM(self.keys[0]).encrypt(nonce, key, place)

    def unwrap(self, name: str, wrapped: bytes, place: bytes) -> bytes:
        for key in self.keys:
            if hmac.compare_digest(_name(key).encode(), name.encode()):
                try:
                    return AESGCM(key).decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], place)
                except (InvalidTag, ValueError) as error:
                    raise KeyTrouble("a tenant's key does not open under the master key it names") from error
        given = ", ".join(map(_name, self.keys))
        raise KeyTrouble(f"this database was written with master key {name}, but the one given is {given}")


def new_master_key(clock: Clock) -> str:
    """Return a fresh master key as base64, ready for the environment or a file."""
    return base64.b64encode(clock.random(KEY_BYTES)).decode("ascii")


class DataKey:
    """One version of an owner's data key: seals and opens values."""

    __slots__ = ("_cipher", "secret", "version")

    def __init__(self, version: int, secret: bytes) -> None:
        self.version = version
        self.secret = secret
        self._cipher = AESGCM(secret)

    def seal(self, plain: bytes, place: bytes, clock: Clock) -> bytes:
        """Return `plain` encrypted and bound to `place`."""
        nonce = clock.random(NONCE_BYTES)
        header = SEALED + self.version.to_bytes(4, "big") + nonce
        return header + self._cipher.encrypt(nonce, plain, place)

    def open(self, sealed: bytes, place: bytes) -> bytes:
        """Return what was sealed.

        Raises:
            Damaged: the value was changed, or belongs to another place.
        """
        try:
            return self._cipher.decrypt(sealed[5:_HEADER], sealed[_HEADER:], place)
        except (InvalidTag, ValueError) as error:
            raise Damaged("a stored value does not open under its own key: it was changed or moved") from error


def version_of(sealed: bytes) -> int:
    """Return the version of the data key a value is sealed with; 0 for a plain value.

    Raises:
        Damaged: it is neither.
    """
    if sealed[:1] == PLAIN:
        return 0
    if sealed[:1] == SEALED and len(sealed) > _HEADER:
        return int.from_bytes(sealed[1:5], "big")
    raise Damaged("a stored value is neither plain nor sealed: it was changed")


def digest(secret: bytes, *parts: bytes) -> bytes:
    """Return a keyed 128-bit digest over parts, each preceded by its length (BLAKE2b, RFC 7693)."""
    state = hashlib.blake2b(key=secret, digest_size=16)
    for part in parts:
        state.update(len(part).to_bytes(8, "big"))
        state.update(part)
    return state.digest()


def master_keys(environment: str | None, key_file: Path | None) -> MasterKeys | None:
    """Return the master keys named at the edge: a file wins over the environment's value; None if neither is there."""
    if key_file is not None:
        return MasterKeys.read(key_file)
    return MasterKeys.parse(environment) if environment and environment.strip() else None


def _name(key: bytes) -> str:
    return hashlib.blake2b(b"everlog master key name", key=key, digest_size=6).hexdigest()


def write_key_file(path: Path, text: str) -> None:
    """Write a new key file that only its owner can read, down to the disk; an existing one is never overwritten.

    Raises:
        KeyTrouble: there is such a file.
        StoreUnavailable: it cannot be written; nothing is left of it.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise KeyTrouble(f"{path} exists already; a key file is never overwritten, name another") from error
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(descriptor)
    except OSError as error:
        path.unlink()
        raise unwritable(path, error) from error
