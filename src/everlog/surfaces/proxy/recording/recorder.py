"""Keeping what goes through the proxy: each exchange gets an ear, which keeps the request with its answer.

All of it is done in threads of its own, few and bounded. Nothing here can break an answer: who is refused for want of
room, or fails, is counted, and a client sends its history again with the next request. An answer that the upstream
refused leaves no trace, as it leaves none in the client's history; one that broke off is kept as far as it came.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from everlog.access import Requested
from everlog.conversation.alignment.values import Caller
from everlog.errors import Busy
from everlog.messages import Message
from everlog.protocols import FORMATS
from everlog.store import Store
from everlog.surfaces.proxy.incoming import Incoming
from everlog.surfaces.proxy.recording.controls import Controls
from everlog.surfaces.proxy.recording.ear import Exchange
from everlog.surfaces.proxy.recording.profiles.blocks import redacting
from everlog.surfaces.proxy.recording.pruning import Pruning
from everlog.surfaces.proxy.recording.room import MOST_HELD, Room
from everlog.surfaces.proxy.recording.standing import Standing
from everlog.surfaces.proxy.recording.threads import Threads
from everlog.surfaces.proxy.remembering.watching import Watch
from everlog.surfaces.proxy.settings.options import Target

WAITING = 256
"""Requests and answers that are parsed, placed or kept at this moment, or wait for it; with more, no exchange is heard."""


class Recorder:
    """Keeps exchanges in one database."""

    def __init__(
        self,
        store: Store,
        *,
        tenant: str,
        caller: Caller,
        redact: Callable[[Message], Message],
        aliases: Mapping[str, Sequence[str]] | None = None,
        waiting: int = WAITING,
        held_bytes: int = MOST_HELD,
        noted: Callable[[Requested], None] | None = None,
        pruning: Pruning | None = None,
        watch: Watch | None = None,
    ) -> None:
        """Begin to record.

        Args:
            store: where to.
            tenant: whose the exchanges are, unless `of` says otherwise.
            caller: who asks, unless `of` says otherwise.
            redact: applied to each message before it is stored.
            aliases: further names of headers that say who asks, by field.
            waiting: how many requests and answers may wait for a thread.
            held_bytes: how much of them may be held at a time, by all together.
            noted: told what each request was, in a thread, when all is done.
            pruning: forgets what old requests were.
            watch: sees requests go up.
        """
        self.store = store
        self.redact = redacting(redact)
        self.aliases = aliases
        self.counts: Counter[str] = Counter()
        """Exchanges by what became of them: the words of `Recorded.decision`, `refused` and `failed`; and `unread`, those
        of them whose request or answer came in a form that is not known."""
        self.noted = noted
        self.pruning = pruning or Pruning()
        self.watch = watch or Watch()
        self.standing = Standing(store)
        self._tenant, self._caller = tenant, caller
        self.threads = Threads()
        self.room = Room(held_bytes)
        self._most = waiting

    def listen(self, incoming: Incoming, protocol: str) -> Exchange | None:
        """Return who hears an exchange; None where the client wants it kept nowhere.

        Raises:
            Busy: there are too many.
        """
        return self.listen_for(incoming, protocol, tenant=self._tenant, caller=self._caller)

    def listen_for(
        self,
        incoming: Incoming,
        protocol: str,
        *,
        tenant: str,
        caller: Caller,
        target: Target | None = None,
        remembers: bool = False,
        keeps: bool = True,
    ) -> Exchange | None:
        """Return who hears an exchange of somebody with an upstream.

        Args:
            incoming: the request.
            protocol: its wire format.
            tenant: whose the exchange is.
            caller: who asks.
            target: the upstream.
            keeps: whether it is kept, unless its own headers say that it is not; if not, only what was used under keys is.
            remembers: whether another request may be made of it.

        Raises:
            Busy: there are too many.
        """
        controls = Controls.of(incoming.headers)
        controls = replace(controls, keeps=controls.keeps and keeps)
        if incoming.method != "POST" or not (controls.keeps or caller.key):
            return None
        if self.threads.waiting >= self._most or not self.room.has(len(incoming.body)):
            self.counts["refused"] += 1
            raise Busy("too many exchanges wait to be recorded, or too large ones; this one is not")
        exchange = Exchange(
            self,
            incoming,
            FORMATS[protocol],
            tenant=tenant,
            caller=caller,
            controls=controls,
            target=target,
            remembers=remembers and controls.keeps,
        )
        self.room.enter(exchange)
        return exchange

    def close(self) -> None:
        """Finish what is under way; while nothing can be kept, what still waits for its turn is given up."""
        self.threads.close(gives_up=not self.standing.is_well)
