"""An exchange with a model that somebody else had, a client of the proxy: what was asked, what came back, and by whom.

The client sends its whole history with each request; `record` keeps of it what is new, once, and the answer.
What takes long, printing and placing, is done in a unit that reads, while the model is still at work; the unit that
writes checks that all is as it was seen, and else all is placed again.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from everlog import log
from everlog.conversation.alignment.presence import Placed, Presence, principal_of
from everlog.conversation.alignment.restoring import AFTER
from everlog.conversation.alignment.seen import Overtaken, forked, free_key, made, unchanged
from everlog.conversation.alignment.values import Answer, Recorded, Request
from everlog.errors import Erased
from everlog.importers.titles import titled
from everlog.log import NewTurn, Purpose, ThreadRow, TurnState
from everlog.log.fingerprints import GENESIS, Fingerprints
from everlog.log.matches import VOICES
from everlog.messages import Message
from everlog.pump import mark_tree
from everlog.store import Store, Unit


def record(
    store: Store,
    tenant: str,
    request: Request,
    answer: Answer,
    *,
    redact: Callable[[Message], Message],
    presence: Presence | None = None,
    also: Callable[[Unit, Recorded], None] | None = None,
) -> Recorded:
    """Keep what is new of an exchange, in one unit; what was kept before is not kept again.

    Args:
        store: the database.
        tenant: whose it is.
        request: what was asked.
        answer: what came back, as far as it came.
        redact: applied to each message before anything else is done with it.
        presence: where the request was found to belong, if that was looked for before.
        also: what is done in the same unit, with what was kept.

    Raises:
        Erased: the thread that this goes on with was erased meanwhile, or something in it: its words are in the history
            that the client sent, and must not come back with it.
        StoreUnavailable: nothing of it was stored.
    """
    told = replace(answer, messages=tuple(map(redact, answer.messages)))
    presence = presence or Presence(request, redact)
    while True:
        placed = presence.placed or store.read(tenant, presence.place)
        try:
            unit = partial(_record, request=request, answer=told, placed=placed, also=also)
            return store.write(tenant, unit, name="record")
        except Overtaken:
            presence.placed = None
            if placed.thread is not None:
                store.read(tenant, partial(_not_erased, seen=placed.thread))


def _not_erased(unit: Unit, seen: ThreadRow) -> None:
    """Make sure that nothing of a thread was erased since it was seen.

    Raises:
        Erased: something was.
    """
    if log.load(unit, seen.id).generation != seen.generation:
        raise Erased("something of the thread was erased while an answer to it was under way")


def _record(
    unit: Unit, *, request: Request, answer: Answer, placed: Placed, also: Callable[[Unit, Recorded], None] | None
) -> Recorded:
    """Keep an exchange, and what it took.

    Raises:
        Overtaken: what was planned on has changed.
    """
    done = _keep(unit, request=request, answer=answer, placed=placed)
    if answer.usage is not None:
        log.spend(unit, done.thread, Purpose.TALK, request.model or "", answer.usage, answer.cost_usd)
    if also is not None:
        also(unit, done)
    return done


def begun(unit: Unit, *, request: Request, placed: Placed) -> Placed:
    """Keep what is new of a request before it is answered; return where its answer goes.

    Raises:
        Overtaken: what was planned on has changed.
    """
    seen = placed.thread
    if seen is not None and placed.forks_at is None and not placed.said:
        return replace(placed, thread=unchanged(unit, seen), begun_at=seen.next)
    principal = principal_of(unit, request)
    _make_sure_of(unit, placed, principal)
    thread = _thread(unit, placed, principal, request)
    log.instruct(unit, thread, placed.instructions)
    log.join(unit, thread, request.session, principal=principal)
    at = thread.next
    if placed.said:
        if seen is None:
            log.entitle(unit, thread, titled(placed.said))
        turns = _turns(unit, thread, placed.said, request, _UNANSWERED, placed)
        mark_tree(unit, thread.id, upto=log.append(unit, thread, turns).stop)
    return replace(
        placed, said=(), thread=log.load(unit, thread.id), forks_at=None, instructions=(), awaited=(), unknown=None,
        before=placed.said[-1] if placed.said else placed.before, begun_at=at, principal=principal,
    )  # fmt: skip


def _keep(unit: Unit, *, request: Request, answer: Answer, placed: Placed) -> Recorded:
    """Carry out what was decided.

    Raises:
        Overtaken: what was planned on has changed.
    """
    if request.is_side:
        return _keep_aside(unit, answer, placed)
    messages = _after(placed, (*placed.said, *answer.messages))
    if not messages and placed.begun_at is not None:
        return _unanswered(unit, placed, placed.begun_at)
    principal = principal_of(unit, request)
    if not messages or _is_repeated(unit, placed, answer):
        if placed.thread is not None and placed.forks_at is not None:
            _name(unit, unchanged(unit, placed.thread), answer, placed.forks_at, principal)
        return Recorded(decision="nothing", thread=placed.thread_id, said=0)
    _make_sure_of(unit, placed, principal)
    is_apart = placed.thread is None or placed.forks_at is not None
    if is_apart and (kept := _kept_since(unit, request, placed, messages, principal)) is not None:
        return Recorded(decision="nothing", thread=kept, said=0)
    thread = _thread(unit, placed, principal, request)
    log.instruct(unit, thread, placed.instructions)
    log.join(unit, thread, request.session, principal=principal)
    turns = _turns(unit, thread, messages, request, answer, placed)
    if placed.thread is None:
        log.entitle(unit, thread, titled(messages))
    appended = log.append(unit, thread, turns)
    _name(unit, thread, answer, appended.stop - len(answer.messages), principal)
    if request.held is not None:
        log.answered(unit, thread, request.held, appended.stop - 1, principal=principal)
    mark_tree(unit, thread.id, upto=appended.stop)
    first = appended.first if placed.begun_at is None else placed.begun_at
    said = appended.stop - first - len(answer.messages)
    return Recorded(decision=placed.decision, thread=thread.id, first=first, stop=appended.stop, said=said)


def _unanswered(unit: Unit, placed: Placed, begun_at: int) -> Recorded:
    """Return what was kept of a request before its answer, of which nothing came.

    Raises:
        Overtaken: somebody else went on in its thread.
    """
    assert placed.thread is not None
    thread = unchanged(unit, placed.thread)
    log.close_open(unit, thread)
    said = thread.next - begun_at
    first, stop = (begun_at, thread.next) if said else (None, None)
    return Recorded(decision=placed.decision, thread=thread.id, said=said, first=first, stop=stop)


def _after(placed: Placed, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages of an exchange; those that begin a thread, but no talk, say behind which answer they stand."""
    if placed.thread is not None or placed.unknown is None or not messages:
        return messages
    return (replace(messages[0], meta={**messages[0].meta, AFTER: placed.unknown}), *messages[1:])


