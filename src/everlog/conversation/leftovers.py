"""What waits to be recorded, when the program ends before the database is back: a file beside it, taken in by the next."""

import json
import logging
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from everlog import jsonl, log
from everlog.clock import EPOCH
from everlog.conversation.spool import Waiting
from everlog.conversation.trouble import PASSES
from everlog.errors import Damaged, Erased, EverlogError, KeyTrouble
from everlog.log import NewTurn, TurnState
from everlog.messages import JSON, Entry, Message, Origin
from everlog.store import Store, aside
from everlog.tokens import text_of, utf8

_logger = logging.getLogger(__name__)


def keep(store: Store, tenant: str, key: str, thread: str | None, waiting: Sequence[Waiting]) -> bool:
    """Write what waits; say whether it was."""
    plain = jsonl.encoded(jsonl.dumps({"thread": thread, "waiting": [_render(one) for one in waiting]}))
    count = sum(len(one.turn.messages) for one in waiting)
    try:
        path = aside.write(store, _name(tenant, key), plain)
    except EverlogError as error:
        path, why = None, type(error).__name__
    else:
        why = "no place for a file"
    if path is None:
        _logger.error(
            "messages are lost with this process: they could not be recorded", extra={"messages": count, "error": why}
        )
        return False
    _logger.warning("messages wait in a file beside the database", extra={"messages": count, "file": path.name})
    return True


def take(store: Store, tenant: str, key: str) -> tuple[list[Waiting], list[Path]]:
    """Return what programs left waiting, oldest first, and the files that it is in; they stay until `drop`.

    Raises:
        KeyTrouble: they are sealed under another master key.
    """
    found: list[Waiting] = []
    paths: list[Path] = []
    for path in aside.files(store, _name(tenant, key)):
        try:
            kept = json.loads(text_of(aside.read(store, _name(tenant, key), path)))
            if _is_erased(store, tenant, kept["thread"]):
                path.unlink(missing_ok=True)
                continue
            found += [_parse(one) for one in kept["waiting"]]
        except KeyTrouble:
            raise
        except (Damaged, ValueError, KeyError, TypeError) as error:
            _logger.warning(
                "a file of messages cannot be read", extra={"file": path.name, "error": type(error).__name__}
            )
        else:
            paths.append(path)
    return found, paths


def drop(paths: Sequence[Path]) -> None:
    """Remove files: what they held is recorded."""
    for path in paths:
        path.unlink(missing_ok=True)


def are_there(store: Store) -> bool:
    """Whether there is any such file beside a database."""
    return bool(aside.files(store, "waiting"))


def forget(store: Store, tenant: str, key: str, *, user: str | None = None) -> None:
    """Drop what waits in files for a thread that is erased, or what a user said of it."""
    for path in aside.files(store, _name(tenant, key)):
        left: list[Waiting] = []
        thread = None
        if user is not None:
            kept = json.loads(text_of(aside.read(store, _name(tenant, key), path)))
            thread = kept["thread"]
            left = [one for one in map(_parse, kept["waiting"]) if one.turn.origin.user != user]
            if len(left) == len(kept["waiting"]):
                continue
        path.unlink(missing_ok=True)
        if left:
            keep(store, tenant, key, thread, left)


def _is_erased(store: Store, tenant: str, thread: str | None) -> bool:
    """Whether a thread was erased: what waited for it is not to come back."""
    try:
        if thread is not None:
            store.read(tenant, partial(log.load, thread=thread))
    except Erased:
        _logger.warning("messages that waited for a thread which was erased are dropped")
        return True
    except PASSES:
        pass
    return False


def _name(tenant: str, key: str) -> str:
    return f"waiting-{sha256(utf8(tenant) + b'/' + utf8(key)).hexdigest()[:16]}"


def _render(one: Waiting) -> JSON:
    turn = one.turn
    return {
        "expected": one.expected,
        "number": one.number,
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
    return Waiting(turn, value["expected"], value["number"])
