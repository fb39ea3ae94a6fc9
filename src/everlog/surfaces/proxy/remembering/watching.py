"""What goes up, watched: each request is counted, and its prefix compared with that of the request before."""

from dataclasses import dataclass, field

from everlog.surfaces.proxy.remembering.prefixes import Laid, Prefix, Prefixes
from everlog.surfaces.proxy.remembering.totals import Totals


@dataclass(frozen=True, slots=True)
class Watch:
    """One for a server, for any of its threads."""

    totals: Totals = field(default_factory=Totals)
    prefixes: Prefixes = field(default_factory=Prefixes)

    def sent(
        self,
        laid: Laid,
        *,
        tenant: str,
        thread: str | None,
        consumer: str,
        mode: str,
        turned: str | None = None,
        is_ours: bool = False,
    ) -> Prefix | None:
        """Count a request and return what became of its prefix; None where there is none before it.

        Args:
            laid: what goes up.
            tenant: whose it is.
            thread: id of the thread that it goes on in; None where that is not made yet.
            consumer: what parts requests of a thread that share no prefix, such as the model.
            mode: the mode of memory.
            turned: why an epoch opened for it, if one did.
            is_ours: whether memory wrote its messages.
        """
        self.totals.asked(tenant, mode)
        if thread is None:
            return None
        found = self.prefixes.judge((tenant, thread, consumer), laid, turned=turned, is_ours=is_ours)
        self.totals.judged(tenant, found)
        return found