def _name(unit: Unit, thread: ThreadRow, answer: Answer, first: int, principal: str) -> None:
    """Note what the ids of an answer that begins at a position stand for."""
    for id_, index in answer.ids:
        log.answered(unit, thread, id_, first + index, principal=principal)


def _make_sure_of(unit: Unit, placed: Placed, principal: str) -> None:
    """Make sure that what stood nowhere when it was looked for still stands nowhere.

    A client whose answer was not held long enough asks on before it is kept.

    Raises:
        Overtaken: it was kept meanwhile.
    """
    if placed.principal != principal:  # there was no tenant when it was looked for, so nothing could be found
        if log.listed(unit, limit=1):
            raise Overtaken
    elif log.holding(unit, placed.awaited, principal=principal):
        raise Overtaken
    if placed.unknown is not None and log.answer(unit, placed.unknown, principal=principal) is not None:
        raise Overtaken


def _kept_since(
    unit: Unit, request: Request, placed: Placed, messages: Sequence[Message], principal: str
) -> str | None:
    """Return the thread of a later request that shows this exchange already; None if there is none.

    A client whose answer was not held long enough asks on, and another server may be quicker to keep both.
    """
    began = request.origin.request
    if began is None or messages[-1].kind not in VOICES:
        return None
    seen = placed.thread
    before = GENESIS if seen is None or placed.forks_at is None else log.chain(unit, seen, placed.forks_at)
    running = Fingerprints(unit.secret(), before)
    chain = [running.add(message) for message in messages][-1].chain
    later = (one.thread for one in log.holding(unit, [chain], principal=principal) if one.thread > began)
    return next(later, None)


def _thread(unit: Unit, placed: Placed, principal: str, request: Request) -> ThreadRow:
    """Return the thread that an exchange goes on in: the one it was found in, a fork of it, or a new one.

    Raises:
        Overtaken: it is not as it was seen, or what this would begin was begun by another request.
    """
    seen = placed.thread
    if seen is None:
        session = request.session
        if session and not placed.members.issuperset(log.members(unit, session, principal=principal)):
            raise Overtaken
        return made(unit, placed.key if log.known(unit, placed.key) is None else free_key(unit, placed.key))
    if placed.forks_at is None:
        return unchanged(unit, seen)
    return forked(unit, seen, placed.forks_at, free_key(unit, placed.key))


def _turns(
    unit: Unit, thread: ThreadRow, messages: Sequence[Message], request: Request, answer: Answer, placed: Placed
) -> list[NewTurn]:
    split = log.split(messages, origin=request.origin, before=placed.before)
    turns = [replace(turn, learn=request.learns) for turn in split]
    if turns[0].more and not log.continues(unit, thread):
        turns[0] = replace(turns[0], more=False)
    if not turns[0].more and placed.forks_at is None:
        log.close_open(unit, thread)
    turns[-1] = replace(turns[-1], state=_state(messages, answer), model=request.model)
    return turns


_UNANSWERED = Answer(state=TurnState.OPEN)


def _state(messages: Sequence[Message], answer: Answer) -> TurnState:
    """Return how far the turn has come: after calls of tools, their results are still to come."""
    if answer.state is TurnState.COMPLETE and messages[-1].kind == "tool_call":
        return TurnState.OPEN
    return answer.state


def _is_repeated(unit: Unit, placed: Placed, answer: Answer) -> bool:
    """Whether the request was answered before, and just so: a retry whose first answer was heard as well."""
    if placed.thread is None or placed.forks_at is None or placed.said:
        return False
    old = log.seen(unit, placed.thread, placed.forks_at, placed.forks_at + len(answer.messages))
    return [one.fp for one in old] == [one.fp for one in log.prints(unit.secret(), answer.messages)]


def _keep_aside(unit: Unit, answer: Answer, placed: Placed) -> Recorded:
    if placed.thread is not None:
        thread = log.load(unit, placed.thread.id)
        for message in answer.messages:
            if message.kind == "assistant":
                log.set_aside(unit, thread, message.text)
    return Recorded(decision="side", thread=placed.thread_id, said=0)
