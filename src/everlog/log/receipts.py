"""Receipts of erasures: written with each step, so that one that was killed is resumed, and kept as proof."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from everlog.clock import micros
from everlog.errors import Damaged, expect
from everlog.store import Store, Unit
from everlog.store import rows as store_rows
from everlog.store.keys import digest
from everlog.tokens import utf8

Target = Literal["thread", "user", "tenant"]
State = Literal["rows", "files", "pending", "done"]
UNFINISHED: tuple[State, ...] = ("rows", "files", "pending")


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Proof of an erasure: counts, states and a keyed hash, no names and no text."""

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
    subject: str = ""
    """Of a user, a keyed hash of the id: what another process still holds of theirs is not stored after this."""


def receipts(store: Store, tenant: str) -> list[Receipt]:
    """Return the tenant's receipts, oldest first."""
    return [_receipt(row) for row in store.read(tenant, lambda unit: unit.rows(store_rows.RECEIPTS))]


def print_of(unit: Unit, user: str) -> str:
    """Return the keyed hash by which a receipt names an end user."""
    return digest(unit.secret(), b"erased user", utf8(user)).hex()


def was_erased(unit: Unit, user: str, said_at: datetime) -> bool:
    """Return whether what an end user said at a time was to be erased since."""
    subject, since = print_of(unit, user), micros(said_at)
    found = [row for row in unit.rows(store_rows.RECEIPTS) if row[2] == "user" and row[4] >= since]
    return any(_receipt(row).subject == subject for row in found)


def note(unit: Unit, receipt: Receipt, state: State | None = None) -> Receipt:
    """Write a receipt as it stands, and return it."""
    receipt = receipt if state is None else replace(receipt, state=state)
    report = {
        "threads": list(receipt.threads),
        "entries": receipt.entries,
        "rows": receipt.rows,
        "handed_over": receipt.handed_over,
        "holds": list(receipt.holds),
        "subject": receipt.subject,
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
    _, id_, target, state, _, wrapper, report = row
    try:
        said = json.loads(report)
        return Receipt(
            id=id_,
            target=target,
            state=state,
            threads=tuple(_checked(one, str) for one in said["threads"]),
            entries=_checked(said["entries"], int),
            rows=_checked(said["rows"], int),
            handed_over=_checked(said["handed_over"], int),
            holds=tuple(_checked(one, str) for one in said["holds"]),
            wrapper=wrapper,
            subject=_checked(said.get("subject", ""), str),
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        raise Damaged(f"the receipt {id_} of an erasure is damaged: its report is none; a backup has it") from None


def _checked(value: Any, kind: type) -> Any:
    expect(value, kind, "it is of another kind")
    return value
