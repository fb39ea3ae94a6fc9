"""The interface as an ASGI application, for whoever has been let in already."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

import everlog
from everlog.access import Principal
from everlog.conversation.database import Everlog
from everlog.errors import Erased, EverlogError, Mistake, UnknownAddress, UnknownThread
from everlog.store import Store
from everlog.surfaces.api.asking import parsed
from everlog.surfaces.api.document import PREFIX, document, page
from everlog.surfaces.api.home import Home
from everlog.surfaces.api.operations import OPERATIONS, Operation
from everlog.surfaces.api.values import Since
from everlog.surfaces.examining import Usual

ROLES = ("chat", "read", "admin")
AT_ONCE = 8
"""Requests that are worked on at the same time; the others wait."""

MOST_ASKED = 1_000_000
"""Bytes of a body that are taken."""

LINES = 64
"""Lines of an answer that are sent at once."""

PIECE = 256 * 1024
"""Bytes of an answer that are sent at once."""

JSON, JSON_LINES = "application/json", "application/jsonl"

_SAID = {400: "invalid_request_error", 403: "permission_error", 404: "not_found_error", 503: "api_error"}


class Api:
    """What is in one database, over HTTP."""

    def __init__(
        self,
        store: Store,
        *,
        builds: bool = True,
        usual: Usual | None = None,
        since: Callable[[str], Since | None] = lambda _: None,
    ) -> None:
        """Show a database.

        Args:
            store: the database.
            builds: whether lines that are missing of a tree are built before they are shown.
            usual: what the proxy does with conversations.
            since: what the server counted of a tenant since it began.
        """
        self._store = store
        self._since = since
        self._builds = builds
        self._usual = usual or Usual()
        self._room = anyio.CapacityLimiter(AT_ONCE)
        routes = [Route(f"{PREFIX}{one.path}", self._route(one), methods=[one.method]) for one in OPERATIONS]
        described = msgspec.json.encode(document(OPERATIONS, everlog.__version__))
        shown = page(OPERATIONS, everlog.__version__)
        self._app = Starlette(
            routes=[
                *routes,
                Route(f"{PREFIX}/openapi.json", _given(Response(described, media_type=JSON))),
                Route(PREFIX, _given(HTMLResponse(shown))),
                Route(f"{PREFIX}/", _given(HTMLResponse(shown))),
            ],
            exception_handlers={404: _missing, 405: _missing},
        )
        self._app.router.redirect_slashes = False

    async def start(self) -> None:
        """Load what the first request would load: it takes longer than others should wait."""
        await anyio.lowlevel.checkpoint()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request; `scope["everlog.principal"]` is whoever asks."""
        await self._app(scope, receive, send)

    def _home(self, principal: Principal) -> Home:
        since = self._since(principal.tenant)
        return Home(Everlog(self._store, tenant=principal.tenant), principal, self._builds, self._usual, since)

    def _route(self, one: Operation) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            principal: Principal = request.scope["everlog.principal"]
            if ROLES.index(principal.role) < ROLES.index(one.role):
                return _fault(403, f"This is for keys of the role {one.role}.", "role_too_low")
            try:
                asked = parsed(one.asks, await _asked(request, one))
                home = self._home(principal)
                act = partial(_found, one, home, request.path_params, asked)
                found = await anyio.to_thread.run_sync(act, limiter=self._room)
            except EverlogError as error:
                return _of(error)
            return _whole(found) if isinstance(found, bytes) else StreamingResponse(found, media_type=JSON_LINES)

        return answer


def _found(one: Operation, home: Home, path: Mapping[str, str], asked: Any) -> bytes | Iterator[bytes]:
    """Do what is asked for; return what was found as it is sent, in one piece, or in as many as there are."""
    found = one.act(home, path, asked)
    return _gathered(found) if isinstance(found, Iterator) else _encoded(found)


def _gathered(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines together: each piece that is sent is a change of threads."""
    while some := list(islice(lines, LINES)):
        yield b"".join(some)


def _whole(found: bytes) -> Response:
    """Return an answer of one piece; if it is large, sent so that others have their turns meanwhile."""
    if len(found) <= PIECE:
        return Response(found, media_type=JSON)
    return StreamingResponse(_pieces(found), media_type=JSON, headers={"content-length": str(len(found))})


async def _pieces(found: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(found), PIECE):
        yield found[start : start + PIECE]
        await anyio.lowlevel.checkpoint()


async def _asked(request: Request, one: Operation) -> Mapping[str, Any]:
    """Return what a request asks for: its query, or its body.

    Raises:
        Mistake: the body is no JSON object, or too long.
    """
    if request.method in {"GET", "DELETE"}:
        return dict(request.query_params)
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_ASKED:
            raise Mistake(f"the body is larger than {MOST_ASKED:,} bytes")
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        needed = ", ".join(f'"{field.name}": …' for field in msgspec.structs.fields(one.asks))
        raise Mistake(f"the body is a JSON object: {{{needed}}}")
    return found


def _encoded(found: object) -> bytes:
    """Return an answer as JSON; half a surrogate pair, which stands in some texts, as its escape."""
    try:
        return msgspec.json.encode(found)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(found)).encode()


def _of(error: EverlogError) -> Response:
    if isinstance(error, UnknownThread | UnknownAddress | Erased):
        return _fault(404, str(error), "unknown")
    if isinstance(error, Mistake):
        return _fault(400, str(error), "invalid")
    return _fault(503, str(error), "unavailable")


def _fault(status: int, message: str, code: str) -> Response:
    body = {"error": {"message": message, "type": _SAID[status], "param": None, "code": code}}
    return Response(msgspec.json.encode(body), status, media_type=JSON)


async def _missing(request: Request, error: Exception) -> Response:  # noqa: ARG001 -- what a handler is given
    return _fault(404, f"There is no {request.method} here; {PREFIX} shows what there is.", "no_such_route")


def _given(response: Response) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_: Request) -> Response:
        return response

    return answer
