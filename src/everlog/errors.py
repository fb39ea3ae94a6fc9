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
    │   ├── PendingCalls        calls of a chat's last response have no result yet
    │   ├── MissingCredentials  no key for a model's provider, or one that cannot be sent
    │   ├── ProtocolError       a chat, or a fallback of it, that does not speak the protocol that is required
    │   └── KeyTrouble          a master key is missing, malformed, or opens nothing here
    └── Trouble               the world is in the way: disk, lock, server, damage
        ├── StoreUnavailable    the database cannot be reached or written now; nothing was stored
        ├── SchemaMismatch      the database is newer, or older, than this version of Everlog
        ├── Damaged             stored rows contradict each other or their hashes
        ├── Erased              the thread was erased; the write or read was dropped
        ├── PumpTimeout         a pass of the pump took longer than its limit
        ├── Cancelled           the caller cancelled; what was begun was stopped
        └── ProviderTrouble     a model's provider refused, failed, or cannot be reached
            ├── BadRequest        it takes no such request: 400, and 4xx that nothing else names
            │   └── ContextTooLong  the conversation does not fit into the model's context
            ├── Unauthorized      401: it does not know the key
            ├── PaymentRequired   402
            ├── Forbidden         403: the key may not do this
            ├── RateLimited       429, after all retries
            ├── ProviderFailed    500, and 5xx that nothing else names
            ├── ProviderUnavailable  502, 503, 504
            ├── Overloaded        529
            ├── ProviderTimeout   nothing came in time
            ├── ConnectionFailed  the connection broke before the answer was whole
            │   └── NeverSent       no connection could be made
            └── BadReply          the answer is empty or cannot be read

A message says what failed, with which values, and what to do. It never holds the text of a conversation.
"""

from typing import Any


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


def expect_number(value: object, what: str, *, whole: bool = False) -> None:
    """Make sure that a value is a finite number of at least 0.

    Raises:
        Mistake: it is not.
    """
    fits = type(value) is int or (type(value) is float and not whole)
    if not fits or not 0 <= value < float("inf"):  # type: ignore[operator]
        raise Mistake(f"{what} is a {'whole' if whole else 'finite'} number of at least 0, not {value!r}")


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


class PendingCalls(Mistake):
    """Calls of a chat's last response have no result yet, so nothing can be said behind it."""


class MissingCredentials(Mistake):
    """A provider wants a key, and none was given, or it is one that no header can carry."""


class ProtocolError(Mistake):
    """One protocol is required, and a chat, or one of its fallbacks, speaks another; nothing was sent."""


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


class Cancelled(Trouble):
    """The caller cancelled, and this was the next place to stop at."""


class ProviderTrouble(Trouble):
    """A model's provider refused, failed, or cannot be reached."""

    def __init__(
        self,
        message: str,
        *,
        provider: str | None = None,
        model: str | None = None,
        status: int | None = None,
        kind: str | None = None,
        detail: str | None = None,
        retry_after_s: float | None = None,
        request_id: str | None = None,
        finish: str | None = None,
    ) -> None:
        """Say what failed.

        Args:
            message: what this says; without a word of the provider's.
            provider: its name in the registry.
            model: its id.
            status: of HTTP, if an answer came.
            kind: the provider's word for the error, such as invalid_request_error.
            detail: what the provider says; it may quote the conversation, so it is never part of the message.
            retry_after_s: how long the provider wants callers to wait, in seconds.
            request_id: by which the provider finds the request.
            finish: why the model stopped, where it answered.
        """
        super().__init__(message)
        self.provider = provider
        self.model = model
        self.status = status
        self.kind = kind
        self.detail = detail
        self.retry_after_s = retry_after_s
        self.request_id = request_id
        self.finish = finish

    def facts(self) -> dict[str, Any]:
        """Return what is known of it but the provider's words; fit for a log."""
        known = {**self.__dict__, "error": type(self).__name__}
        return {name: value for name, value in known.items() if value is not None and name != "detail"}


class BadRequest(ProviderTrouble):
    """The provider takes no such request; sending it again changes nothing."""


class ContextTooLong(BadRequest):
    """The conversation does not fit into the model's context."""


class Unauthorized(ProviderTrouble):
    """The provider does not know the key."""


class PaymentRequired(ProviderTrouble):
    """The provider wants to be paid first."""


class Forbidden(ProviderTrouble):
    """The key may not do this."""


class RateLimited(ProviderTrouble):
    """Too many requests or tokens in a while; `retry_after_s` says for how long, if the provider does."""


class ProviderFailed(ProviderTrouble):
    """The provider has an error of its own."""


class ProviderUnavailable(ProviderTrouble):
    """The provider, or a gateway before it, cannot answer now."""


class Overloaded(ProviderTrouble):
    """The provider has more to do than it can."""


class ProviderTimeout(ProviderTrouble):
    """Nothing came from the provider in time; it may have done the work all the same."""


class ConnectionFailed(ProviderTrouble):
    """The connection broke before the answer was whole."""


class NeverSent(ConnectionFailed):
    """No connection could be made; the provider has seen nothing of the request."""


class BadReply(ProviderTrouble):
    """The answer is empty, or cannot be read."""
