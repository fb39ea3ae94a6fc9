"""What the proxy says of itself: whether it lives, whether it is ready, what it has, what it counts, who somebody is to it.

| path | role | says |
|---|---|---|
| `/livez` | nobody is asked | the process answers |
| `/readyz` | nobody is asked | what is missing, if something is: the database, or connections to upstreams |
| `/health` | chat | version and features |
| `/request-context` | chat | who the request is taken for, and by which headers that can be said |
| `/metrics` | read | numbers, for Prometheus |
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import everlog
from everlog.access import Principal, Requested, Role, asked
from everlog.messages import JSON
from everlog.protocols.shapes import encoded
from everlog.store import Store
from everlog.surfaces.api.values import Since
from everlog.surfaces.proxy.application import App
from everlog.surfaces.proxy.incoming import Headers
from everlog.surfaces.proxy.metrics import Metrics, Sample
from everlog.surfaces.proxy.recording.identity import FIELDS, HEADERS, OWN, Identity, Source, identify
from everlog.surfaces.proxy.recording.profiles import profile_of
from everlog.surfaces.proxy.recording.profiles.rules import Facts
from everlog.surfaces.proxy.recording.recorder import Recorder
from everlog.surfaces.proxy.remembering.watching import Watch

log = logging.getLogger(__name__)

LONGEST_LOOK_S = 2
"""How long a look at the database may take before it counts as away, in seconds."""

ROLES: dict[str, Role | None] = {
    "/livez": None,
    "/readyz": None,
    "/health": "chat",
    "/request-context": "chat",
    "/metrics": "read",
}
"""The pages, each with the least that a caller must be; None where nobody is asked."""

TEXT = (b"content-type", b"text/plain; charset=utf-8")
NUMBERS = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
JSON_TYPE = (b"content-type", b"application/json")

_FAILURES = {
    "upstream_timeout": "timeout",
    "upstream_unreachable": "unreachable",
    "upstream_failed": "failed",
    "upstream_broke_off": "broke_off",
}

_LOSSES = {"failed": "record", "refused": "record", "unread": "read"}
"""Where a thing could not be done, by what the recorder calls it."""

Page = tuple[int, tuple[bytes, bytes], bytes]
"""Status, content type, body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What the pages look at."""

    app: App
    metrics: Metrics
    store: Store | None = None
    recorder: Recorder | None = None
    tenant: str = "default"
    aliases: Mapping[str, Sequence[str]] | None = None
    """Further names of headers that say who asks, by field."""
    builds: bool = True
    """Whether lines of trees may be built here: no model is set to do that."""
    watch: Watch = field(default_factory=Watch)
    """What sees requests of conversations go up."""

    async def page(self, path: str, headers: Headers, principal: Principal | None) -> Page:
        """Return a page; `principal` is whoever was let in, None where nobody is asked."""
        if path == "/livez":
            return 200, TEXT, b"alive\n"
        if path == "/readyz":
            return await self._ready()
        if path == "/health":
            return _json(self._health())
        if path == "/metrics":
            return 200, NUMBERS, self.metrics.page(self._samples())
        assert principal is not None
        return _json(self._context(headers, principal))

    def who(self, headers: Headers) -> Identity:
        """Return who the headers of a request say that asks."""
        sources = profile_of(Facts(headers, {}, ())).sources
        return identify(headers, {}, sources=sources, aliases=self.aliases)

    def noted(self, was: Requested) -> None:
        """Count what a request was."""
        kinds = {"input": was.tokens_in, "output": was.tokens_out}
        for kind, tokens in (kinds | {"cache_read": was.tokens_read, "cache_write": was.tokens_written}).items():
            if tokens:
                self.metrics.add("everlog_tokens_total", kind, by=tokens)
        if was.nano_usd is not None:
            self.metrics.add("everlog_cost_usd_total", by=was.nano_usd / 1e9)
        elif was.status is not None and 200 <= was.status < 300:
            self.metrics.add("everlog_unpriced_total")

    def since(self, tenant: str) -> Since:
        """Return what was counted of a tenant since the server began."""
        counted = self.watch.totals.of(tenant)
        return Since(
            modes=dict(counted.modes),
            hidden_rounds=counted.hidden_rounds,
            prefixes=dict(counted.prefixes),
            lost_bytes=dict(counted.lost_bytes),
        )

    async def _ready(self) -> Page:
        missing: list[JSON] = [] if self.app.is_open else ["upstreams"]
        if self.store is not None and not await self._is_there(self.store):
            missing.append("database")
        return _json({"ready": not missing, "missing": missing}, 503 if missing else 200)

    async def _is_there(self, store: Store) -> bool:
        """Say whether the database can be read, and written where something is kept, within a short time."""
        try:
            async with asyncio.timeout(LONGEST_LOOK_S):
                if self.recorder is not None and self.app.options.mode != "off":
                    await self.recorder.standing.aprove()
                else:
                    await store.aread(self.tenant, partial(asked, id_="0"))
        except Exception as error:  # noqa: BLE001 -- the edge: whatever it is, the database is not there
            log.warning("the database is not ready", extra={"error": type(error).__name__})
            return False
        return True

    def _health(self) -> dict[str, JSON]:
        return {
            "status": "ok",
            "version": everlog.__version__,
            "mode": self.app.options.mode,
            "memory": self.recorder is not None and self.app.options.mode != "off",
            "learning": False,
            "embeddings": False,
            "fts": self.store is not None,
        }

    def _context(self, headers: Headers, principal: Principal) -> dict[str, JSON]:
        who = self.who(headers)
        taken: dict[str, JSON] = {
            name: [*(f"{start}{HEADERS[name]}" for start in OWN), *self._further(name, headers)] for name in FIELDS
        }
        return {
            "tenant": principal.tenant,
            "key": principal.key,
            "role": principal.role,
            "client": profile_of(Facts(headers, {}, ())).name,
            "session_id": who.session,
            "user_id": principal.user or who.user,
            "project_id": principal.project or who.project,
            "project_derived_from_cwd": who.is_project_derived and principal.project in {None, who.project},
            "has_cwd": who.cwd is not None,
            "headers": taken,
        }

    def _further(self, name: str, headers: Headers) -> Iterator[str]:
        yield from (self.aliases or {}).get(name, ())
        found: Sequence[Source] = profile_of(Facts(headers, {}, ())).sources.get(name, ())
        yield from (one.path[0] for one in found if one.place == "header")

    def _samples(self) -> Iterator[Sample]:
        yield "everlog_info", (everlog.__version__,), 1
        counts = self.app.duties.counts
        for event, kind in _FAILURES.items():
            yield "everlog_upstream_failures_total", (kind,), counts[event]
        yield "everlog_clients_left_total", (), counts["client_left"]
        yield "everlog_held_too_long_total", (), counts["held_too_long"]
        yield "everlog_degraded_total", ("listen",), counts["ear_failed"]
        if self.recorder is None:
            return
        for decision, number in sorted(self.recorder.counts.items()):
            if decision in _LOSSES:
                yield "everlog_degraded_total", (_LOSSES[decision],), number
            else:
                yield "everlog_exchanges_total", (decision,), number
        yield "everlog_recording", (), self.recorder.threads.waiting
        counted = self.watch.totals.of(None)
        yield "everlog_hidden_rounds_total", (), counted.hidden_rounds
        for name, sums in (
            ("everlog_memory_requests_total", counted.modes),
            ("everlog_memory_outcomes_total", counted.outcomes),
            ("everlog_prefixes_total", counted.prefixes),
            ("everlog_degraded_total", counted.degraded),
            ("everlog_prefix_lost_bytes_total", counted.lost_bytes),
        ):
            yield from ((name, (label,), number) for label, number in sums.items())


def _json(body: dict[str, JSON], status: int = 200) -> Page:
    return status, JSON_TYPE, encoded(body)
