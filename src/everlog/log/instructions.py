"""What a caller tells the model before the conversation begins: kept once per distinct text, never an entry.

Clients resend and reword it with every request, so it tells nothing apart. The newest few of each thread are kept.
"""

from collections.abc import Iterable

from everlog.log import rows
from everlog.log.threads import ThreadRow
from everlog.store import Unit
from everlog.store.keys import digest
from everlog.tokens import text_of, utf8

KEPT = 8
"""Distinct instructions kept for a thread."""


def latest_instructions(texts: Iterable[str]) -> list[str]:
    """Return those of some instructions that would be kept, each once."""
    return list(dict.fromkeys(texts))[-KEPT:]


def instruct(unit: Unit, thread: ThreadRow, texts: Iterable[str]) -> None:
    """Keep instructions that the thread does not have yet; the oldest give way."""
    secret = unit.secret()
    kept = [(fp, at) for fp, at, _ in unit.rows(rows.INSTRUCTIONS, thread=thread.id)]
    known = [fp for fp, _ in kept]
    last = kept[-1][1] if kept else 0
    for text in latest_instructions(texts):
        fp = digest(secret, b"instruction", utf8(text)).hex()
        if fp in known:
            continue
        known.append(fp)
        body = unit.seal(rows.instruction.c.body, (thread.id, fp), utf8(text))
        last = max(unit.now_us, last + 1)  # they are told in the order of their times
        row = {"thread": thread.id, "fp": fp, "created_at": last, "body": body}
        unit.run(rows.PUT_INSTRUCTION, row)
    for fp in known[:-KEPT]:
        unit.run(rows.DROP_INSTRUCTION, {"thread": thread.id, "fp_": fp})


def instructions(unit: Unit, thread: ThreadRow) -> list[str]:
    """Return the instructions of a thread, oldest first."""
    return [
        text_of(unit.open(rows.instruction.c.body, (thread.id, fp), body))
        for fp, _, body in unit.rows(rows.INSTRUCTIONS, thread=thread.id)
    ]
