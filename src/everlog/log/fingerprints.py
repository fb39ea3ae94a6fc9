"""When two messages are the same message: a canonical form of each, hashed with the tenant's secret.

A history comes back again and again, and never quite as it was. What stays is hashed: kind, text, calls as name and parsed
arguments, media, unknown parts. What moves is not: space around text, line ends, how text was cut into parts, key order
and number forms of arguments, blocks that a client puts in for itself, ids, names, times, models, `meta`. Left out as
well are the author, whom a proxy does not know, and which call a result answers: neighbours and the call's own id say it.

A *chain* is a hash over all prints up to a message, so that equal chains are equal histories. *Quiet* prints are in no
chain and tell nothing apart: system messages, which clients move and rewrite; blanks; and entries that were erased.

Prints are keyed, since a plain hash of "yes" would outlive an erasure. Nothing here knows a store or a thread.
"""

import hashlib
import json
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import assert_never

from everlog.messages import KINDS, Call, Kind, Media, Message, Part, Result, Unknown
from everlog.tokens import utf8

VERSION = 1
"""Of the canonical form; prints of two versions are not compared."""

PRINT_BYTES = 16

GENESIS = bytes(PRINT_BYTES)
"""The chain before the first message."""

BLANK = bytes(PRINT_BYTES)
"""The print of a message that says nothing, the same for every tenant."""

ERASED = b"\xff" * PRINT_BYTES
"""The print of an erased entry."""

QUOTING_BYTES = 64 * 1024
"""How much of a history is searched for a quote: walking it takes 0.2 s a megabyte, for each thread that it could be of."""

QUOTE_BYTES = 200
"""So much of a reply, word for word in another message, is a quotation. Sixteen of sixteen recorded summaries of clients
quote the reply in which the model gave them; the longest stock phrase seen has 43 bytes."""

_SPACE = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_PIECE_BYTES = QUOTE_BYTES // 2
_PIECE_VARIETY = 8
_PIECE_PLACES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Print:
    """What alignment knows of a message."""

    fp: bytes
    """Fingerprint, 16 bytes."""
    kind: Kind
    """Kind of the message."""
    size: int
    """Bytes of its canonical form; the size of the stored text will do where only that is known."""
    call: bytes | None = None
    """Keyed hash of the id that ties a call to its result; None for other messages, and where it is not known."""
    chain: bytes = GENESIS
    """Hash over all prints up to this one; alignment does not read it."""

    @property
    def quiet(self) -> bool:
        """Whether it tells nothing apart: a system message, a blank, or an erased entry."""
        return self.kind == "system" or self.fp in (BLANK, ERASED)


class Fingerprints:
    """Prints messages one after another, each chained to the one before."""

    def __init__(self, secret: bytes, chain: bytes = GENESIS, *, blocks: Sequence[tuple[str, str]] = ()) -> None:
        """Begin after the message whose chain is given.

        Args:
            secret: the tenant's, 1 to 64 bytes.
            chain: that of the message before.
            blocks: beginning and end of blocks in a text that are not part of it, such as `<system-reminder>` and
                `</system-reminder>`; neither is empty.
        """
        if not secret:
            raise ValueError("fingerprints need a secret of 1 to 64 bytes")
        prints, self._chains, self._calls = (
            hashlib.blake2b(key=secret, digest_size=PRINT_BYTES, person=f"everlog {name} {VERSION}".encode())
            for name in ("print", "chain", "call")
        )
        self._roles = {kind: _fed(prints, [("user" if kind == "note" else kind).encode()]) for kind in KINDS}
        self._chain = chain
        self._blocks = blocks

    def add(self, message: Message, *, erased: bool = False) -> Print:
        """Return the print of the next message; of a tombstone if it was `erased`."""
        fields = [] if erased else [*_canonical(message, self._blocks)]
        if not any(fields):
            return Print(fp=ERASED if erased else BLANK, kind=message.kind, size=0, chain=self._chain)
        fp = _fed(self._roles[message.kind], fields).digest()
        self.follow(fp, message.kind)
        tie = (message.call or message.result) if message.parts else None
        call = None if tie is None else _fed(self._calls, (utf8(tie.call_id),)).digest()
        return Print(fp=fp, kind=message.kind, size=sum(map(len, fields)), call=call, chain=self._chain)

    def follow(self, fp: bytes, kind: Kind) -> bytes:
        """Return the chain after a message of which only the print is known."""
        if kind != "system" and fp != BLANK:
            self._chain = _fed(self._chains, (self._chain, fp)).digest()
        return self._chain


def _fed(begun: "hashlib.blake2b", fields: Iterable[bytes]) -> "hashlib.blake2b":
    """Return what hashes more fields behind those that it was begun with, each after its length."""
    state = begun.copy()
    for field in fields:
        state.update(len(field).to_bytes(8, "big") + field)
    return state


