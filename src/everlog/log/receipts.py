"""Receipts of erasures: written with each step, so that one that was killed is resumed, and kept as proof."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from everlog.store import Store, Unit
from everlog.store import rows as store_rows

Target = Literal["thread", "user", "tenant"]
State = Literal["rows", "files", "pending", "done"]
UNFINISHED: tuple[State, ...] = ("rows", "files", "pending")


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Proof of an erasure: counts and states, no names and no text."""

    id: str
    target: Target
    state: State
    """`rows` and `files`: begun, and resumed by the next call. `pending`: rows and keys are gone, but the files could
    not be cleaned yet, because another connection reads. `done`: nothing of it was found in the files."""
    threads: tuple[str, ...] = ()
    """Our own ids of the threads it touched."""
    entries: int = 0
    """Entries that became tombstones."""
    rows: int = 0
    """Other rows that were deleted."""
    handed_over: int = 0
    """Entries copied to forks that share them."""
    holds: tuple[str, ...] = ()
    """What the database itself may still hold, and until when."""
    wrapper: str = ""
    """Name of the master key that could unwrap the destroyed keys, if they came back from a backup."""


def receipts(store: Store, tenant: str) -> list[Receipt]:
    """Return the tenant's receipts, oldest first."""
    return [_receipt(row) for row in store.read(tenant, lambda unit: unit.rows(store_rows.RECEIPTS))]


def note(unit: Unit, receipt: Receipt, state: State | None = None) -> Receipt:
    """Write a receipt as it stands, and return it."""
    receipt = receipt if state is None else replace(receipt, state=state)
    report = {
        "threads": list(receipt.threads),
        "entries": receipt.entries,
        "rows": receipt.rows,
        "handed_over": receipt.handed_over,
        "holds": list(receipt.holds),
    }
    unit.run(
        store_rows.PUT_RECEIPT,
        {
            "id": receipt.id,
            "target": receipt.target,
            "state": receipt.state,
            "at": unit.now_us,
            "wrapper": receipt.wrapper,
            "report": json.dumps(report),
        },
    )
    return receipt


def _receipt(row: Sequence[Any]) -> Receipt:
    report = json.loads(row[6])
    return Receipt(
        id=row[1],
        target=row[2],
        state=row[3],
        threads=tuple(report["threads"]),
        entries=report["entries"],
        rows=report["rows"],
        handed_over=report["handed_over"],
        holds=tuple(report["holds"]),
        wrapper=row[5],
    )
