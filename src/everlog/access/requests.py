"""What each request to a model was: who asked, what became of it, and what it took. Counts, times and ids, no text.

They are kept for a while and up to a number, and forgotten in small steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from everlog.access import rows
from everlog.clock import micros, moment
from everlog.protocols.exchange import Usage
from everlog.store import Unit

_MOST = (1 << 50) - 1
_LAST = "g"
"""Behind all ids, which are hex digits."""

_NAMES = tuple(column.name for column in rows.exchange.columns if column.name != "tenant")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """A request to a model that was answered, or was not."""

    id: str
    """As `X-Everlog-Request-ID` told it; ids of later requests are greater."""
    at: datetime
    """When it came."""
    key: str = ""
    """Id of the key it came with; empty where none is needed."""
    user: str = ""
    """The end user, where one is named."""
    session: str | None = None
    project: str | None = None
    protocol: str
    """The wire format."""
    upstream: str | None = None
    """The server of models that it went to, by its name; None where nobody says."""
    response: str | None = None
    """The id that the answer has there, by which a client may ask for it again."""
    previous: str | None = None
    """The id of the answer that it goes on from, where it names one."""
    model: str | None = None
    """The model that was asked for."""
    status: int | None = None
    """Of the answer; None where none came."""
    decision: str
    """What became of it in the log."""
    thread: str = ""
    """Id of the thread it is in; empty if it is in none."""
    first: int | None = None
    """Position of the first entry that was new; None if none was."""
    stop: int | None = None
    """Position after the last."""
    ms: int = 0
    """From when it came until it was kept."""
    tokens_in: int | None = None
    """Read anew; this and the next three are None where the provider did not say."""
    tokens_out: int | None = None
    tokens_read: int | None = None
    """Read from a cache."""
    tokens_written: int | None = None
    """Written into one."""
    nano_usd: int | None = None
    """What it cost, in billionths of a dollar; None where nobody knows."""

    @property
    def tokens(self) -> int:
        """Tokens of all kinds, as far as they are known."""
        return sum(one or 0 for one in (self.tokens_in, self.tokens_out, self.tokens_read, self.tokens_written))


def counted(usage: Usage | None) -> dict[str, Any]:
    """Return the tokens of an answer under the names that they have here."""
    if usage is None:
        return {}
    said = {
        "tokens_in": usage.input,
        "tokens_out": usage.output,
        "tokens_read": usage.cache_read,
        "tokens_written": usage.cache_write,
    }
    return {name: None if one is None else min(_MOST, max(0, one)) for name, one in said.items()}


def note(unit: Unit, requested: Requested) -> None:
    """Keep what a request was."""
    unit.run(rows.PUT_REQUEST, {name: getattr(requested, name) for name in _NAMES} | {"at": micros(requested.at)})


def asked(unit: Unit, id_: str) -> Requested | None:
    """Return what a request was; None where there is none of that id."""
    row = unit.row(rows.REQUEST_OF, id=id_)
    return None if row is None else _requested(row)


def asked_by(
    unit: Unit,
    *,
    limit: int,
    before: str | None = None,
    key: str | None = None,
    user: str | None = None,
    session: str | None = None,
    project: str | None = None,
) -> list[Requested]:
    """Return requests, the newest first.

    Args:
        unit: the unit to do it in.
        limit: the most that are returned.
        before: only those that came before the one of this id.
        key: only those under this key; '' for those without one.
        user: only those of this end user; '' for those that name none.
        session: only those of this session.
        project: only those of this project.
    """
    said = dict(zip(rows.FILTERS, (key, user, session, project), strict=True))
    given = {name: value for name, value in said.items() if value is not None}
    query = rows.REQUESTS[tuple(given)]
    named = {f"of_{name}": value for name, value in given.items()}
    return [_requested(row) for row in unit.rows(query, before=before or _LAST, limit=limit, **named)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """What the requests to a model took that are kept; tokens of which the provider said nothing are not in it."""

    model: str
    requests: int
    tokens_in: int
    """Read anew."""
    tokens_out: int
    tokens_read: int
    """Read from a cache."""
    tokens_written: int
    nano_usd: int


def by_model(unit: Unit) -> list[ModelUse]:
    """Return what models took, by name. It reads all requests that are kept."""
    names = ("requests", "tokens_in", "tokens_out", "tokens_read", "tokens_written", "nano_usd")
    return [
        ModelUse(model=model, **{name: int(sum_ or 0) for name, sum_ in zip(names, sums, strict=True)})
        for model, *sums in unit.rows(rows.BY_MODEL)
    ]


def answered_by(unit: Unit, response: str, *, key: str) -> Requested | None:
    """Return the request that got an answer, by somebody with this key; the newest of several, None where nobody knows."""
    row = unit.row(rows.REQUEST_OF_ANSWER, response=response, of_key=key)
    return None if row is None else _requested(row)


def surplus(unit: Unit, most: int) -> str | None:
    """Return the id of the newest request that is more than so many; None if there are not so many. It counts them all."""
    row = unit.row(rows.FIRST_TOO_MANY, most=most)
    return None if row is None else row[0]


def oldest(unit: Unit, upto: str, limit: int) -> list[str]:
    """Return the ids of the oldest requests up to an id, that included, the oldest first."""
    return [id_ for (id_,) in unit.rows(rows.OLDEST, upto=upto, limit=limit)]


def forget(unit: Unit, ids: Sequence[str]) -> int:
    """Delete what some requests were; return how many there were. What was used under keys stays counted."""
    return unit.count(rows.DROP_REQUESTS, ids=list(ids))


def _requested(row: Any) -> Requested:
    found = dict(zip(_NAMES, row[1:], strict=True))
    return Requested(**found | {"at": moment(found["at"])})
