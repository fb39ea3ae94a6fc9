"""Memory between clients and upstreams: requests whose history outgrew its threshold go up as view and tail, and the
memory's own tools are answered on the way back. It fails open: whatever goes wrong before, the client's own bytes go up.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import get_args

from everlog.access import Principal
from everlog.conversation.recording.trouble import PASSES
from everlog.errors import ContextTooLong, ProviderTrouble, StoreUnavailable
from everlog.memory.tree import Tools
from everlog.messages import Call
from everlog.protocols import FORMATS
from everlog.protocols.answering import Stamp
from everlog.protocols.shapes import Record, encoded, loads
from everlog.surfaces.proxy.faults import fault
from everlog.surfaces.proxy.hidden.rounds import Rounds
from everlog.surfaces.proxy.incoming import Headers, Incoming
from everlog.surfaces.proxy.recording.controls import Controls
from everlog.surfaces.proxy.recording.ear import Exchange, Heard
from everlog.surfaces.proxy.recording.exchanges import body_of
from everlog.surfaces.proxy.recording.recorder import Recorder
from everlog.surfaces.proxy.relay.encodings import readable
from everlog.surfaces.proxy.relay.headers import is_event_stream
from everlog.surfaces.proxy.relay.hearing import DEGRADED, Ear, Way
from everlog.surfaces.proxy.relay.reading import Whole, heard
from everlog.surfaces.proxy.relay.upstream import Coming
from everlog.surfaces.proxy.relay.upstreams import provider_of
from everlog.surfaces.proxy.remembering.answering import Streamed, refused_with, unstreamed
from everlog.surfaces.proxy.remembering.building import Builder
from everlog.surfaces.proxy.remembering.keeping import Kept
from everlog.surfaces.proxy.remembering.learned import Learned
from everlog.surfaces.proxy.remembering.mending import Reason, is_too_long, mended
from everlog.surfaces.proxy.remembering.prefixes import Prefix
from everlog.surfaces.proxy.remembering.preparing import Asking, Off, Prepared, Preparing
from everlog.surfaces.proxy.remembering.stateless import Elsewhere, is_ours
from everlog.surfaces.proxy.remembering.steadiness import as_read
from everlog.surfaces.proxy.remembering.terms import answer_tokens, window_below
from everlog.surfaces.proxy.remembering.wanted import Wanted, wanted
from everlog.surfaces.proxy.settings.options import Options, Target

log = logging.getLogger(__name__)

PREPARE_S = 5.0
"""How long a request waits for its prompt; then it goes up as it came. While nothing can be kept, none waits."""

TRIES = 4
"""How often a request is mended that an upstream refuses, at most."""

TOO_LONG = frozenset({400, 413, 422})
"""Statuses with which servers refuse what is longer than a model takes in."""

_ALL = 1 << 30
"""Memory writes all messages of what it sends; what is the caller's among them is held as it was sent first."""

UNPREPARED: Headers = ((DEGRADED, b"prepare"),)
OFF = b"x-everlog-memory-off"
"""Why a request goes up as it came: told to a client that asks, and where its conversation is elsewhere."""

LOST = (
    "There is no answer for you of the id that `previous_response_id` names: it was forgotten, erased, not stored, or given "
    "under another key or user. Send the whole conversation."
)
CONVERSATION_AWAY = "What this goes on from cannot be looked up now. Send the whole of it, or try again in a moment."
AWAY = "The memory cannot be read at this moment. Say so if the answer depends on it."


