"""What the row says that tells whether a database is encrypted, and why it is believed.

`off`, `on` (begun, not finished) or `complete`. Whoever can write the database can change the row, so each direction is
guarded. While it is `on`, plain values are taken for stored: it is believed only with a proof that whoever began had the
master key, a fixed token that this key wraps. `off` is not believed of a database that has keys, and nothing is taken
back that was seen before by the same process.
"""

import base64
import hashlib

from everlog.clock import Clock
from everlog.errors import Damaged, KeyTrouble
from everlog.store.keys import KEY_BYTES, NONCE_BYTES, KeyProvider

OFF, ON, COMPLETE = "off", "on", "complete"

FLIPPED = (
    "this database is marked as encrypted less than it was: the mark was changed by somebody else; restore a backup"
)
_FORGED = (
    "this database is marked as half encrypted, but {}; if its encryption had been finished, the mark was changed by"
    " somebody else: restore a backup"
)
_UNKNOWN = "what this database says of its encryption was changed by somebody else; restore a backup"

_TOKEN = hashlib.blake2b(b"everlog: encryption has begun", digest_size=KEY_BYTES).digest()
_PLACE = b"\x1fstore_state\x1fencryption\x1fon"
"""No tenant's name is empty, so what is wrapped for a tenant is of another place."""


def word(value: str | None) -> str:
    """Return `off`, `on` or `complete`.

    Raises:
        Damaged: the row says something else, or is missing.
    """
    first = (value or "").partition(" ")[0]
    if first == ON or value in (OFF, COMPLETE):
        return first
    raise Damaged(_UNKNOWN)


def begun(provider: KeyProvider, clock: Clock) -> str:
    """Return what the row says when encryption begins: `on`, the proof, and the name of the master key."""
    wrapped = provider.wrap(_TOKEN, _PLACE, clock.random(NONCE_BYTES))
    return f"{ON} {base64.b64encode(wrapped).decode('ascii')} {provider.name}"


def prove(provider: KeyProvider, value: str) -> None:
    """Make sure that encryption was begun by somebody who had one of the master keys given.

    Raises:
        Damaged: nothing proves it.
    """
    _, _, proof = value.partition(" ")
    wrapped, _, name = proof.partition(" ")
    if not name:
        raise Damaged(_FORGED.format("nothing proves that whoever began it had its master key"))
    try:
        token = provider.unwrap(name, base64.b64decode(wrapped, validate=True), _PLACE)
    except (KeyTrouble, ValueError) as error:
        what = f"the master key given does not prove that; it names {name!r} as the one that began: give that one too"
        raise Damaged(_FORGED.format(what)) from error
    if token != _TOKEN:
        raise Damaged(_FORGED.format("its proof is of something else"))
