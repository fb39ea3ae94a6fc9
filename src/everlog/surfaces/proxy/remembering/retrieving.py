"""Answers of ours, asked for by their ids: shown again, their questions listed, or forgotten; from the log alone.

Only who was given one gets it: the same key, and the same end user. To all others it is not there.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from everlog.conversation.alignment.answers import forgotten, given, question
from everlog.conversation.alignment.presence import principal_of
from everlog.conversation.alignment.values import Caller, Request
from everlog.errors import EverlogError, Mistake
from everlog.protocols.responses import FORMAT
from everlog.protocols.shapes import Record, encoded
from everlog.store import Unit
from everlog.surfaces.proxy.faults import JSON_TYPE, fault
from everlog.surfaces.proxy.incoming import Headers, Incoming
from everlog.surfaces.proxy.recording.exchanges import parse_exchange
from everlog.surfaces.proxy.recording.recorder import Recorder
from everlog.surfaces.proxy.remembering.retrieved import page_of, response_of

log = logging.getLogger(__name__)

Told = tuple[int, Headers, bytes]
"""Status, headers, body."""
T = TypeVar("T")

METHODS = {"": ("GET", "DELETE"), "input_items": ("GET",), "cancel": ("POST",)}
"""What can be asked of an answer, by what stands behind its id, and how."""

AWAY = "Answers cannot be looked up now: the database is away. Try again in a moment."
ABSENT = "There is no answer '{id}' for you: it was forgotten, erased, not stored, or given under another key or user."
STREAMED = "An answer that is there already is not streamed: leave `stream` out."
PAGES = "`limit` is 1 to 100, `order` is asc or desc, and `after` is the id of an item of this list."
ENDED = "It has ended: only answers that are asked for with `background` can be cancelled."


async def retrieved(recorder: Recorder, tenant: str, caller: Caller, incoming: Incoming, id_: str) -> Told:
    """Return what is asked of an answer.

    Args:
        recorder: what keeps answers.
        tenant: whose they are.
        caller: who asks.
        incoming: what is asked, as it came.
        id_: id of the answer.
    """
    what = incoming.path.rpartition("/responses/")[2].partition("/")[2].rstrip("/")
    method = "GET" if incoming.method == "HEAD" else incoming.method
    if what not in METHODS:
        return _fault(404, "Of an answer there are /input_items and /cancel.", "no_such_path")
    if method not in METHODS[what]:
        return _fault(405, f"This is asked by {' or '.join(METHODS[what])}.", "method_not_allowed")
    query = dict(parse_qsl(incoming.query.decode("latin-1")))
    if query.get("stream") == "true":
        return _fault(400, STREAMED, "not_streamed")
    body: Record = {"user": query["user_id"]} if "user_id" in query else {}
    try:
        request = parse_exchange(FORMAT, incoming.headers, body, caller=caller, request="", aliases=recorder.aliases)
    except Mistake as error:
        return _fault(400, str(error), "header_not_understood")
    look = _Look(recorder=recorder, tenant=tenant, request=request, id=id_, query=query)
    act = partial(look.told, method, what, recorder.threads.earlier())
    try:
        return await asyncio.shield(asyncio.wrap_future(recorder.threads.begin(act)))
    except EverlogError as error:
        log.warning("an answer could not be looked up", extra={"error": type(error).__name__})
        return _fault(503, AWAY, "conversation_unavailable")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """One question about an answer."""

    recorder: Recorder
    tenant: str
    request: Request
    id: str
    query: Mapping[str, str]

    def told(self, method: str, what: str, wait_for_earlier: Callable[[], object]) -> Told:
        """Return what is told; what is not there may be on its way into the log."""
        acts = {
            "GET": self._response,
            "DELETE": self._forgotten,
            "GETinput_items": self._page,
            "POSTcancel": self._ended,
        }
        act = acts[method + what]
        found = act()
        if found is None:
            wait_for_earlier()
            found = act()
        return found or _fault(404, ABSENT.format(id=self.id), "response_not_found")

    def _response(self) -> Told | None:
        found = self._read(partial(given, key=self.request.caller.key))
        return None if found is None else _told(response_of(self.id, found))

    def _page(self) -> Told | None:
        found = self._read(question)
        if found is None:
            return None
        page = page_of(self.id, found, self.query)
        return _fault(400, PAGES, "invalid_page") if page is None else _told(page)

    def _ended(self) -> Told | None:
        return None if self._response() is None else _fault(400, ENDED, "not_in_background")

    def _forgotten(self) -> Told | None:
        was_known = self.recorder.store.write(self.tenant, partial(self._within, forgotten), name="record.forget")
        return _told({"id": self.id, "object": "response", "deleted": True}) if was_known else None

    def _read(self, act: Callable[..., T]) -> T:
        found: T = self.recorder.store.read(self.tenant, partial(self._within, act))
        return found

    def _within(self, act: Callable[..., Any], unit: Unit) -> Any:
        return act(unit, self.id, principal=principal_of(unit, self.request))


def _told(body: Record) -> Told:
    return 200, (JSON_TYPE,), encoded(body)


def _fault(status: int, message: str, code: str) -> Told:
    return fault(status, message, code, is_anthropic=False)
