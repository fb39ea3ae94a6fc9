"""A history of which a client sends a part only, made whole from the log: for who has to send all of it on."""

from collections.abc import Sequence

from everlog import log
from everlog.conversation.alignment.presence import principal_of
from everlog.conversation.alignment.references import references, resolved
from everlog.conversation.alignment.values import Request
from everlog.errors import Erased
from everlog.log import ThreadRow
from everlog.messages import Message
from everlog.store import Unit

AFTER = "after"
"""What the first entry of a thread says where more was said before it, elsewhere: the id of the answer it goes on from."""


def is_whole(unit: Unit, thread: ThreadRow) -> bool:
    """Return whether a thread begins where its talk does."""
    return not thread.next or AFTER not in log.at(unit, thread, [0])[0].message.meta


def restored(unit: Unit, request: Request, messages: Sequence[Message]) -> tuple[Message, ...] | None:
    """Return a history with what it names instead of saying it; None where something of that is not known here.

    What is named is looked up in the name of who asks. Instructions are those of the request, else the thread's newest.

    Args:
        unit: the unit to read in.
        request: who asks, and after which answer.
        messages: what the client sends, word for word.
    """
    principal = principal_of(unit, request)
    whole = resolved(unit, messages, principal=principal) or tuple(messages)
    if any(references(message) for message in whole):
        return None
    if request.after is None:
        return whole
    place = log.answer(unit, request.after, principal=principal)
    if place is None:
        return None
    try:
        thread = log.load(unit, place[0])
    except Erased:
        return None
    if not is_whole(unit, thread):
        return None
    leading, said = log.leading(whole)
    if not leading:
        leading = tuple(Message(kind="system", text=text) for text in log.instructions(unit, thread)[-1:])
    past = (entry.message for entry in log.read(unit, thread, 0, place[1] + 1))
    return (*leading, *past, *said)
