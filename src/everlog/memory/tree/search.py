"""Find messages by their words: a scan of the log, newest first, that tells where they are and never what they say.

A hit is a position, a date and the label of the line that covers it; the agent opens it with `zoom`, so this is no new
way to read text. A mask may hide spans of a text before it is compared; one that fails hides the whole message. Each
batch is one snapshot, nothing is written, indexed or kept, and log lines hold counts only. The rules are seed 000's.

Results of our own tools are left out: they repeat what is found where it was said.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from everlog import log
from everlog.clock import moment, monotonic
from everlog.errors import Mistake
from everlog.log import Said
from everlog.memory.tree.echoes import echoes, may_echo
from everlog.memory.tree.lookup import dated
from everlog.memory.tree.matching import Term, fold, matched, terms
from everlog.memory.tree.nodes import cover, label_of, shown_value, start_of
from everlog.memory.tree.render import Shown
from everlog.messages import Call, Result
from everlog.store import Store, Unit

MAX_MESSAGES, MAX_SECONDS, MAX_HITS, BATCH = 20_000, 2.0, 10, 500

NO_WORDS = "No usable words: give one or more words of at least two letters or digits."

Mask = Callable[[str], str]
"""Returns a text with what must not be found replaced by spaces."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that has some of the words."""

    i: int
    words: int
    """How many of them it has."""
    date: str
    """As the tool `date` says it."""
    line: str | None = None
    """Label of the line of the view that covers it, where one does."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found."""

    hits: tuple[Hit, ...]
    """Those with all the words first, then the best partial ones, the newest first within each."""
    words: int
    """How many words were looked for."""
    start: int
    stop: int
    """Positions `start` up to `stop` were searched."""
    stopped: bool = False
    """Whether a limit stopped it before the beginning of the thread."""

    @property
    def text(self) -> str:
        """The form in which an agent reads it: positions, dates and labels."""
        whole = [hit for hit in self.hits if hit.words == self.words]
        said = []
        if whole:
            said.append(f"Messages with all words: {', '.join(map(self._shown, whole))}.")
        if len(self.hits) > len(whole):
            some = ", ".join(map(self._shown, self.hits[len(whole) :]))
            said.append(f"Messages with {'' if whole else 'only '}some of the words: {some}.")
        said.append("Use zoom(id, 1) to read one." if self.hits else "No message has any of these words.")
        if self.stopped:
            said.append(
                f"This call searched messages {self.stop - 1} down to {self.start} only; "
                f"go on with before: {self.start}."
            )
        elif len(whole) == MAX_HITS:
            said.append(f"There may be older ones; go on with before: {whole[-1].i}.")
        return " ".join(said)

    def _shown(self, hit: Hit) -> str:
        partial_ = "" if hit.words == self.words else f"{hit.words} of {self.words} words, "
        line = "" if hit.line is None else f", in line {hit.line}"
        return f"{hit.i} ({partial_}{hit.date}{line})"


def search(
    store: Store,
    tenant: str,
    thread: str,
    words: object,
    before: object = None,
    *,
    view: Shown | None = None,
    mask: Mask | None = None,
    seconds: Callable[[], float] = monotonic,
) -> Found:
    """Find messages of a thread (by its id) by their words.

    Args:
        store: the database.
        tenant: whose thread.
        thread: id of the thread.
        words: the words, in one string; at most eight are used.
        before: only messages below this position, which is above 0; all if None.
        view: what the reader was shown, for the labels of its lines.
        mask: hides spans of each text before it is compared; called in this thread.
        seconds: a clock that never goes back.

    Raises:
        Erased: the thread was erased.
        Mistake: there are no usable words, or `before` is no position above 0.
    """
    began = seconds()
    wanted = terms(words) if isinstance(words, str) else ()
    if not wanted:
        log_refused("words")
        raise Mistake(NO_WORDS)
    if before is not None and (type(before) is not int or before < 1):
        log_refused("before")
        raise Mistake(f"before is the number of a message, above 0, not {shown_value(before)}.")
    scan = _Scan(wanted, mask)
    batch = store.read(tenant, partial(_batch, thread=thread, stop=before))
    stop = start = batch[0].i + 1 if batch else 0
    stopped = False
    while batch and not (stopped or scan.full):
        for said in batch:
            scan.look(said)
            start = said.i
            stopped = scan.scanned >= MAX_MESSAGES or seconds() - began >= MAX_SECONDS
            if stopped or scan.full:
                break
        else:
            batch = store.read(tenant, partial(_batch, thread=thread, stop=start)) if start else []
    if start and scan.pending:
        scan.settle(store.read(tenant, partial(_batch, thread=thread, stop=start)))
    found = Found(scan.hits(view), len(wanted), start, stop, stopped=stopped and start > 0)
    _log(found, scan, round((seconds() - began) * 1000))
    return found


