"""One line for each tool call of a piece, made by code: what was called, with what, and how it ended."""

from collections.abc import Sequence

from everlog.memory.rolling.outline import shortened
from everlog.memory.rolling.questions import RECALLED, Recalled
from everlog.messages import Entry

_ARGUMENTS_CHARS = 80
_RESULT_CHARS = 120


def lines(piece: Sequence[Entry], recalled: Recalled) -> list[str]:
    """Return `[Tool: name(args) → result]` for each call, in order; a call without a result ends in `no result`."""
    results: dict[str, Entry] = {}
    for entry in reversed(piece):
        if entry.message.result is not None:
            results[entry.message.result.call_id] = entry
    found = []
    for entry in piece:
        call = entry.message.call
        if call is None:
            continue
        answer = results.get(call.call_id)
        if answer is None or answer.message.result is None:
            said = "no result"
        elif recalled(call):
            said = RECALLED
        else:
            failed = "failed: " if answer.message.result.failed else ""
            said = failed + (_line(answer.text, _RESULT_CHARS) or "nothing")
        found.append(f"[Tool: {_line(call.name, 64)}({_line(call.arguments, _ARGUMENTS_CHARS)}) → {said}]")
    return found


def _line(text: str, chars: int) -> str:
    return shortened(" ".join(text.split()), chars)
