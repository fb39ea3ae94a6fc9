"""The outermost of the proxy: counts and logs each request, answers its own pages and the log over HTTP, relays the rest."""

import logging
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import parse_qs

from everlog.access import Principal
from everlog.clock import monotonic
from everlog.surfaces.api.application import ROLES as RANKS
from everlog.surfaces.api.application import Api
from everlog.surfaces.api.document import PREFIX
from everlog.surfaces.examining import Usual
from everlog.surfaces.proxy import crossing
from everlog.surfaces.proxy.admission import Door, Refusal
from everlog.surfaces.proxy.application import App
from everlog.surfaces.proxy.asgi import Receive, Scope, Send, answer, head_of
from everlog.surfaces.proxy.faults import fault
from everlog.surfaces.proxy.incoming import Headers, Incoming
from everlog.surfaces.proxy.pages import ROLES, Site
from everlog.surfaces.proxy.recording.identity import opaque
from everlog.surfaces.proxy.routes import BESIDE, CONVERSATIONS

log = logging.getLogger(__name__)

EVENTS = "/events"
"""A page of the log under the name that seed 003 has for it."""

NOTHING_KEPT = "Nothing is kept here: the proxy runs in mode off, without a database."


class Front:
    """One proxy with all its pages."""

    def __init__(self, app: App, *, door: Door, site: Site) -> None:
        """Stand before the relay; the door is the one that the relay has."""
        self.app = app
        """The relay."""
        self._door = door
        self._site = site
        self._api = (
            None
            if site.store is None
            else Api(site.store, builds=site.builds, usual=_usual(app, site), since=site.since)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Do what ASGI asks for."""
        if scope["type"] != "http":
            if self._api is not None:
                await self._api.start()
            await self.app(scope, receive, send)
            return
        meter = Meter(receive, send)
        metrics = self._site.metrics
        metrics.add("everlog_requests_in_flight")
        try:
            if _is_page(scope["path"]):
                await self._page(scope, meter)
            else:
                await self.app(scope, meter.receive, meter.send)
        finally:
            metrics.add("everlog_requests_in_flight", by=-1)
            self._ended(scope, meter)

    async def _page(self, scope: Scope, meter: "Meter") -> None:
        head = head_of(scope)
        page = crossing.allowed(head, self.app.options.origins, is_open=self._door.is_open)
        if isinstance(page, crossing.Strange):
            await _refuse(meter, 403, page.message, page.code)
            return
        if head.method == "OPTIONS":
            await answer(meter.send, 200, (*crossing.preflight(head), *page), b"")
            return
        path = str(scope["path"])
        is_ours = path in ROLES
        if is_ours and head.method not in {"GET", "HEAD"}:
            await _refuse(meter, 405, f"{path} is read, by GET.", "method_not_allowed", *page, (b"allow", b"GET, HEAD"))
            return
        principal = None
        if not is_ours or ROLES[path] is not None:
            principal = await self._admitted(head, meter, page)
            if principal is None:
                return
        if is_ours:
            await self._own(path, head, principal, meter, page)
        else:
            await self._log(scope, principal, meter, page)

    async def _admitted(self, head: Incoming, meter: "Meter", page: Headers) -> Principal | None:
        """Return who asks; None where the answer says why they may not."""
        who = self._site.who(head.headers)
        user = who.user or _user_in(head.query)
        found = await self._door.admit(head.headers, looks=True, user=user, project=who.project)
        if not isinstance(found, Refusal):
            return found.principal
        wait = () if found.retry_after_s is None else ((b"retry-after", b"%d" % found.retry_after_s),)
        await _refuse(meter, found.status, found.message, found.code, *page, *wait)
        return None

    async def _own(self, path: str, head: Incoming, principal: Principal | None, meter: "Meter", page: Headers) -> None:
        least = ROLES[path]
        if least is not None and principal is not None and RANKS.index(principal.role) < RANKS.index(least):
            await _refuse(meter, 403, f"This is for keys of the role {least}.", "role_too_low", *page)
            return
        status, kind, body = await self._site.page(path, head.headers, principal)
        await answer(meter.send, status, (kind, *page), body if head.method == "GET" else b"")

    async def _log(self, scope: Scope, principal: Principal | None, meter: "Meter", page: Headers) -> None:
        """Answer from the log."""
        if self._api is None:
            await _refuse(meter, 404, NOTHING_KEPT, "nothing_kept", *page)
            return
        path = PREFIX + EVENTS if scope["path"] == EVENTS else scope["path"]
        is_head = scope["method"] == "HEAD"

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *page]}
            elif is_head:
                message = {**message, "body": b""}
            await meter.send(message)

        asked = {
            **scope,
            "path": path,
            "raw_path": path.encode(),
            "method": "GET" if is_head else scope["method"],
            "everlog.principal": principal,
        }
        await self._api(asked, meter.receive, send)

    def _ended(self, scope: Scope, meter: "Meter") -> None:
        """Count a request, and write its line."""
        route, protocol = label(scope["method"], scope["path"])
        seconds = monotonic() - meter.began
        status = "none" if meter.status is None else f"{meter.status // 100}xx"
        metrics = self._site.metrics
        metrics.add("everlog_requests_total", route, protocol, status)
        metrics.observe("everlog_request_seconds", seconds, route)
        metrics.add("everlog_received_bytes_total", route, by=meter.received)
        metrics.add("everlog_sent_bytes_total", route, by=meter.sent)
        if log.isEnabledFor(logging.INFO):
            log.info(
                "request", extra=meter.facts | {"method": _method(scope), "route": route, "ms": round(seconds * 1e3)}
            )


class Meter:
    """Sees one request and its answer pass."""

    __slots__ = ("_receive", "_send", "began", "degraded", "received", "request", "sent", "status")

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self.began = monotonic()
        self.status: int | None = None
        self.received = self.sent = 0
        self.request: str | None = None
        self.degraded: str | None = None

    async def receive(self) -> MutableMapping[str, Any]:
        """Pass on what the client sends."""
        message = await self._receive()
        self.received += len(message.get("body", b""))
        return message

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Pass on what it is sent."""
        if message["type"] == "http.response.body":
            self.sent += len(message.get("body", b""))
        else:
            self.status = message["status"]
            for name, value in message["headers"]:
                if name == b"x-everlog-request-id":
                    self.request = value.decode("latin-1")
                elif name == b"x-everlog-degraded":
                    self.degraded = value.decode("latin-1")
        await self._send(message)

    @property
    def facts(self) -> dict[str, object]:
        """What a line tells of it."""
        return {
            "status": self.status,
            "received_bytes": self.received,
            "sent_bytes": self.sent,
            "request_id": self.request,
            "degraded": self.degraded,
        }


METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def label(method: str, path: str) -> tuple[str, str]:
    """Return by which words a request is counted: a route out of a few, and its protocol."""
    if method == "POST" and path in CONVERSATIONS:
        return path, CONVERSATIONS[path].protocol or ""
    if path in BESIDE or path in ROLES or path in {"/", EVENTS, "/v1/models"}:
        return path, ""
    if path.startswith("/v1/models/"):
        return "/v1/models/{id}", ""
    return (PREFIX if _is_page(path) else "/v1" if path.startswith("/v1/") else "other"), ""


def _usual(app: App, site: Site) -> Usual:
    options = app.options
    return Usual(mode=options.mode, budget_tokens=options.budget_tokens, summarises=not site.builds)


def _is_page(path: str) -> bool:
    return path in ROLES or path in {EVENTS, PREFIX} or path.startswith(f"{PREFIX}/")


def _method(scope: Scope) -> str:
    return scope["method"] if scope["method"] in METHODS else "other"


def _user_in(query: bytes) -> str | None:
    """Return the end user that a query names: requests that look have no body to name one in."""
    named = parse_qs(query.decode("latin-1")).get("user_id", [""])[0].strip()
    return opaque(named) if named else None


async def _refuse(meter: Meter, status: int, message: str, code: str, *more: tuple[bytes, bytes]) -> None:
    status, headers, body = fault(status, message, code, is_anthropic=False)
    await answer(meter.send, status, (*headers, *more), body)
