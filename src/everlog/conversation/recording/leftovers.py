"""What waits to be recorded, when the program ends before the database is back: a file beside it, taken in by the next.

Names of files tell tenants and threads apart, and say neither. What a database would never take is kept in files of
another name, for whoever looks after it. An erasure reaches both.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeAlias

from everlog import jsonl, log
from everlog.clock import EPOCH
from everlog.conversation.recording.spool import Waiting
from everlog.conversation.recording.trouble import PASSES
from everlog.errors import Damaged, Erased, EverlogError, KeyTrouble, expect
from everlog.log import NewTurn, TurnState
from everlog.messages import JSON, Entry, Message, Origin
from everlog.store import Store, aside
from everlog.tokens import text_of, utf8

_logger = logging.getLogger(__name__)

Kind: TypeAlias = Literal["waiting", "refused"]
"""What the next program records, and what no program ever will."""

_UNREADABLE = (Damaged, ValueError, KeyError, TypeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Left:
    """What programs left."""

    waiting: list[Waiting] = field(default_factory=list)
    """Oldest first."""
    paths: list[Path] = field(default_factory=list)
    """The files that it is in; they stay until `drop`."""
    threads: list[str] = field(default_factory=list)
    """Our ids of the thread, as the programs knew it."""


def keep(
    store: Store, tenant: str, key: str, thread: str | None, waiting: Sequence[Waiting], *, kind: Kind = "waiting"
) -> Path | None:
    """Write what waits, and return the file; None where there can be none, and nothing else keeps it then."""
    count = sum(len(one.turn.messages) for one in waiting)
    try:
        path = _write(store, _name(tenant, key, kind), thread, waiting)
    except EverlogError as error:
        path, why = None, type(error).__name__
    else:
        why = "no place for a file"
    if path is None:
        _logger.error(
            "messages are lost with this process: they could not be recorded", extra={"messages": count, "error": why}
        )
        return None
    _logger.warning("messages wait in a file beside the database", extra={"messages": count, "file": path.name})
    return path


def save(store: Store, tenant: str, key: str, thread: str | None, waiting: Sequence[Waiting]) -> Path | None:
    """Write what waits in case the program is killed, and return the file; None where there can be none."""
    try:
        return _write(store, _name(tenant, key), thread, waiting)
    except EverlogError:  # it still waits in memory
        return None


def take(store: Store, tenant: str, key: str) -> Left:
    """Return what programs left waiting; that of a thread which was erased since is dropped, that of another database stays.

    Raises:
        KeyTrouble: they are sealed under another master key.
    """
    left = Left()
    for path in aside.files(store, _name(tenant, key)):
        try:
            thread, waiting = _read(store, path)
            if _is_gone(store, tenant, thread):
                _drop_erased(store, tenant, thread, path)
                continue
        except KeyTrouble:
            raise
        except _UNREADABLE as error:
            _logger.warning(
                "a file of messages cannot be read", extra={"file": path.name, "error": type(error).__name__}
            )
        else:
            left.waiting.extend(waiting)
            left.paths.append(path)
            left.threads.extend([] if thread is None else [thread])
    return left


def drop(paths: Sequence[Path]) -> None:
    """Remove files: what they held is recorded."""
    for path in paths:
        path.unlink(missing_ok=True)


def forget(store: Store, tenant: str, *, key: str | None = None, user: str | None = None) -> bool:
    """Remove what waits of a thread, of an end user, or of a whole tenant; say whether there was any.

    Raises:
        Damaged: a file cannot be read, so that nobody knows whose words are in it.
        KeyTrouble: one is sealed under another master key.
    """
    found = False
    for kind in ("waiting", "refused"):
        name = _of_tenant(tenant, kind) if key is None else _name(tenant, key, kind)
        drop(aside.remnants(store, name))
        for path in aside.files(store, name):
            found = _forget_in(store, path, user) or found
    return found


def _forget_in(store: Store, path: Path, user: str | None) -> bool:
    if user is None:
        path.unlink(missing_ok=True)
        return True
    try:
        thread, waiting = _read(store, path)
    except KeyTrouble:
        raise
    except _UNREADABLE as error:
        if not path.exists():  # another program took it in
            return False
        raise Damaged(
            f"{path.name} beside the database cannot be read, so nobody knows whose words are in it; remove it, and "
            "erase again"
        ) from error
    others = [one for one in waiting if one.turn.origin.user != user]
    if len(others) == len(waiting):
        return False
    if others:
        _write(store, aside.name_of(store, path), thread, others)
    path.unlink(missing_ok=True)
    return True


def _is_gone(store: Store, tenant: str, thread: str | None) -> bool:
    """Whether there is no such thread (any more): what waited for it is not taken in."""
    try:
        if thread is not None:
            store.read(tenant, partial(log.load, thread=thread))
    except Erased:
        return True
    except PASSES:
        pass
    return False


def _drop_erased(store: Store, tenant: str, thread: str | None, path: Path) -> None:
    """Remove what waited for a thread that was erased; what is of another database stays for whoever looks after it."""
    if any(one.target == "tenant" or thread in one.threads for one in log.receipts(store, tenant)):
        path.unlink(missing_ok=True)
        _logger.warning("messages that waited for a thread which was erased are dropped")
    else:
        _logger.error(
            "messages wait in a file for a thread that this database never had; was it replaced?",
            extra={"file": path.name},
        )


def _of_tenant(tenant: str, kind: str) -> str:
    return f"{kind}-{sha256(utf8(tenant)).hexdigest()[:32]}"


def _name(tenant: str, key: str, kind: str = "waiting") -> str:
    return f"{_of_tenant(tenant, kind)}-{sha256(utf8(key)).hexdigest()[:32]}"


def _write(store: Store, name: str, thread: str | None, waiting: Sequence[Waiting]) -> Path | None:
    plain = jsonl.encoded(jsonl.dumps({"thread": thread, "waiting": [_render(one) for one in waiting]}))
    return aside.write(store, name, plain)


def _read(store: Store, path: Path) -> tuple[str | None, list[Waiting]]:
    kept = json.loads(text_of(aside.read(store, path)))
    thread, waiting = kept["thread"], [_parse(one) for one in kept["waiting"]]
    expect(thread, (str, NoneType), "the id of a thread is a str")
    return thread, waiting


def _render(one: Waiting) -> JSON:
    turn = one.turn
    return {
        "of": one.of,
        "number": one.number,
        "after": one.after,
        "client_key": turn.client_key,
        "state": int(turn.state),
        "model": turn.model,
        "more": turn.more,
        "origin": {name: getattr(turn.origin, name) for name in jsonl.ORIGIN},
        "messages": [jsonl.render_entry(_entry(n, message)) for n, message in enumerate(turn.messages)],
    }


def _entry(n: int, message: Message) -> Entry:
    return Entry(i=n, turn=0, message=message, at=message.at or EPOCH)


def _parse(value: dict[str, Any]) -> Waiting:
    turn = NewTurn(
        messages=tuple(jsonl.parse_entry(line).message for line in value["messages"]),
        client_key=value["client_key"],
        state=TurnState(value["state"]),
        model=value["model"],
        more=value["more"],
        origin=Origin(**value["origin"]),
    )
    log.check([turn] if turn.messages or not turn.more else [])
    one = Waiting(turn=turn, of=value["of"], number=value["number"], after=value["after"])
    expect(one.of, str, "the name of a turn is a str")
    expect(turn.more, bool, "whether it goes on with a turn is True or False")
    for number in (one.number, one.after):
        expect(number, (int, NoneType), "a place in a thread is an int")
    return one
