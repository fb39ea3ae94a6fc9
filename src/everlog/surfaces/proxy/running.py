"""The proxy as its settings want it: relay, door and recorder, on one database or on none."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from everlog import access
from everlog.access import LOOPBACK, Principal, keys
from everlog.conversation.alignment.restoring import restored
from everlog.conversation.alignment.values import Caller
from everlog.conversation.database import Everlog
from everlog.errors import EverlogError, Mistake
from everlog.memory.interface import Compactor
from everlog.messages import Message
from everlog.protocols import FORMATS
from everlog.protocols.shapes import Record
from everlog.pump import compactor_of
from everlog.surfaces import config, models, opening
from everlog.surfaces.config import Settings
from everlog.surfaces.proxy import lines
from everlog.surfaces.proxy.admission import Door
from everlog.surfaces.proxy.application import App
from everlog.surfaces.proxy.front import Front
from everlog.surfaces.proxy.hidden.items import PREFIX
from everlog.surfaces.proxy.incoming import Headers, Incoming
from everlog.surfaces.proxy.metrics import Metrics
from everlog.surfaces.proxy.pages import Site
from everlog.surfaces.proxy.recording.controls import Controls
from everlog.surfaces.proxy.recording.exchanges import parse_exchange
from everlog.surfaces.proxy.recording.identity import opaque
from everlog.surfaces.proxy.recording.pruning import Pruning
from everlog.surfaces.proxy.recording.recorder import Recorder
from everlog.surfaces.proxy.recording.tally import Tally
from everlog.surfaces.proxy.relay.hearing import Ear, Way
from everlog.surfaces.proxy.relay.translated import COUNTS
from everlog.surfaces.proxy.relay.upstream import Coming, Upstream
from everlog.surfaces.proxy.remembering.building import Builder
from everlog.surfaces.proxy.remembering.remembering import Remembering
from everlog.surfaces.proxy.remembering.retrieving import retrieved
from everlog.surfaces.proxy.remembering.wanted import wanted
from everlog.surfaces.proxy.remembering.watching import Watch
from everlog.surfaces.proxy.settings.configured import Configured, configured
from everlog.surfaces.proxy.settings.options import Options, Target

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Keeping:
    """The recorder, for each exchange in the name of who asks."""

    recorder: Recorder
    options: Options
    remembering: Remembering | None = None
    """What makes requests of requests; None where nobody does."""

    def listen(self, incoming: Incoming, protocol: str | None, principal: Principal, target: Target) -> Ear | None:
        """Return who hears an exchange; see `hearing.Ears`."""
        if protocol is None:
            is_counted = principal.key is not None and incoming.method == "POST" and incoming.path not in COUNTS
            key = principal.key or ""
            return Tally(self.recorder, incoming, tenant=principal.tenant, key=key) if is_counted else None
        mode = wanted(Controls.of(incoming.headers), principal, self.options).mode
        return self.recorder.listen_for(
            incoming,
            protocol,
            tenant=principal.tenant,
            caller=_caller(principal),
            target=target,
            keeps=mode != "off",
            remembers=self.remembers(incoming, protocol, principal),
        )

    def remembers(self, incoming: Incoming, protocol: str | None, principal: Principal) -> bool:
        """Whether another request may be made of one; see `hearing.Memory`."""
        if self.remembering is None or protocol is None or incoming.method != "POST":
            return False
        is_ours = (
            protocol == "responses" and PREFIX.encode() in incoming.body
        )  # whatever the mode: no server knows that answer
        return is_ours or self.remembering.wanted(incoming, principal).remembers

    async def ask(
        self, ear: Ear, incoming: Incoming, protocol: str, principal: Principal, target: Target, way: Way
    ) -> Coming:
        """Ask an upstream; see `hearing.Memory`."""
        if self.remembering is None:
            return await way.send()
        return await self.remembering.ask(ear, incoming, protocol, principal, target, way)

    def restore(
        self, incoming: Incoming, protocol: str, principal: Principal, body: Record
    ) -> Sequence[Message] | None:
        """Return the whole conversation of a request; see `hearing.Memory`."""
        recorder, given = self.recorder, FORMATS[protocol]
        request = parse_exchange(
            given, incoming.headers, body, caller=_caller(principal), request="", aliases=recorder.aliases
        )
        messages = [message for said in given.parse_history(body) for message in said.messages]
        return recorder.store.read(principal.tenant, partial(restored, request=request, messages=messages))

    async def retrieve(self, incoming: Incoming, principal: Principal, answer: str) -> tuple[int, Headers, bytes]:
        """Return what is asked of an answer of ours; see `hearing.Memory`."""
        return await retrieved(self.recorder, principal.tenant, _caller(principal), incoming, answer)

    async def made_by(self, principal: Principal, answer: str) -> str | None:
        """Return the name of the upstream that gave somebody an answer; None where nobody knows, or can say now."""
        look = partial(access.answered_by, response=opaque(answer), key=principal.key or "")
        try:
            found = await self.recorder.store.aread(principal.tenant, look)
        except EverlogError as error:
            log.warning("who gave an answer could not be looked up", extra={"error": type(error).__name__})
            return None
        return None if found is None else found.upstream


def _caller(principal: Principal) -> Caller:
    return Caller(
        key=principal.key or "",
        user=principal.user or "",
        project=principal.project,
        is_one_person=principal.one_person,
    )


def running(
    found: Configured,
    open_database: Callable[[], Everlog],
    *,
    compactor: Compactor | None = None,
    upstream: Upstream | None = None,
) -> Front:
    """Return the proxy; the database is opened where something is kept, or keys are needed, and closed at its end.

    Args:
        found: what is said of it.
        open_database: opens the database.
        compactor: what builds lines and summaries beside the requests, see `compactor_of`; None if somebody else does.
        upstream: what requests go through; by default HTTP.

    Raises:
        Mistake: there is no upstream, or others could reach it and there is no key to let them in.
    """
    options = found.options()
    if not found.needs_database:
        app, door = App(options, upstream=upstream), Door(None)
        return Front(app, door=door, site=Site(app=app, metrics=Metrics(), aliases=found.aliases))
    memory = open_database()
    try:
        return _on_database(memory, found, options, compactor, upstream)
    except BaseException:
        memory.close()
        raise


def _on_database(
    memory: Everlog, found: Configured, options: Options, compactor: Compactor | None, upstream: Upstream | None
) -> Front:
    local = replace(LOOPBACK, tenant=memory.name, one_person=found.proxy.keys.one_person)
    now = memory.store.clock.now()
    if found.needs_keys and all(key.refusal(now) for key in memory.store.read(memory.name, keys)):
        host = found.proxy.server.host
        raise Mistake(
            f"nobody could ask: {host} needs keys, and there is none that opens; make one by `everlog keys create`"
        )
    door = Door(memory.store, local=None if found.needs_keys else local)
    watch = Watch()
    recorder = Recorder(
        memory.store,
        tenant=memory.name,
        caller=Caller(is_one_person=local.one_person),
        redact=memory.redact,
        aliases=found.aliases,
        pruning=Pruning(days=found.proxy.requests.keep_days, most=found.proxy.requests.keep_most),
        watch=watch,
    )

    builder = Builder(memory.store, compactor, watch.totals)

    def close() -> None:
        recorder.close()
        builder.close()
        memory.close()

    keeping = Keeping(recorder, options, Remembering(recorder, builder, options))
    app = App(options, upstream=upstream, door=door, ears=keeping, memory=keeping, at_end=close)
    site = Site(
        app=app,
        metrics=Metrics(),
        store=memory.store,
        recorder=recorder,
        tenant=memory.name,
        aliases=found.aliases,
        builds=getattr(compactor, "inline", False),
        watch=watch,
    )
    recorder.noted = site.noted
    return Front(app, door=door, site=site)


def asked(
    settings: Settings, *, given: Mapping[str, Any] | None = None, environment: Mapping[str, str] = os.environ
) -> tuple[Configured, Path | None]:
    """Return what options, environment and file say of the proxy, and the file.

    Args:
        settings: what is said of the database.
        given: options of the command by key, such as `server.port`; None is not said.
        environment: the variables.

    Raises:
        Mistake: something is unknown, or not of its kind.
    """
    path, held = config.held(settings, environment)
    return configured(file=held, path=str(path), environment=environment, given=given), path


def builder_of(settings: Settings) -> Compactor | None:
    """Return what builds lines and summaries beside requests; None where a program of somebody's own is to do that."""
    try:
        said = models.compactor_settings(settings)
        return compactor_of(said.name, options=said.options, required_protocol=said.required_protocol)
    except Mistake as error:  # such as a program, which a worker runs
        log.warning("nothing is built beside requests", extra={"error": type(error).__name__, "reason": str(error)})
        return None


def from_environment() -> Front:
    """Return the proxy that the environment and its file of settings ask for, and begin its lines of the log."""
    settings = config.settings()
    found, _ = asked(settings)
    lines.begin_in_a_server(found.proxy.server.log_level, found.proxy.server.log_format)
    return running(found, lambda: opening.opened(settings, create=True), compactor=builder_of(settings))
