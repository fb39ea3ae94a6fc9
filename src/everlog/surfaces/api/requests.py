"""What requests to models were, and the entries that came of them, as somebody may see them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from everlog import access, log
from everlog.access import Principal, Requested
from everlog.clock import isoformat
from everlog.conversation.database import Everlog
from everlog.errors import Erased, UnknownThread
from everlog.messages import Entry
from everlog.store import Unit
from everlog.surfaces.api import values

NANO = 1_000_000_000


def found(home: Everlog, principal: Principal, asked: values.Which) -> values.Requests:
    """Return the newest requests that somebody may see."""
    page, more = home.store.read(home.name, partial(_page, principal=principal, asked=asked))
    return values.Requests(requests=page, next=page[-1].id if more else None)


def one(home: Everlog, principal: Principal, id_: str) -> values.Request | None:
    """Return a request; None where there is none, or it is somebody else's."""
    return home.store.read(home.name, partial(_one, principal=principal, id_=id_))


def events(home: Everlog, principal: Principal, asked: values.Which) -> values.Events:
    """Return the entries of the newest requests."""
    requests = found(home, principal, asked)
    told = [event for request in requests.requests for event in _events(home, request)]
    return values.Events(events=told, next=requests.next)


def model_use(one: access.ModelUse) -> values.ModelUse:
    """Return what a model took, as it is told."""
    return values.ModelUse(
        model=one.model,
        requests=one.requests,
        tokens_in=one.tokens_in,
        tokens_out=one.tokens_out,
        tokens_cache_read=one.tokens_read,
        tokens_cache_write=one.tokens_written,
        cost_usd=one.nano_usd / NANO,
    )


def _page(unit: Unit, principal: Principal, asked: values.Which) -> tuple[list[values.Request], bool]:
    key, user = _own(principal)
    rows = access.asked_by(
        unit,
        limit=asked.limit + 1,
        before=asked.cursor or None,
        key=key,
        user=asked.user_id if user is None else user,
        session=asked.session_id,
        project=asked.project_id,
    )
    if user is not None and asked.user_id not in {None, user}:
        rows = []
    return _told(unit, rows[: asked.limit]), len(rows) > asked.limit


def _one(unit: Unit, principal: Principal, id_: str) -> values.Request | None:
    row = access.asked(unit, id_)
    key, user = _own(principal)
    if row is None or key not in {None, row.key} or user not in {None, row.user}:
        return None
    return _told(unit, [row])[0]


def _own(principal: Principal) -> tuple[str | None, str | None]:
    """Return the key and the user whose requests alone somebody may see; None and None if all."""
    return (None, None) if principal.role != "chat" else (principal.key or "", principal.user or "")


def _told(unit: Unit, rows: Sequence[Requested]) -> list[values.Request]:
    keys: dict[str, str | None] = {}
    for row in rows:
        if row.thread and row.thread not in keys:
            keys[row.thread] = log.key_of(unit, row.thread)
    return [_request(row, keys) for row in rows]


def _request(row: Requested, keys: Mapping[str, str | None]) -> values.Request:
    return values.Request(
        id=row.id,
        at=isoformat(row.at),
        ms=row.ms,
        key=row.key or None,
        user_id=row.user or None,
        session_id=row.session,
        project_id=row.project,
        protocol=row.protocol,
        upstream=row.upstream,
        model=row.model,
        status=row.status,
        decision=row.decision,
        thread=keys.get(row.thread),
        first=row.first,
        stop=row.stop,
        tokens_in=row.tokens_in,
        tokens_out=row.tokens_out,
        tokens_cache_read=row.tokens_read,
        tokens_cache_write=row.tokens_written,
        cost_usd=None if row.nano_usd is None else row.nano_usd / NANO,
    )


def _events(home: Everlog, request: values.Request) -> Iterator[values.Event]:
    if request.thread is None or request.first is None or request.stop is None:
        return
    try:
        entries = list(home.thread(request.thread).entries(request.first, request.stop))
    except (Erased, UnknownThread):  # erased meanwhile
        return
    for entry in reversed(entries):
        yield _event(request, entry)


def _event(request: values.Request, entry: Entry) -> values.Event:
    message = entry.message
    return values.Event(
        id=f"{request.thread}:{entry.i}",
        event_type=f"message.{message.kind}",
        role=message.kind,
        content=message.text,
        created_at=isoformat(entry.at),
        request_id=request.id,
        session_id=request.session_id,
        user_id=request.user_id,
        project_id=request.project_id,
    )
