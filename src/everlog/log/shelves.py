"""Texts that are kept beside a thread, each distinct one once, the newest few: instructions, and answers aside."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from everlog.log.threads import ThreadRow
from everlog.store import Statement, Unit
from everlog.store.keys import digest
from everlog.tokens import utf8


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """One kind of such texts: where its rows are, and how many of them are kept."""

    name: str
    body: Any
    """The column of the sealed text."""
    prints: Statement
    """What is there, `(fp, created_at)`, the oldest first."""
    texts: Statement
    """The same with the sealed texts."""
    put: Statement
    drop: Statement
    kept: int

    def add(self, unit: Unit, thread: ThreadRow, texts: Iterable[str]) -> None:
        """Keep texts that the thread does not have yet; the oldest give way."""
        secret = unit.secret()
        there = unit.rows(self.prints, thread=thread.id)
        known = [fp for fp, _ in there]
        last = there[-1][1] if there else 0
        for text in self.latest(texts):
            fp = digest(secret, self.name.encode(), utf8(text)).hex()
            if fp in known:
                continue
            known.append(fp)
            body = unit.seal(self.body, (thread.id, fp), utf8(text))
            last = max(unit.now_us, last + 1)  # they are told in the order of their times
            unit.run(self.put, {"thread": thread.id, "fp": fp, "created_at": last, "body": body})
        for fp in known[: -self.kept]:
            unit.run(self.drop, {"thread": thread.id, "fp_": fp})

    def read(self, unit: Unit, thread: ThreadRow) -> list[str]:
        """Return the texts, the oldest first."""
        found = unit.rows(self.texts, thread=thread.id)
        return [unit.open_text(self.body, (thread.id, fp), body) for fp, _, body in found]

    def latest(self, texts: Iterable[str]) -> list[str]:
        """Return those of some texts that would be kept, each once."""
        return list(dict.fromkeys(texts))[-self.kept :]
