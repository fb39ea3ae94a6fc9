"""Short ways to write down what an import is expected to give."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from everlog.importers import Limits, Problem, Tally, read
from everlog.messages import JSON, Conversation, Kind, Message, Part

SAMPLES = Path(__file__).parents[2] / "samples"
PNG = b"\x89PNG\r\n\x1a\n"


def said(
    kind: Kind,
    text: str,
    *,
    at: str | None = None,
    id: str | None = None,  # noqa: A002  the field's own name
    author: str | None = None,
    model: str | None = None,
    parts: tuple[Part, ...] = (),
    meta: Mapping[str, JSON] | None = None,
) -> Message:
    return Message(
        kind=kind,
        text=text,
        at=datetime.fromisoformat(at) if at else None,
        id=id,
        author=author,
        model=model,
        parts=parts,
        meta=meta or {},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """All that came out of a file."""

    format: str
    found: list[Conversation | Problem]
    tally: Tally

    @property
    def conversations(self) -> list[Conversation]:
        return [found for found in self.found if isinstance(found, Conversation)]

    @property
    def problems(self) -> list[Problem]:
        return [found for found in self.found if isinstance(found, Problem)]

    @property
    def only(self) -> Conversation:
        (found,) = self.found
        assert isinstance(found, Conversation)
        return found

    def counts(self) -> dict[str, dict[str, int]]:
        tally = self.tally
        return {"unknown": dict(tally.unknown), "skipped": dict(tally.skipped), "assumed": dict(tally.assumed)}


def take(path: Path, form: str | None = None, limits: Limits | None = None) -> Taken:
    with read(path, form, limits=limits or Limits()) as reading:
        return Taken(format=reading.format, found=list(reading), tally=reading.tally)
