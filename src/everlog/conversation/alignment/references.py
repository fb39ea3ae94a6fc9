"""Messages that a client names instead of sending: items of answers that it was given, by their ids."""

from collections.abc import Sequence

from everlog import log
from everlog.messages import Message, Unknown
from everlog.store import Unit


def resolved(unit: Unit, messages: Sequence[Message], *, principal: str) -> tuple[Message, ...] | None:
    """Return a history with the messages that it refers to in their places; None if it refers to none that is known."""
    ids = [id_ for message in messages for id_ in references(message)]
    known = log.answers(unit, ids, principal=principal)
    if not known:
        return None
    found: list[Message] = []
    for message in messages:
        places = [known[id_] for id_ in references(message) if id_ in known]
        found += [_entry(unit, *place) for place in places] or [message]
    return tuple(found)


def references(message: Message) -> list[str]:
    """Return the ids that stand in a message instead of what they name."""
    if not message.parts:
        return []
    values = [part.value for part in message.parts if isinstance(part, Unknown)]
    shapes = [value for value in values if isinstance(value, dict) and value.get("type") == "item_reference"]
    return [id_ for shape in shapes if isinstance(id_ := shape.get("id"), str)]


def _entry(unit: Unit, thread: str, i: int) -> Message:
    row = log.load(unit, thread)
    return log.at(unit, row, [i], media=True)[i].message
