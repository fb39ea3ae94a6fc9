"""What goes up, watched: each request is counted, and its prefix compared with that of the request before."""

from dataclasses import dataclass, field

from everlog.protocols.shapes import Record
from everlog.surfaces.proxy.remembering.prefixes import Prefix, Prefixes, laid
from everlog.surfaces.proxy.remembering.totals import Totals


@dataclass(frozen=True, slots=True)
class Watch:
    """One for a server, for any of its threads."""

    totals: Totals = field(default_factory=Totals)
    prefixes: Prefixes = field(default_factory=Prefixes)

    def sent(
        self,
        protocol: str,
        body: Record,
        *,
        tenant: str,
        thread: str | None,
        consumer: str,
        mode: str,
        turned: str | None = None,
        compiled: int = 0,
    ) -> Prefix | None:
        """Count a request and return what became of its prefix; None where there is none before it. It takes CPU.

        Args:
            protocol: the format of the body.
            body: what goes up.
            tenant: whose it is.
            thread: id of the thread that it goes on in; None where that is not made yet.
            consumer: what parts requests of a thread that share no prefix: the model, or the key of a consumer.
            mode: the mode of memory.
            turned: why an epoch opened for it, if one did.
            compiled: how many of its messages memory wrote, the first ones.
        """
        self.totals.asked(tenant, mode)
        if thread is None:
            return None
        found = self.prefixes.judge((tenant, thread, consumer), laid(protocol, body), turned=turned, compiled=compiled)
        self.totals.judged(tenant, found)
        return found

    def mended(
        self, protocol: str, body: Record, *, tenant: str, thread: str, consumer: str, turned: str | None
    ) -> None:
        """See what an upstream took in the place of what it refused; the next request is compared with that. It takes CPU.

        Args:
            protocol: the format of the body.
            body: what went up in the end.
            tenant: whose it is.
            thread: id of its thread.
            consumer: as it was for what was refused.
            turned: why an epoch opened for it, if one did.
        """
        whose, parts = (tenant, thread, consumer), laid(protocol, body)
        if turned is None:
            self.prefixes.hold(whose, parts)
        else:
            self.totals.judged(tenant, self.prefixes.judge(whose, parts, turned=turned))
