"""What memory writes beside an exchange: what is held for the next request, what the provider counted, and what it cost."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from everlog import context
from everlog.context import Held, Status
from everlog.conversation.alignment.values import Answer, Recorded
from everlog.messages import Message
from everlog.protocols.exchange import Said, Usage
from everlog.protocols.plain import is_plain
from everlog.store import Unit
from everlog.surfaces.proxy.hidden.rounds import Rounds
from everlog.surfaces.proxy.recording.exchanges import cost_usd
from everlog.surfaces.proxy.relay.upstreams import provider_of
from everlog.surfaces.proxy.remembering.building import Builder
from everlog.surfaces.proxy.remembering.preparing import Prepared
from everlog.surfaces.proxy.remembering.watching import Watch


class Kept:
    """One exchange whose request memory made."""

    def __init__(
        self, prepared: Prepared, builder: Builder, watch: Watch, redact: Callable[[Message], Message]
    ) -> None:
        self.prepared = prepared
        self._redact = redact
        self._watch = watch
        self.rounds: Rounds | None = None
        self._builder = builder
        self._status: Status = "cancelled"
        self._answered = 0

    def end(self, *, is_refused: bool = False) -> None:
        """Note that nothing more comes."""
        self._status = "failed" if is_refused else "answered"

    def heard(self, answer: Answer) -> Answer:
        """Return an answer with what all its rounds took."""
        self._answered = len(answer.messages)
        used = [] if self.rounds is None else [one for one in self.rounds.usages if one is not None]
        if len(used) < 2:
            return answer
        provider, model = provider_of(self.prepared.asking.target), self.prepared.client.body.get("model")
        costs = [cost_usd(one, str(model), provider) for one in used]
        known = [one for one in costs if one is not None]
        return replace(answer, usage=total(used), cost_usd=sum(known) if known else None)

    def write(self, unit: Unit, recorded: Recorded | None) -> None:
        """Hold what was said beside the entries, and note what became of the request."""
        prepared, rounds = self.prepared, self.rounds
        thread = prepared.asked.thread
        usages = () if rounds is None else rounds.usages
        context.answered(
            unit,
            thread,
            prepared.terms,
            prepared.context,
            status=self._status,
            model=prepared.model.id or None,
            usage=usages[0] if usages else None,
        )
        at = prepared.asked.open_at + prepared.asked.count
        stops = (None, at + self._answered)  # nothing of it is an entry where nothing was said to the client
        if rounds is None or recorded is None or recorded.thread != thread or recorded.stop not in stops:
            return
        said = tuple(map(self._redacted, rounds.said))
        if self._status == "answered" and (len(said) > 1 or any(one.raw and not is_plain(one.raw) for one in said)):
            held = Held(position=at, n=0, kind="reply", covers=self._answered, said=said)
            context.hold(unit, thread, prepared.terms, prepared.context, [held])

    def _redacted(self, said: Said) -> Said:
        """Return what was said as the log has it, without its blocks where they would bring back what was redacted."""
        messages = tuple(map(self._redact, said.messages))
        return said if messages == said.messages else Said(messages=messages)

    def done(self) -> None:
        """See to what the next request needs."""
        self._builder.kick(self.prepared.due)
        if self.rounds is not None and self.rounds.rounds > 1:
            self._watch.totals.hid(self.prepared.asking.tenant, self.rounds.rounds - 1)


def total(used: Sequence[Usage]) -> Usage:
    """Return what several rounds took."""
    names = ("input", "cache_read", "cache_write", "output", "thinking", "cache_write_long", "cost_usd")
    sums = {name: [n for one in used if (n := getattr(one, name)) is not None] for name in names}
    return Usage(**{name: sum(known) for name, known in sums.items() if known})
