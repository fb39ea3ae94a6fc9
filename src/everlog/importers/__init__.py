"""Brings in the past: conversations as other programs, and Everlog itself, export them.

In goes a path; out comes a stream of `Conversation`s, and of `Problem`s for those that cannot be read while the rest goes
on. The form is recognised by what is in the file. Nothing is held but the conversation under way, so a file may be of
any size; what the source leaves open or we leave out is counted. Importers know messages, not the log: whoever reads
them decides what is new.

    with read(Path("export.zip")) as reading:
        for found in reading:
            ...                       # Conversation | Problem
        reading.tally                 # what was skipped, unknown, assumed

Keys are stable: the same conversation, exported again, has the same one.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TypeAlias

from everlog.errors import BadImport
from everlog.importers import beam, chatgpt, claude_ai, claude_code, codex, everlog, locomo, openai
from everlog.importers.fitting import fit, fitted
from everlog.importers.records import Value, values
from everlog.importers.report import Problem, Tally
from everlog.importers.source import Limits, Source
from everlog.messages import JSON, Conversation

__all__ = ["FORMATS", "Limits", "Problem", "Reading", "Tally", "detect", "fitted", "read"]

_Knows: TypeAlias = Callable[[JSON], bool]
_Reads: TypeAlias = Callable[[Iterable[Value | Problem], Source, Tally], Iterator[Conversation | Problem]]


class _Form(NamedTuple):
    knows: _Knows
    reads: _Reads
    whole: bool
    """Whether a value of a source is a conversation of its own, if it is not a message of the one that the file is."""


_FORMATS: dict[str, _Form] = {
    "everlog": _Form(everlog.knows, everlog.conversations, whole=False),
    "codex": _Form(codex.knows, codex.conversations, whole=False),
    "claude-code": _Form(claude_code.knows, claude_code.conversations, whole=False),
    "chatgpt": _Form(chatgpt.knows, chatgpt.conversations, whole=True),
    "claude-ai": _Form(claude_ai.knows, claude_ai.conversations, whole=True),
    "locomo": _Form(locomo.knows, locomo.conversations, whole=True),
    "beam": _Form(beam.knows, beam.conversations, whole=False),
    "openai": _Form(openai.knows, openai.conversations, whole=True),
}
"""In the order in which they are tried: the narrow ones first."""

FORMATS = tuple(sorted(_FORMATS))
"""Names of the forms that can be read."""

PROBED_VALUES = 50
DEFAULT_LIMITS = Limits()


class Reading(Iterator[Conversation | Problem]):
    """An import under way: an iterator that knows how far it is."""

    def __init__(self, source: Source, format_name: str) -> None:
        self.format = format_name
        """Name of the form."""
        self.tally = Tally()
        """What was counted so far; complete at the end."""
        self._source = source
        self._at = source.path.name, 0
        self._found = self._read()

    @property
    def size_bytes(self) -> int:
        """How many bytes there are to read."""
        return self._source.size_bytes

    @property
    def done_bytes(self) -> int:
        """How many of them were read."""
        return self._source.done_bytes

    @property
    def place(self) -> tuple[str, int]:
        """Where what came out last stands: file or member of an archive, and its number there; 0 where it is all of it."""
        return self._at

    def __next__(self) -> Conversation | Problem:
        return next(self._found)

    def close(self) -> None:
        """Close the file; the end of the stream does so too."""
        self._found.close()
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _read(self) -> Generator[Conversation | Problem]:
        form = _FORMATS[self.format]
        count = 0
        with self._source, closing(values(self._source)) as records:
            noted = self._noted(records) if form.whole else records
            for found in form.reads(noted, self._source, self.tally):
                count += 1
                yield found if isinstance(found, Problem) else fit(found, self._source.limits, self.tally)
        if not count:
            yield Problem(
                where=self._source.path.name, reason=f"it holds no conversation of the form {self.format}", position=0
            )

    def _noted(self, records: Iterable[Value | Problem]) -> Iterator[Value | Problem]:
        """Pass values on, and keep the place of the one that is worked on; at the end it is the whole file."""
        for item in records:
            self._at = item.where, item.position
            yield item
        self._at = self._source.path.name, 0


def detect(path: str | Path, *, limits: Limits = DEFAULT_LIMITS) -> str:
    """Return the name of the form that a file has, by its content.

    Raises:
        BadImport: the file cannot be read, or is of no form that we know.
    """
    with Source(Path(path), limits) as source:
        return _detect(source)


def read(
    path: str | Path,
    format: str | None = None,  # noqa: A002
    *,
    limits: Limits = DEFAULT_LIMITS,
    called: Path | None = None,
) -> Reading:
    """Begin to read the conversations of a file.

    Args:
        path: the file.
        format: one of `FORMATS`; by default the one it is detected to be.
        limits: how much it may ask for.
        called: what errors, and keys that are made of the file's name, call it, where that is not `path`.

    Raises:
        BadImport: here or while reading: the file is empty, damaged, ends too early, is not UTF-8, not JSON, beyond the
            limits, or of no form that we know. What came out before is whole.
    """
    if format is not None and format not in FORMATS:
        raise BadImport(f"{format} is not a form that can be imported; known are {', '.join(FORMATS)}")
    if format is None:
        with Source(Path(path), limits, called) as source:
            format = _detect(source)  # noqa: A001
    return Reading(Source(Path(path), limits, called), format)


def _detect(source: Source) -> str:
    with closing(values(source)) as found:
        for item in islice(found, PROBED_VALUES):
            for name, form in _FORMATS.items():
                if isinstance(item, Value) and form.knows(item.value):
                    return name
    raise BadImport(f"{source.path} is of no form that can be imported; known are {', '.join(FORMATS)}")
