"""Making another request of a client's: what is new of it is kept, its prompt is compiled, and its body is made.

All of it is done in one of the recorder's threads, while nothing has gone up yet. Where memory has nothing to do, the
reason is a word, and the client's own bytes go up.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Literal, TypeAlias

from everlog import context, log
from everlog.context import Context, Mode, Terms
from everlog.context.codec import weigh_message
from everlog.conversation.alignment.presence import Placed
from everlog.conversation.alignment.restoring import is_whole
from everlog.conversation.remembering.asking import Asked, ask, outgrown, threshold_tokens
from everlog.conversation.remembering.wire import Wire
from everlog.errors import UnknownModel
from everlog.messages import Message
from everlog.protocols import Format
from everlog.protocols.responses import FORMAT as RESPONSES
from everlog.protocols.shapes import Record
from everlog.registry import Model, builtin
from everlog.store import Store, Unit
from everlog.surfaces.proxy.hidden.offering import offers
from everlog.surfaces.proxy.recording.ear import Heard
from everlog.surfaces.proxy.relay.upstreams import provider_of
from everlog.surfaces.proxy.remembering.building import Builder, Due
from everlog.surfaces.proxy.remembering.learned import Learned
from everlog.surfaces.proxy.remembering.mending import Reason, without
from everlog.surfaces.proxy.remembering.standing_words import System
from everlog.surfaces.proxy.remembering.stateless import Elsewhere, elsewhere, is_held_here
from everlog.surfaces.proxy.remembering.steadiness import put_back
from everlog.surfaces.proxy.remembering.terms import (
    Client,
    Manner,
    beside,
    body_of,
    marking_of,
    terms_of,
)
from everlog.surfaces.proxy.settings.options import Target
from everlog.tokens import BYTES_PER_TOKEN

Off: TypeAlias = (
    Elsewhere | Literal["unread", "side", "below", "lost", "no_compactor", "no_summary", "nothing", "prepare"]
)
"""Why memory has nothing to do with a request: it goes on at the server; it cannot be read; it is none of the conversation's;
its history is not long enough; it goes on from an answer of ours that is no more; nobody writes summaries; there
is none yet of what would be left out; it says nothing; or there is trouble."""

GRACE = 2
"""Up to how many times its threshold a history goes up as it came while there is no summary yet of what would be left out."""

NEAR = 1, 2
"""From which share of the threshold on lines are built: they are there when it is passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A request of a client, and where it goes."""

    tenant: str
    protocol: Format
    target: Target
    mode: Mode
    budget_tokens: int
    window_tokens: int | None = None
    """What its model is tried with, since it did not take in more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Another request, made of a client's."""

    asking: Asking
    asked: Asked
    model: Model
    client: Client
    manner: Manner
    terms: Terms
    context: Context
    body: Record
    came: Callable[[Record], Record]
    """Puts back what the client writes anew into each request, where the provider is the one that reads it."""

    @property
    def due(self) -> Due:
        """What is to be built for the next one."""
        asking = self.asking
        return Due(asking.tenant, self.asked.thread, self.terms.consumer.mode, asking.budget_tokens)