def log_refused(status: str) -> None:
    """Write the log line of a search that did not run."""
    _logger.info("search: status=%s ms=0", status)


def _log(found: Found, scan: "_Scan", ms: int) -> None:
    whole = sum(hit.words == found.words for hit in found.hits)
    _logger.info(
        "search: status=ok words=%d scanned=%d hits=%d partial=%d mask_errors=%d stopped=%s ms=%d",
        found.words,
        scan.scanned,
        whole,
        len(found.hits) - whole,
        scan.mask_errors,
        "yes" if found.stopped else "no",
        ms,
    )


def _batch(unit: Unit, thread: str, stop: int | None) -> list[Said]:
    """Return the next entries below `stop`, newest first."""
    row = log.load(unit, thread)
    return log.back(unit, row, row.next if stop is None else stop, BATCH)


@dataclass(slots=True)
class _Scan:
    """Looks at one message after another, the newest first, and keeps the best."""

    wanted: Sequence[Term]
    mask: Mask | None
    scanned: int = 0
    mask_errors: int = 0
    best: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """By how many of the words they have: (position, time) of the newest of them, at least."""
    pending: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    """Results whose call, which stands before them, was not seen yet, by its id: (words, position, time)."""

    @property
    def full(self) -> bool:
        """Whether nothing older can be among the hits."""
        return not self.pending and len(self.best.get(len(self.wanted), ())) >= MAX_HITS

    def look(self, said: Said) -> None:
        """Take in a message."""
        self.scanned += 1
        if said.kind == "tool_call" and self._is_echo(said):
            return
        if said.text is None or not (count := self._matched(said.text)):
            return
        result = next((part for part in said.parts if isinstance(part, Result)), None)
        if said.kind == "tool_result" and result is not None and may_echo(result.name):
            self.pending.setdefault(result.call_id, []).append((count, said.i, said.at_us))
        elif len(kept := self.best.setdefault(count, [])) < MAX_HITS:
            kept.append((said.i, said.at_us))

    def settle(self, before: Sequence[Said]) -> None:
        """Look for the calls of pending results in what stands before the scanned stretch."""
        for said in before:
            if said.kind == "tool_call":
                self._is_echo(said)

    def hits(self, view: Shown | None) -> tuple[Hit, ...]:
        """Return the best ten; a result whose call is nowhere counts as anybody's."""
        for call_id in list(self.pending):
            self._release(call_id, ours=False)
        lines = _Lines(view)
        ranked = sorted(((count, *one) for count, some in self.best.items() for one in some), reverse=True)
        return tuple(Hit(i, count, dated(moment(at_us)), lines.covering(i)) for count, i, at_us in ranked[:MAX_HITS])

    def _matched(self, text: str) -> int:
        if self.mask is not None:
            try:
                masked: object = self.mask(text)
            except Exception:  # noqa: BLE001 -- the caller's own code: the message counts as hidden, and is counted
                masked = None
            if not isinstance(masked, str):
                self.mask_errors += 1
                return 0
            text = masked
        return matched(self.wanted, fold(text))

    def _is_echo(self, said: Said) -> bool:
        """Whether a call is our own; its results are kept or dropped accordingly."""
        call = next((part for part in said.parts if isinstance(part, Call)), None)
        ours = call is not None and echoes(call)
        if call is not None:
            self._release(call.call_id, ours=ours)
        return ours

    def _release(self, call_id: str, *, ours: bool) -> None:
        for count, i, at_us in self.pending.pop(call_id, ()):
            if not ours:
                self.best.setdefault(count, []).append((i, at_us))


class _Lines:
    """Labels of what covers a message in a view: a line, or a block that its notice names."""

    def __init__(self, view: Shown | None) -> None:
        self._count = 0 if view is None else view.count
        self._nids = [] if view is None else [*cover(0, view.hidden), *(nid for nid, _ in view.lines)]
        self._starts = list(map(start_of, self._nids))

    def covering(self, i: int) -> str | None:
        return label_of(self._nids[bisect_right(self._starts, i) - 1]) if i < self._count else None
