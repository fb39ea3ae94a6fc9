"""What a client wants of one request: what is done with it, what memory may take, nothing kept or learned, more told. Pure.

`X-Everlog-Mode` and `X-Everlog-Budget` (tokens). `X-Everlog-Memory: off` and `X-Everlog-Learning: off` (also `false`,
`0`), `X-Everlog-Debug: on` (also `true`, `1`): for these three the older names `X-Infinitum-*` and `X-Context-*` mean the
same, and count where ours is not there.
"""

import re
from dataclasses import dataclass
from typing import get_args

from everlog.access import Mode, expect_budget
from everlog.errors import Mistake
from everlog.surfaces.proxy.incoming import Headers, values
from everlog.surfaces.proxy.recording.identity import OWN

MODES: dict[bytes, Mode] = {mode.encode(): mode for mode in get_args(Mode)}

_OFF = frozenset({b"off", b"false", b"0"})
_ON = frozenset({b"on", b"true", b"1"})
_NUMBER = re.compile(rb"[0-9]{1,18}")
_STARTS = tuple(start.encode() for start in OWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """How one request is treated."""

    keeps: bool = True
    """Whether the exchange is kept in the log."""
    learns: bool = True
    """Whether facts may be learned from it."""
    tells: bool = False
    """Whether the answer's headers tell what was decided."""
    mode: Mode | None = None
    """What is done with it; None where the client does not say."""
    budget_tokens: int | None = None
    """How much of its prompt memory may take; None where the client does not say."""

    @classmethod
    def of(cls, headers: Headers) -> "Controls":
        """Return what the headers of a request say.

        Raises:
            Mistake: a mode is none, or a budget cannot be one.
        """
        ours = tuple(one for one in headers if one[0].startswith(_STARTS))
        if not ours:
            return _PLAIN
        return cls(
            keeps=_said(ours, "memory") not in _OFF,
            learns=_said(ours, "learning") not in _OFF,
            tells=_said(ours, "debug") in _ON,
            mode=_mode(_first(ours, b"x-everlog-mode")),
            budget_tokens=_budget(_first(ours, b"x-everlog-budget")),
        )


_PLAIN = Controls()


def _said(headers: Headers, name: str) -> bytes:
    stated = (value for start in OWN for value in values(headers, f"{start}{name}".encode()))
    return next(stated, b"").strip().lower()


def _first(headers: Headers, name: bytes) -> bytes:
    return next(values(headers, name), b"").strip().lower()


def _mode(said: bytes) -> Mode | None:
    if said and said not in MODES:
        raise Mistake(f"X-Everlog-Mode is one of {', '.join(MODES.values())}; leave it out for what is usual here")
    return MODES.get(said)


def _budget(said: bytes) -> int | None:
    if not said:
        return None
    if not _NUMBER.fullmatch(said):
        raise Mistake("X-Everlog-Budget is a whole number of tokens, such as 20000")
    expect_budget(int(said), "X-Everlog-Budget")
    return int(said)
