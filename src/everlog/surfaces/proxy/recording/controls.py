"""What a client wants of one request: nothing kept, nothing learned, more told. Pure.

`X-Everlog-Memory: off` and `X-Everlog-Learning: off` (also `false`, `0`), `X-Everlog-Debug: on` (also `true`, `1`); the
older names `X-Infinitum-*` and `X-Context-*` mean the same, and count where ours is not there.
"""

from dataclasses import dataclass

from everlog.surfaces.proxy.incoming import Headers, values
from everlog.surfaces.proxy.recording.identity import OWN

_OFF = frozenset({b"off", b"false", b"0"})
_ON = frozenset({b"on", b"true", b"1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """How one request is treated."""

    keeps: bool = True
    """Whether the exchange is kept in the log."""
    learns: bool = True
    """Whether facts may be learned from it."""
    tells: bool = False
    """Whether the answer's headers tell what was decided."""

    @classmethod
    def of(cls, headers: Headers) -> "Controls":
        """Return what the headers of a request say."""
        return cls(
            keeps=_said(headers, "memory") not in _OFF,
            learns=_said(headers, "learning") not in _OFF,
            tells=_said(headers, "debug") in _ON,
        )


def _said(headers: Headers, name: str) -> bytes:
    stated = (value for start in OWN for value in values(headers, f"{start}{name}".encode()))
    return next(stated, b"").strip().lower()
