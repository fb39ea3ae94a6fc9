"""LoCoMo: long talks of two people over many sessions (Maharana et al., ACL 2024), one or a list of them.

A session has one time, such as "1:56 pm on 8 May, 2023", without a zone; it is taken as UTC, and each of its turns gets
it. Both speakers are people, so both are of the kind `user` and told apart by their names. Pictures come as links, with
a machine's caption and the words they were searched by as facts beside, which nobody said.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from hashlib import sha256

from everlog.importers.media import from_url
from everlog.importers.records import Value
from everlog.importers.report import Malformed, Problem, Tally
from everlog.importers.shapes import Record, array, compact, record, string
from everlog.importers.source import Source
from everlog.importers.times import MONTHS, NO_ZONE, NOT_A_TIME, dated
from everlog.jsonl import dumps, encoded
from everlog.messages import JSON, Conversation, Media, Message, Origin

KEY = "locomo"

_SESSION = re.compile(r"session_(\d+)")
_TIME = re.compile(r"^\s*(\d{1,2}):(\d\d)\s*([ap])m\s+on\s+(\d{1,2})\s+([a-z]+),?\s+(\d{4})\s*$", re.IGNORECASE)


def knows(value: JSON) -> bool:
    """Whether value is a talk of this form."""
    talk = record(record(value).get("conversation"))
    return "speaker_a" in talk and any(map(_SESSION.match, talk))


def conversations(records: Iterable[Value | Problem], source: Source, tally: Tally) -> Iterator[Conversation | Problem]:
    """Yield each talk."""
    del source
    for item in records:
        if isinstance(item, Problem):
            yield item
            continue
        try:
            conversation = _conversation(record(item.value), tally)
            if conversation.messages:
                yield conversation
            else:
                tally.skipped["empty conversation"] += 1
        except Malformed as error:
            yield Problem(where=item.where, reason=str(error), position=item.position)


def _conversation(shape: Record, tally: Tally) -> Conversation:
    talk = record(shape.get("conversation"))
    numbers = sorted(int(match[1]) for name in talk if (match := _SESSION.fullmatch(name)))
    if not numbers:
        raise Malformed("it has no conversation with sessions")
    messages = []
    for number in numbers:
        at = _time(talk.get(f"session_{number}_date_time"), tally)
        for place, turn in enumerate(array(talk[f"session_{number}"]), 1):
            if not isinstance(record(turn).get("text"), str):
                raise Malformed(f"turn {place} of its session {number} has no text")
            messages.append(_message(turn, number, at))
    identity = string(shape.get("sample_id")) or sha256(encoded(dumps(talk))).hexdigest()[:32]
    return Conversation(key=f"{KEY}:{identity}", messages=dated(messages, tally), origin=Origin(session=identity))


def _message(turn: Record, session: int, at: datetime | None) -> Message:
    return Message(
        kind="user",
        text=turn["text"],
        author=string(turn.get("speaker")),
        at=at,
        parts=tuple(_pictures(turn)),
        id=string(turn.get("dia_id")),
        meta=compact(session=session, caption=string(turn.get("blip_caption")), query=string(turn.get("query"))),
    )


def _pictures(turn: Record) -> Iterator[Media]:
    links = turn.get("img_url")
    for link in links if isinstance(links, list) else [links]:
        if isinstance(link, str):
            yield from_url(link, offset=len(turn["text"]))


def _time(value: object, tally: Tally) -> datetime | None:
    if value is None:
        return None
    try:
        hour, minute, half, day, month, year = _TIME.findall(str(value))[0]
        hour_of_day = int(hour) % 12 + (12 if half.lower() == "p" else 0)
        at = datetime(int(year), MONTHS.index(month.lower()) + 1, int(day), hour_of_day, int(minute), tzinfo=UTC)
    except (ValueError, IndexError):
        tally.assumed[NOT_A_TIME] += 1
        return None
    tally.assumed[NO_ZONE] += 1
    return at
