"""Large parts: the bytes of images, sounds and files, stored once per thread beside the entries that show them.

They are in the database, so that they are appended, erased and backed up with everything else, and under the thread's
key. Retention can drop the bytes of old ones and keep that they were there.
"""

from datetime import datetime
from typing import Any

from everlog.clock import micros
from everlog.errors import PartTooLarge
from everlog.log import rows
from everlog.messages import Media, Part
from everlog.store import Unit

LIMIT_BYTES = 64 * 1024 * 1024
"""Largest part that is stored."""


def check(part: Part) -> None:
    """Make sure that a part can be stored.

    Raises:
        PartTooLarge: its bytes are above the limit.
    """
    if isinstance(part, Media) and part.content is not None and len(part.content) > LIMIT_BYTES:
        raise PartTooLarge(
            f"a part of {len(part.content):,} bytes is above the limit of {LIMIT_BYTES:,}; "
            "pass a url instead of the bytes"
        )


class Writer:
    """Collects the blobs of one append."""

    def __init__(self, unit: Unit, thread: str) -> None:
        self._unit = unit
        self._thread = thread
        self._blobs: dict[str, dict[str, Any]] = {}
        self._uses: list[dict[str, Any]] = []

    def add(self, name: str, content: bytes, i: int) -> None:
        """Take the bytes of a part of entry `i`."""
        self._uses.append({"thread": self._thread, "name": name, "i": i})
        if name not in self._blobs:
            self._blobs[name] = {
                "thread": self._thread,
                "name": name,
                "size": len(content),
                "created_at": self._unit.now_us,
                "body": self._unit.seal(rows.blob.c.body, (self._thread, name), content),
            }

    def finish(self) -> None:
        """Write what was collected; bytes that retention took come back with the message that brings them again."""
        unit = self._unit
        for row in self._blobs.values():
            if not unit.count(rows.PUT_BLOB, **row):
                named = {"thread": self._thread, "name_": row["name"]}
                unit.run(rows.KEEP_BLOB, named | {"when": unit.now_us})
                unit.run(rows.FILL_BLOB, named | {"new_body": row["body"]})
        if self._uses:
            unit.run(rows.PUT_BLOB_USE, self._uses)


def read(unit: Unit, owner: str, name: str) -> bytes | None:
    """Return the bytes of a blob, or None if retention or erasure has taken them."""
    found = unit.row(rows.BLOB, thread=owner, name=name)
    return None if found is None or found[0] is None else unit.open(rows.blob.c.body, (owner, name), found[0])


def retire(unit: Unit, thread: str, before: datetime) -> int:
    """Drop the bytes of parts that no append has brought since a time; return how many. Names and sizes stay."""
    return unit.count(rows.RETIRE_BLOBS, thread=thread, before=micros(before))
