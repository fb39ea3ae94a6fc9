"""Every error Everlog raises on purpose.

    EverlogError
    ├── Mistake               the caller can put it right: a wrong name, number, file or option
    │   ├── UnknownThread       no such thread for this tenant
    │   ├── UnknownAddress      no such line, message or page in this thread
    │   ├── Conflict            the same client key or id, with other content
    │   ├── BudgetTooSmall      a view budget under 256 bytes
    │   ├── PartTooLarge        an image, sound or file above the limit
    │   ├── UnknownModel        no such model at any provider, or at the one that was named
    │   ├── UnsupportedAttachment  an image, sound or file that a model's protocol cannot carry
    │   ├── BadImport           a file, or a conversation in it, that cannot be read
    │   └── KeyTrouble          a master key is missing, malformed, or opens nothing here
    └── Trouble               the world is in the way: disk, lock, server, damage
        ├── StoreUnavailable    the database cannot be reached or written now; nothing was stored
        ├── SchemaMismatch      the database is newer, or older, than this version of Everlog
        ├── Damaged             stored rows contradict each other or their hashes
        ├── Erased              the thread was erased; the write or read was dropped
        └── PumpTimeout         a pass of the pump took longer than its limit

A message says what failed, with which values, and what to do. It never holds the text of a conversation.
"""


class EverlogError(Exception):
    """Base of all errors raised by Everlog on purpose."""


class Mistake(EverlogError, ValueError):
    """The caller gave something that cannot be used; the message says what would be right."""


def expect(value: object, kind: type | tuple[type, ...], what: str) -> None:
    """Make sure that a value is of its kind; `what` says which value, and which kind: `an author is a str or None`.

    Raises:
        Mistake: it is not.
    """
    if not isinstance(value, kind):
        raise Mistake(f"{what}, not {type(value).__name__}")


class UnknownThread(Mistake):
    """No thread of this tenant has the key."""


class UnknownAddress(Mistake):
    """No line, message or page stands at the address."""


class Conflict(Mistake):
    """A client key or id was used before, with other content."""


class BudgetTooSmall(Mistake):
    """A view cannot be promised in so few bytes."""


class PartTooLarge(Mistake):
    """An image, sound or file is larger than the store takes."""


class UnknownModel(Mistake):
    """No provider has a model of that name, as far as is known."""


class UnsupportedAttachment(Mistake):
    """A model's protocol has no form for an image, a sound or a file of this type."""


class BadImport(Mistake):
    """A file, or one conversation in it, cannot be read."""


class KeyTrouble(Mistake):
    """The master key is missing, malformed, or not the one that this database was written with."""


class Trouble(EverlogError):
    """Something outside the call failed; the same call may succeed later."""


class StoreUnavailable(Trouble):
    """The database cannot be reached or written; nothing of the unit was stored."""


class SchemaMismatch(Trouble):
    """The tables are of another version than this code."""


class Damaged(Trouble):
    """Stored rows contradict each other or their hashes."""


class Erased(Trouble):
    """The thread was erased while, or before, the call ran."""


class PumpTimeout(Trouble):
    """A pass of the pump took longer than its limit and was abandoned."""
