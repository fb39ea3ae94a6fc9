"""BEAM: synthetic talks of 100 thousand to 10 million tokens (ICLR 2026), a chat.json in a folder each.

A talk is a list of batches of turns of messages; the longest ones are lists of plans, which are lists of batches. A date
("March-15-2024") stands at the first message of a batch only; the messages up to the next date get it too, at midnight
UTC, which is counted. The words are kept as they are, with the marks that the generator left in them.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from hashlib import sha256

from everlog.importers.records import Value
from everlog.importers.report import Malformed, Problem, Tally
from everlog.importers.shapes import Record, array, compact, record, string
from everlog.importers.source import Source
from everlog.importers.times import MONTHS, NOT_A_TIME, dated
from everlog.messages import JSON, Conversation, Kind, Message, Origin
from everlog.tokens import utf8

KEY = "beam"
ROLES: dict[str, Kind] = {"user": "user", "assistant": "assistant", "system": "system"}


def knows(value: JSON) -> bool:
    """Whether value is a batch, or a plan of batches."""
    shape = record(value)
    if isinstance(shape.get("turns"), list):
        return "batch_number" in shape
    return bool(shape) and all(name.startswith("plan-") and isinstance(plan, list) for name, plan in shape.items())


def conversations(records: Iterable[Value | Problem], source: Source, tally: Tally) -> Iterator[Conversation | Problem]:
    """Yield the one talk of the file; it is named after its folder and its first words."""
    messages: list[Message] = []
    for item in records:
        if isinstance(item, Problem):
            yield item
            continue
        try:
            for plan, turn in _turns(record(item.value)):
                messages.append(_message(turn, plan, _date(turn.get("time_anchor"), tally)))
        except Malformed as error:
            yield Problem(where=item.where, reason=str(error), position=item.position)
            return
    if messages:
        digest = sha256(utf8(messages[0].text)).hexdigest()[:8]
        identity = f"{source.path.absolute().parent.name}-{digest}"
        yield Conversation(key=f"{KEY}:{identity}", messages=dated(messages, tally), origin=Origin(session=identity))


def _turns(shape: Record) -> Iterator[tuple[str | None, Record]]:
    """Yield the messages of a batch, or of the batches of plans, each with the plan it is of."""
    if not knows(shape):
        raise Malformed("it is neither a batch with turns nor a plan of batches")
    plans = {None: [shape]} if "turns" in shape else shape
    for plan, batches in plans.items():
        for batch in batches:
            for turn in array(record(batch).get("turns")):
                for message in array(turn):
                    if not isinstance(record(message).get("content"), str):
                        raise Malformed("a message of it has no content")
                    yield plan, message


def _message(turn: Record, plan: str | None, at: datetime | None) -> Message:
    role = string(turn.get("role")) or ""
    identity = turn.get("id")
    name = str(identity) if isinstance(identity, int | str) else None
    return Message(
        kind=ROLES.get(role, "note"),
        text=turn["content"],
        author=None if role in ROLES else role or None,
        at=at,
        id=f"{plan}:{name}" if plan and name else name,
        meta=compact(index=string(turn.get("index")), question_type=string(turn.get("question_type"))),
    )


def _date(value: object, tally: Tally) -> datetime | None:
    if value is None:
        return None
    try:
        month, day, year = str(value).strip().split("-")
        return datetime(int(year), MONTHS.index(month.lower()) + 1, int(day), tzinfo=UTC)
    except (ValueError, OverflowError):
        tally.assumed[NOT_A_TIME] += 1
        return None
