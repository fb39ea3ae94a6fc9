"""The seam between the relay and those who listen to it, such as the recorder.

The relay works the same without them: nothing here changes a byte of an answer. What an ear raises is counted and
costs it the rest of the exchange; what it takes too long for, the client does not wait for.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

from everlog.access import Principal
from everlog.messages import Message
from everlog.protocols.shapes import Record
from everlog.surfaces.proxy.incoming import Headers, Incoming
from everlog.surfaces.proxy.relay.upstream import Coming
from everlog.surfaces.proxy.settings.options import Target

HOLD_S = 0.25
"""How long the last bytes of an answer wait for `commit`, in seconds."""

REQUEST_ID = b"x-everlog-request-id"
DEGRADED = b"x-everlog-degraded"
NOT_KEPT: Headers = ((DEGRADED, b"record"),)
"""It is not kept."""
LATE: Headers = ((DEGRADED, b"late"),)
"""It was not kept yet when the answer went out."""


class Ear(Protocol):
    """Hears one exchange beside the relay, on its event loop: what takes long belongs into threads of its own.

    After `head` and the pieces comes one of `commit` and `leave`, once; where no answer came at all, `leave` alone.
    """

    whole: bool
    """Whether all has come that `commit` needs: it is then called at once, else at the end of the body."""

    def head(self, status: int, headers: Headers) -> None:
        """Hear how the answer begins."""
        ...

    def said(self) -> Headers:
        """Return headers to add to the answer, such as `x-everlog-request-id`; asked once, when its head goes out.

        That is at once for a stream, and for any other answer when the first of its body may go out.
        """
        ...

    def piece(self, data: bytes) -> int:
        """Hear more of the body, decoded; return how many of these bytes may go out now.

        Fewer than `len(data)` means that the terminal frame begins behind them: what follows is held until `commit` is
        done, for at most `HOLD_S`. Of a body that is no stream, nothing may go out.
        """
        ...

    async def commit(self) -> None:
        """Keep what was heard: the answer is whole, or the body ended; never cancelled, however long it takes."""
        ...

    async def leave(self, why: Literal["client", "upstream"]) -> None:
        """Keep what was heard of an exchange that ends here: who went, the client or the upstream."""
        ...


class Way(Protocol):
    """How a request reaches its upstream."""

    async def send(self, body: bytes | None = None) -> Coming:
        """Send it, with another body if one is given, and return the answer in the client's protocol.

        Raises:
            ProviderTrouble: there is none.
            Mistake: the upstream's protocol cannot carry it.
            EverlogError: what it names cannot be looked up now.
        """
        ...


class Memory(Protocol):
    """Knows what clients name instead of saying it: the relay asks it where an upstream cannot know that."""

    def restore(
        self, incoming: Incoming, protocol: str, principal: Principal, body: Record
    ) -> Sequence[Message] | None:
        """Return the whole conversation of a request; None where a part of it is not known. Called in a thread.

        Raises:
            EverlogError: it cannot be looked up now.
        """
        ...

    def remembers(self, incoming: Incoming, protocol: str | None, principal: Principal) -> bool:
        """Whether another request may be made of one; those of which none is go up at once, as they came."""
        ...

    async def ask(
        self, ear: Ear, incoming: Incoming, protocol: str, principal: Principal, target: Target, way: Way
    ) -> Coming:
        """Ask an upstream, with what memory makes of a request, and return the one answer that the client gets.

        Args:
            ear: who hears the exchange.
            incoming: the request, as the client sent it.
            protocol: its wire format.
            principal: who asks.
            target: the upstream it goes to.
            way: how it gets there.

        Raises:
            ProviderTrouble: there is no answer.
            Mistake: the upstream's protocol cannot carry the request.
            EverlogError: what it names cannot be looked up now.
        """
        ...

    async def retrieve(self, incoming: Incoming, principal: Principal, answer: str) -> tuple[int, Headers, bytes]:
        """Return status, headers and body for what is asked of an answer of ours, by its id."""
        ...

    async def made_by(self, principal: Principal, answer: str) -> str | None:
        """Return the name of the upstream that gave somebody an answer, by its id; None where nobody can say."""
        ...


class Ears(Protocol):
    """Gives each exchange its ear."""

    def listen(self, incoming: Incoming, protocol: str | None, principal: Principal, target: Target) -> Ear | None:
        """Return who hears this exchange, None for nobody; called before the upstream is asked, on the event loop.

        Args:
            incoming: the request, as the client sent it.
            protocol: the wire format of its path, a name in `everlog.protocols.FORMATS`; None where it is no conversation.
            principal: who asks.
            target: the upstream it goes to.
        """
        ...