class Preparing:
    """Prepares requests, for any thread."""

    def __init__(
        self,
        store: Store,
        builder: Builder,
        learned: Learned,
        *,
        redact: Callable[[Message], Message],
        tools: bool = True,
    ) -> None:
        """Prepare on a database; `tools` says whether models are given the tools that open lines."""
        self._store = store
        self._redact = redact
        self._builder = builder
        self._learned = learned
        self._tools = tools

    def prepare(self, heard: Heard, asking: Asking, wait_for_earlier: Callable[[], object]) -> Prepared | Off:
        """Return the request that goes up in the place of a client's, or why it goes up as it came.

        Raises:
            ContextTooLong: the client's own leaves no room for memory in the model's window.
            StoreUnavailable: nothing can be kept or read.
        """
        request, presence = heard.request, heard.presence
        if request.is_side:
            return "side"
        if presence.is_adrift:
            wait_for_earlier()
            self._store.read(asking.tenant, presence.place)
        placed = presence.placed or self._store.read(asking.tenant, presence.place)
        is_here = False
        if asking.protocol is RESPONSES:
            is_known = self._store.read(asking.tenant, partial(_is_known, placed=placed, after=request.after))
            if (why := elsewhere(heard.body, is_known=is_known)) is not None:
                return why
            if not is_known:
                return "lost"
            is_here = is_held_here(heard.body)
        size = sum(map(weigh_message, request.messages[len(request.messages) - presence.shown :]))
        mode = asking.mode
        model = self._model(asking, request.model)
        look = partial(_grown, placed=placed, size=size, shown=presence.shown, mode=mode)
        grown = self._store.read(asking.tenant, look)
        most = threshold_tokens(asking.budget_tokens, model) * BYTES_PER_TOKEN
        if grown is not None and grown <= most and not is_here:
            if placed.thread is not None and grown * NEAR[1] > most * NEAR[0]:
                self._builder.kick(Due(asking.tenant, placed.thread.id, mode, asking.budget_tokens))
            return "below"
        if mode == "rolling" and not self._builder.summarises:
            if not is_here:
                return "no_compactor"
            asking = replace(asking, mode="tree")  # no server knows what it goes on from
        wire = Wire.of(heard.history, self._redact)
        asked = ask(self._store, asking.tenant, request, presence, wire)
        if asked is None:
            return "nothing"
        prepared = self._prepared(heard, asking, asked, wire, model)
        is_short = size <= GRACE * most and not is_here
        if prepared.context.hidden and mode == "rolling" and is_short:
            self._builder.kick(prepared.due)
            return "no_summary"
        return prepared

    def _prepared(self, heard: Heard, asking: Asking, asked: Asked, wire: Wire, model: Model) -> Prepared:
        is_past = heard.presence.shown > asked.count
        client = Client(
            protocol=asking.protocol,
            body=heard.body,
            leading=wire.leading,
            beside=beside(heard.request.messages) if is_past else (),
        )
        manner = self._manner(asking, asked, model, client)
        offer = offers(asking.protocol.name, heard.body)
        made = partial(self._terms, asking, client, model, asked)
        terms = made(replace(manner, tools=manner.tools and offer != "no"))
        newest = partial(context.newest, thread=asked.thread, consumer=terms.consumer.key)
        epoch = self._store.read(asking.tenant, newest)
        if terms.tools and offer == "kept" and epoch is None:
            terms = made(replace(manner, tools=False))
        manner = replace(manner, tools=terms.tools)
        if epoch is None:
            self._builder.warm(Due(asking.tenant, asked.thread, terms.consumer.mode, asking.budget_tokens))
        came = partial(put_back, heard.profile, provider_of(asking.target), client=heard.came)
        return self._compiled(asking, asked, client, manner, model, terms, came)

    def again(self, prepared: Prepared) -> Prepared:
        """Return a request that is shorter than one that was refused as too long.

        Raises:
            ContextTooLong: there is none.
            StoreUnavailable: nothing can be kept or read.
        """
        one = prepared
        terms = replace(one.terms, too_long=True)
        return self._compiled(one.asking, one.asked, one.client, one.manner, one.model, terms, one.came)

    def _compiled(
        self,
        asking: Asking,
        asked: Asked,
        client: Client,
        manner: Manner,
        model: Model,
        terms: Terms,
        came: Callable[[Record], Record],
    ) -> Prepared:
        found = context.prepare(self._store, asking.tenant, asked.thread, terms)
        return Prepared(
            asking=asking,
            asked=asked,
            model=model,
            client=client,
            manner=manner,
            terms=terms,
            context=found,
            came=came,
            body=without(
                client.protocol.name, body_of(client, found, terms, manner), self._known(asking, asked, model)
            ),
        )

    def _terms(self, asking: Asking, client: Client, model: Model, asked: Asked, manner: Manner) -> Terms:
        return terms_of(
            client,
            mode=asking.mode,
            budget_tokens=asking.budget_tokens,
            model=model,
            family=f"{model.provider or asking.target.name}/{model.id}",
            manner=manner,
            open_at=asked.open_at,
            own=asked.own,
        )

    def _manner(self, asking: Asking, asked: Asked, model: Model, client: Client) -> Manner:
        target, known = asking.target, self._known(asking, asked, model)
        tools = self._tools and target.tools is not False and model.tools is not False and "tools" not in known
        system: System | None = "none" if "none" in known else "merged" if "merged" in known else target.system
        return Manner(
            system=system,
            tools=tools and asking.mode == "tree",
            marking="none" if "marks" in known else marking_of(client.protocol, provider_of(target), model),
        )

    def _model(self, asking: Asking, name: str | None) -> Model:
        """Return what is known of a model at an upstream, with the window that it was found to have."""
        model = _model(asking.target, name)
        found = (asking.window_tokens, self._learned.window(asking.target.name, model.id), model.context_tokens)
        return replace(model, context_tokens=min((one for one in found if one is not None), default=None))

    def _known(self, asking: Asking, asked: Asked, model: Model) -> frozenset[Reason]:
        """Return what the model is known to refuse."""
        return self._learned.of(asking.target.name, model.id, asked.thread)


def _model(target: Target, name: str | None) -> Model:
    """Return what is known of a model at an upstream."""
    return _known(provider_of(target), name)


@lru_cache(maxsize=1024)
def _known(provider: str | None, name: str | None) -> Model:
    try:
        found = builtin().find(name or "", provider=provider) if provider is not None else builtin().find(name or "")
    except UnknownModel:
        return Model(id=name or "", provider=provider or "")
    return found if provider is not None else replace(found, provider="")


def _is_known(unit: Unit, placed: Placed, after: str | None) -> bool:
    """Whether all that a request goes on from is in the log."""
    if placed.thread is None:
        return after is None
    return placed.unknown is None and is_whole(unit, log.load(unit, placed.thread.id))


def _grown(unit: Unit, placed: Placed, size: int, shown: int, mode: Mode) -> int | None:
    """Return the bytes of a history; None where memory stands for a part of it already."""
    if placed.thread is not None and context.in_use(unit, placed.thread.id, mode) is not None:
        return None
    return outgrown(unit, placed, size, shown)
