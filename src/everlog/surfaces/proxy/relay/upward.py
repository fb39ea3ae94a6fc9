"""A request on its way up: to an upstream that speaks the client's protocol, or through a translation, as often as it is sent."""

from dataclasses import replace

from everlog.surfaces.proxy.incoming import Headers, Incoming
from everlog.surfaces.proxy.relay.headers import going_up
from everlog.surfaces.proxy.relay.translated import Restore, Translating, is_foreign, translated
from everlog.surfaces.proxy.relay.upstream import Coming, Outgoing, Pieces, Upstream
from everlog.surfaces.proxy.relay.upstreams import address
from everlog.surfaces.proxy.settings.options import Target


class Upward:
    """One request of a client."""

    def __init__(
        self,
        upstream: Upstream,
        incoming: Incoming,
        target: Target,
        protocol: str | None,
        *,
        hidden: frozenset[bytes],
        told: Headers = (),
        pieces: Pieces | None = None,
        restore: Restore | None = None,
    ) -> None:
        """Make it.

        Args:
            upstream: what it goes through.
            incoming: as it came.
            target: where it goes.
            protocol: the client's; None where it is no conversation.
            hidden: names of headers that do not go up.
            told: what the upstream is told of the client besides.
            pieces: its body, where that is passed on while it comes.
            restore: gives what it names of a conversation, for an upstream of another protocol.
        """
        self._upstream = upstream
        self._incoming = incoming
        self._target = target
        self._protocol = protocol
        self._hidden = hidden
        self._told = told
        self._pieces = pieces
        self._restore = restore
        self._ready: tuple[Upstream | Translating, Outgoing] | None = None

    async def ready(self) -> None:
        """See to it that it can be sent as it came.

        Raises:
            Mistake: the upstream's protocol cannot carry it.
            EverlogError: what it names cannot be looked up now.
        """
        self._ready = await self._made(self._incoming)

    async def send(self, body: bytes | None = None) -> Coming:
        """Send it, with another body if one is given, and return the answer in the client's protocol.

        Raises:
            ProviderTrouble: there is none.
            Mistake: the upstream's protocol cannot carry it.
            EverlogError: what it names cannot be looked up now.
        """
        if body is None:
            upstream, outgoing = self._ready or await self._made(self._incoming)
        else:
            headers = tuple(one for one in self._incoming.headers if one[0] != b"content-encoding")
            upstream, outgoing = await self._made(replace(self._incoming, headers=headers, body=body))
        return await upstream.send(outgoing)

    async def _made(self, incoming: Incoming) -> tuple[Upstream | Translating, Outgoing]:
        target, protocol = self._target, self._protocol
        if protocol is not None and is_foreign(target, protocol):
            way, outgoing = await translated(incoming, target, protocol, self._hidden, self._upstream, self._restore)
            return way, replace(outgoing, headers=(*outgoing.headers, *self._told))
        outgoing = Outgoing(
            method=incoming.method,
            url=address(target, incoming.path, incoming.query),
            headers=(*going_up(incoming.headers, target, protocol, self._hidden), *self._told),
            body=incoming.body if self._pieces is None else self._pieces,
            connect_s=target.connect_s,
            silence_s=target.silence_s,
        )
        return self._upstream, outgoing