class Remembering:
    """Makes requests of requests."""

    def __init__(self, recorder: Recorder, builder: Builder, options: Options) -> None:
        """Begin, beside a recorder."""
        self._recorder = recorder
        self._builder = builder
        self._options = options
        self._learned = Learned()
        self._preparing = Preparing(
            recorder.store, builder, self._learned, redact=recorder.redact, tools=options.memory_tools
        )

    def _count(self, tenant: str, outcome: str) -> None:
        """Count a request by what memory made of it: `remembered`, or why nothing; and what was mended."""
        self._recorder.watch.totals.came(tenant, outcome)

    def wanted(self, incoming: Incoming, principal: Principal) -> Wanted:
        """Return what is wanted of memory for a request."""
        return wanted(Controls.of(incoming.headers), principal, self._options)

    async def ask(
        self, ear: Ear, incoming: Incoming, protocol: str, principal: Principal, target: Target, way: Way
    ) -> Coming:
        """Ask an upstream; see `hearing.Memory`."""
        if not isinstance(ear, Exchange) or not ear.remembers:
            return await way.send()
        said = self.wanted(incoming, principal)
        if not said.remembers and not (protocol == "responses" and await asyncio.to_thread(_is_ours, incoming)):
            return await way.send()
        asking = Asking(
            tenant=principal.tenant,
            protocol=FORMATS[protocol],
            target=target,
            mode=said.memory,
            budget_tokens=said.budget_tokens,
        )
        tells = Controls.of(incoming.headers).tells
        found = await self._prepared(ear, asking, tells=tells)
        if isinstance(found, Prepared):
            self._count(principal.tenant, "remembered")
            return await self._asked(found, ear, way)
        self._count(principal.tenant, found)
        if found == "prepare":
            self._recorder.watch.totals.degraded(asking.tenant, "prepare")
        if found == "lost":
            return _refusal(400, LOST, "previous_response_not_found")
        if found == "prepare" and protocol == "responses" and await asyncio.to_thread(_is_ours, incoming):
            return _refusal(503, CONVERSATION_AWAY, "conversation_unavailable")
        if tells or found in get_args(Elsewhere):
            ear.headers = (*ear.headers, (OFF, found.encode()))
        return await self._unshortened(ear, asking, way) if found == "below" else await way.send()

    async def _unshortened(self, exchange: Exchange, asking: Asking, way: Way) -> Coming:
        """Send a request as it came; where that is more than the model takes in, as if its history had outgrown the budget."""
        coming = await way.send()
        if coming.status not in TOO_LONG:
            return coming
        refused, fault = await refused_with(asking.protocol, coming)
        if fault is None or not is_too_long(coming.status, fault):
            return refused
        known = await exchange.found()
        if known is None:
            return refused
        window = await asyncio.to_thread(window_below, known.body)
        found = await self._prepared(exchange, replace(asking, window_tokens=window), tells=False)
        if not isinstance(found, Prepared):
            return refused
        self._count(asking.tenant, "remembered")
        exchange.headers = tuple(one for one in exchange.headers if one[0] != OFF)
        answer = await self._asked(found, exchange, way)
        if answer.status < 400:
            both = window + (answer_tokens(known.body) or 0)
            self._learned.outgrew(asking.target.name, found.model.id, both)
        return answer

    async def _prepared(self, exchange: Exchange, asking: Asking, *, tells: bool) -> Prepared | Off:
        standing = self._recorder.standing
        try:
            async with asyncio.timeout(PREPARE_S):
                known = await exchange.found()
                if known is None:
                    return "unread"
                if not standing.is_well:
                    exchange.headers = (*exchange.headers, *UNPREPARED)
                    return "prepare"
                threads = self._recorder.threads
                act = partial(self._made, known, asking, threads.earlier())
                found, prefix = await asyncio.shield(asyncio.wrap_future(threads.begin(act)))
        except Exception as error:  # noqa: BLE001 -- memory trouble never breaks a chat; it is counted
            if asking.window_tokens is not None and isinstance(error, ContextTooLong):
                return "below"
            if isinstance(error, TimeoutError | StoreUnavailable):
                standing.doubt()
            log.warning("a request goes up without its memory", extra={"error": type(error).__name__})
            exchange.headers = (*exchange.headers, *UNPREPARED)
            return "prepare"
        if prefix is not None:
            exchange.headers = (*exchange.headers, *prefix.said(all_of_it=tells))
        return found

    def _made(
        self, heard: Heard, asking: Asking, wait_for_earlier: Callable[[], object]
    ) -> tuple[Prepared | Off, Prefix | None]:
        """Prepare a request, and see what becomes of the prefix of the one before."""
        found = self._preparing.prepare(heard, asking, wait_for_earlier)
        sent = partial(self._recorder.watch.sent, asking.protocol.name, tenant=asking.tenant, mode=asking.mode)
        if isinstance(found, Prepared):
            context, thread, consumer = found.context, found.asked.thread, found.terms.consumer.key
            return found, sent(found.body, thread=thread, consumer=consumer, turned=context.turned, compiled=_ALL)
        if found == "side":
            return found, None
        placed = heard.presence.placed
        known = None if placed is None or placed.forks_at is not None else placed.thread
        model = heard.request.model or ""
        body = as_read(heard.profile, provider_of(asking.target), heard.came)
        return found, sent(body, thread=None if known is None else known.id, consumer=model)

    async def _asked(self, prepared: Prepared, exchange: Exchange, way: Way) -> Coming:
        """Send what was prepared, mended where the upstream refuses it, and return the answer."""
        kept = exchange.beside = Kept(prepared, self._builder, self._recorder.watch, self._recorder.redact)
        found = await self._first(prepared, kept, way)
        if found.status >= 400:
            return found
        rounds = kept.rounds
        assert rounds is not None
        run = partial(self._run, kept)
        if is_event_stream(heard(found)):
            return Streamed(found, prepared.asking.protocol, rounds, run, way, kept.end)
        try:
            answer = await unstreamed(found, prepared.asking.protocol, rounds, run, way)
        except ProviderTrouble:
            kept.end(is_refused=True)
            raise
        kept.end(is_refused=answer.status >= 400)
        return answer

    async def _first(self, prepared: Prepared, kept: Kept, way: Way) -> Coming:
        """Return the answer of the first round, or what the upstream refuses it with."""
        body, tried = prepared.body, set[Reason]()
        protocol = prepared.asking.protocol
        while True:
            sums = self._options.usage == "sum"
            sent = prepared.came(body)
            kept.rounds = Rounds(protocol, sent, stamp=_stamp(), sums_usage=sums, client=prepared.client.body)
            coming = await way.send(await asyncio.to_thread(encoded, sent))
            if coming.status < 400:
                if tried:
                    await asyncio.to_thread(self._mended, prepared, body)
                for reason in tried:
                    self._learned.note(prepared.asking.target.name, prepared.model.id, prepared.asked.thread, reason)
                return coming
            refused, fault = await refused_with(protocol, coming)
            other = None if fault is None else mended(protocol.name, body, coming.status, fault)
            if other is None or other.reason in tried or len(tried) == TRIES:
                kept.end(is_refused=True)
                return refused
            tried.add(other.reason)
            self._count(prepared.asking.tenant, f"mended_{other.reason}")
            if other.reason == "too_long":
                prepared = await self._shorter(prepared)
                kept.prepared, body = prepared, prepared.body
            else:
                body = other.body

    def _mended(self, prepared: Prepared, body: Record) -> None:
        self._recorder.watch.mended(
            prepared.asking.protocol.name,
            body,
            tenant=prepared.asking.tenant,
            thread=prepared.asked.thread,
            consumer=prepared.terms.consumer.key,
            turned=prepared.context.turned if prepared.terms.too_long else None,
        )

    async def _shorter(self, prepared: Prepared) -> Prepared:
        act = partial(self._preparing.again, prepared)
        return await asyncio.shield(asyncio.wrap_future(self._recorder.threads.begin(act)))

    async def _run(self, kept: Kept, calls: Sequence[Call]) -> Mapping[str, str]:
        act = partial(self._told, kept.prepared, calls)
        return await asyncio.shield(asyncio.wrap_future(self._recorder.threads.begin(act)))

    def _told(self, prepared: Prepared, calls: Sequence[Call]) -> Mapping[str, str]:
        """Run memory's tools."""
        tools = Tools(
            self._recorder.store,
            prepared.asking.tenant,
            prepared.asked.thread,
            view=prepared.context.shown,
            turn=prepared.asked.turn,
        )
        with tools:
            return {call.call_id: _said(tools, call) for call in calls}


def _is_ours(incoming: Incoming) -> bool:
    """Whether a request goes on from an answer that no server knows."""
    body = body_of(readable(incoming) or b"")
    return body is not None and is_ours(body)


def _refusal(status: int, message: str, code: str) -> Whole:
    return Whole(*fault(status, message, code, is_anthropic=False))


def _said(tools: Tools, call: Call) -> str:
    try:
        return tools.call(call.name, loads(call.arguments or "{}"))
    except PASSES as error:
        log.warning("a memory tool could not read", extra={"error": type(error).__name__})
        return AWAY


def _stamp() -> Stamp:
    return Stamp(id=uuid.uuid4().hex, at=datetime.now(UTC))
