"""How the answers of `everlog chat` are shown: on a terminal, through a pipe, or as JSON, one object for each turn."""

import sys

from rich.console import Console
from rich.text import Text

from everlog import (
    Cancelled,
    Chunk,
    ConnectionFailed,
    EverlogError,
    Forbidden,
    Mistake,
    NeverSent,
    PaymentRequired,
    ProviderFailed,
    ProviderTimeout,
    ProviderTrouble,
    ProviderUnavailable,
)
from everlog.messages import JSON
from everlog.surfaces.cli.chat_commands import Answer
from everlog.surfaces.cli.chat_talk import Turn
from everlog.surfaces.cli.console import failure, flat, note, text
from everlog.surfaces.cli.entry import FAILED, MISTAKEN
from everlog.surfaces.cli.output import document

_ASIDE = "; `detail` of this error has its words"

LEAST_USD = 0.0001
"""The least money that is told exactly."""

_AGAIN = "say it again in a while"

_ADVICE: tuple[tuple[type[ProviderTrouble], str], ...] = (
    (NeverSent, "is the address right, and the server running?"),
    (PaymentRequired, "the account has to be paid for first"),
    (Forbidden, "the key may not use this model"),
    (ProviderFailed, _AGAIN),
    (ProviderUnavailable, _AGAIN),
    (ProviderTimeout, _AGAIN),
    (ConnectionFailed, _AGAIN),
)


class Plain:
    """Answers as they are, one after the other."""

    def __init__(self) -> None:
        self._is_at_start = True

    def begin(self) -> None:
        """Make ready for an answer."""
        self._is_at_start = True

    def piece(self, chunk: Chunk) -> None:
        """Show what came of an answer; words around a call of a tool stand on lines of their own."""
        if chunk.text:
            self._print(chunk.text)
        elif chunk.call is not None and chunk.call.name:
            self._end_line()

    def end(self, turn: Turn) -> None:
        """Show that an answer is over, and what it came to."""
        self._end_line()
        if missing := turn.missing:
            note(f"everlog: {'; '.join(missing)}")

    def show(self, answer: Answer) -> None:
        """Show what a command answers."""
        self._print(answer.text)
        self._end_line()

    def failed(self, error: EverlogError) -> int:
        """Say what went wrong, and what can be done; return the exit code that says it too."""
        note(f"everlog: {_explained(error)}")
        return _status(error)

    def _print(self, words: str) -> None:
        text(words)
        sys.stdout.flush()
        self._is_at_start = words.endswith("\n")

    def _end_line(self) -> None:
        if not self._is_at_start:
            self._print("\n")


class Terminal(Plain):
    """Answers as they come, and one faint line about each."""

    def __init__(self) -> None:
        super().__init__()
        self._aside = Console(stderr=True, highlight=False)

    def piece(self, chunk: Chunk) -> None:
        """Show what came of an answer, and which tools the model uses."""
        super().piece(chunk)
        if chunk.call is not None and chunk.call.name:
            self._say(f"({chunk.call.name})")

    def end(self, turn: Turn) -> None:
        """Say what the turn took, and what is missing."""
        self._end_line()
        if said := footer(turn):
            self._say(said)

    def failed(self, error: EverlogError) -> int:
        """Say what went wrong; who sits here may also read what the provider says of it."""
        status = super().failed(error)
        if isinstance(error, ProviderTrouble) and error.detail:
            self._say(error.detail)
        return status

    def _say(self, words: str) -> None:
        self._aside.print(Text(f"  {flat(words)}", style="dim"), soft_wrap=True)


class Documents(Plain):
    """One JSON object for each turn, and for each command."""

    def piece(self, chunk: Chunk) -> None:
        """Wait until the answer is whole."""

    def end(self, turn: Turn) -> None:
        """Print what the turn came to."""
        document(as_json(turn))
        sys.stdout.flush()

    def show(self, answer: Answer) -> None:
        """Print what a command answers."""
        document(answer.value)
        sys.stdout.flush()

    def failed(self, error: EverlogError) -> int:
        """Say what went wrong, as an object on standard error."""
        status = _status(error)
        failure(_explained(error), kind=type(error).__name__, status=status, as_json=True)
        return status


def footer(turn: Turn) -> str:
    """Return one line about a turn: tokens, money, epoch, and what is missing."""
    usage = turn.usage
    parts = []
    if turn.reply is not None and (tokens := _in(turn)) is not None:
        read = f" ({100 * (usage.cache_read or 0) // tokens} % read from cache)" if tokens and usage.cache_read else ""
        parts.append(f"{tokens:,} in{read}, {usage.output or 0:,} out")
    if turn.cost.total_usd:
        parts.append(f"${turn.cost.total_usd:.4f}" if turn.cost.total_usd >= LEAST_USD else f"under ${LEAST_USD}")
    if turn.reply is not None and turn.after.epoch is not None:
        parts.append(f"epoch {turn.after.epoch}{f', turned: {turn.turned}' if turn.turned else ''}")
    if isinstance(turn.error, Cancelled):
        parts.append("stopped; what came is kept")
    if turn.error is not None and turn.is_kept:
        parts.append("/retry asks again")
    if turn.reply is not None and turn.reply.finish == "length":
        parts.append("cut off at the model's limit")
    return " · ".join([*parts, *turn.missing])


def as_json(turn: Turn) -> JSON:
    """Return the same for programs."""
    usage, after = turn.usage, turn.after
    return {
        "thread": turn.thread,
        "reply": turn.words if turn.reply is None else turn.reply.text,
        "finish": None if turn.reply is None else turn.reply.finish,
        "tokens": {
            "input": usage.input,
            "cache_read": usage.cache_read,
            "cache_write": usage.cache_write,
            "output": usage.output,
        },
        "usd": None if turn.cost.total_usd is None else round(turn.cost.total_usd, 9),
        "epoch": after.epoch,
        "turned": turn.turned,
        "memory_bytes": after.memory_bytes,
        "missing": list(turn.missing),
        "error": None if turn.error is None else type(turn.error).__name__,
    }


def _in(turn: Turn) -> int | None:
    """Return the tokens that were sent; None where nobody counted."""
    counted = [turn.usage.input, turn.usage.cache_read, turn.usage.cache_write]
    known = [one for one in counted if one is not None]
    return sum(known) if known else None


def _status(error: EverlogError) -> int:
    return MISTAKEN if isinstance(error, Mistake) else FAILED


def _explained(error: EverlogError) -> str:
    said = str(error).replace(_ASIDE, "")
    advice = next((words for kind, words in _ADVICE if isinstance(error, kind)), None)
    return f"{said}; {advice}" if advice else said