def prints(
    secret: bytes,
    messages: Iterable[Message],
    erased: Container[int] = (),
    *,
    blocks: Sequence[tuple[str, str]] = (),
) -> list[Print]:
    """Return the prints of a history from its first message on.

    Args:
        secret: the tenant's, 1 to 64 bytes.
        messages: the history, without its leading system messages.
        erased: which of them, by place, are tombstones.
        blocks: beginning and end of blocks that are not part of a text.
    """
    running = Fingerprints(secret, blocks=blocks)
    return [running.add(message, erased=i in erased) for i, message in enumerate(messages)]


def leading(messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return the leading system messages, which are instructions and no part of the conversation, and the rest."""
    count = sum(1 for _ in takewhile(lambda message: message.kind == "system", messages))
    return tuple(messages[:count]), tuple(messages[count:])


def quoted(texts: Sequence[str], replies: Iterable[str]) -> int | None:
    """Return the place of the first text that holds 200 bytes in a row of one of the replies, or None.

    A reply that stands in the history as a message of its own is found there first. Runs of fewer than 8 different bytes,
    such as rulers, prove nothing. Only the first 64 KB of the texts are looked at, all together: a summary stands at the
    beginning, and whoever sends a file there must not keep others waiting.

    Args:
        texts: the texts of a history, in order, all of them.
        replies: what the model answered in this session, to side requests too; no arguments of calls, since a prompt
            for a subagent is one.
    """
    pieces: dict[bytes, list[tuple[bytes, int]]] = {}
    for reply in replies:
        encoded = utf8(_plain(reply))
        for at in range(0, len(encoded) - _PIECE_BYTES + 1 if len(encoded) >= QUOTE_BYTES else 0, _PIECE_BYTES):
            piece = encoded[at : at + _PIECE_BYTES]
            if len(set(piece)) >= _PIECE_VARIETY and len(places := pieces.setdefault(piece, [])) < _PIECE_PLACES:
                places.append((encoded, at))
    if not pieces:
        return None
    left = QUOTING_BYTES
    for i, text in enumerate(texts):
        said = utf8(_plain(text[:left]))
        if _quotes(said, pieces):
            return i
        left -= len(said)
        if left < QUOTE_BYTES:
            break
    return None


def _quotes(text: bytes, pieces: dict[bytes, list[tuple[bytes, int]]]) -> bool:
    """Whether a run of the replies is in a text. A run holds at least one whole piece, since pieces have half its length."""
    for at in range(len(text) - _PIECE_BYTES + 1 if len(text) >= QUOTE_BYTES else 0):
        for reply, there in pieces.get(text[at : at + _PIECE_BYTES], ()):
            before = after = 0
            while before < min(at, there) and text[at - before - 1] == reply[there - before - 1]:
                before += 1
            rest = min(len(text) - at, len(reply) - there)
            while before + after < QUOTE_BYTES and after < rest and text[at + after] == reply[there + after]:
                after += 1
            if before + after >= QUOTE_BYTES:
                return True
    return False


def _canonical(message: Message, blocks: Sequence[tuple[str, str]]) -> Iterator[bytes]:
    """Yield what a message says, piece by piece: its text, then its parts. A call's text only repeats the call."""
    repeats = message.kind == "tool_call" and message.call is not None
    yield b"" if repeats else utf8(_plain(_without(message.text, blocks)))
    for part in message.parts:
        yield from _canonical_part(part)


def _canonical_part(part: Part) -> Iterator[bytes]:
    match part:
        case Call():
            yield from (b"call", utf8(part.name), utf8(_arguments(part.arguments)))
        case Result():
            yield b"result"
        case Media(url=str(url)):
            yield from (b"link", utf8(url.partition("#")[0].partition("?")[0]))
        case Media(content=bytes(content)):
            yield from (b"media", hashlib.sha256(content).digest())
        case Media():
            yield from (b"file", utf8(part.name or part.media_type))
        case Unknown():
            yield from (b"unknown", utf8(part.source), utf8(_arguments(json.dumps(part.value))))
        case _:
            assert_never(part)


def _arguments(text: str) -> str:
    """Return JSON in one form: sorted keys, no space, numbers as doubles; what is no JSON, trimmed; nothing as `{}`."""
    trimmed = _plain(text)
    try:
        return _ENCODE(_DECODE(trimmed or "{}"))
    except (ValueError, RecursionError):
        return trimmed


def _double(digits: str) -> float:
    return float(digits) + 0.0  # adding makes -0 the 0 that JavaScript writes


_DECODE = json.JSONDecoder(parse_int=_double, parse_float=_double).decode
_ENCODE = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def _plain(text: str) -> str:
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.strip(_SPACE)


def _without(text: str, blocks: Sequence[tuple[str, str]]) -> str:
    """Return text without some blocks; one that has its line to itself takes the line's end with it."""
    for start, end in blocks:
        kept, done = [], 0
        while (at := text.find(start, done)) >= 0 and (stop := text.find(end, at + len(start))) >= 0:
            kept.append(text[done:at])
            done = stop + len(end)
            if at == 0 or text[at - 1] == "\n":
                while text[done : done + 1] in ("\r", "\n"):
                    done += 1
        text = "".join([*kept, text[done:]])
    return text
