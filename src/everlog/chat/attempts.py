"""One call of a model: the request, sent again while that helps, and the answer, whole or as it comes.

Each request that goes out is a row of the ledger. What goes wrong is raised as one class of `ProviderTrouble`; a stream
is begun again only if nothing of it was handed out.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from everlog.chat.cancel import Cancel
from everlog.chat.effects import Abandoned, Close, Emit, Program, Receive, Request, Response, Send, Sleep, Timeouts
from everlog.chat.ledger import NOTHING, Attempt, Ledger
from everlog.chat.providers import Endpoint
from everlog.chat.refusals import refusal
from everlog.chat.retries import Retry, pause_s
from everlog.clock import Clock
from everlog.errors import BadReply, Cancelled, ConnectionFailed, NeverSent, ProviderTrouble
from everlog.messages import JSON
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Delta, Reply, Stream
from everlog.protocols.shapes import Record, encoded, loads, record
from everlog.protocols.sse import EventTooLarge, Frames
from everlog.registry import Model

T = TypeVar("T")
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A request that is ready to go out."""

    endpoint: Endpoint
    model: Model
    protocol: str
    body: Mapping[str, JSON] = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The caller's; those of the endpoint win."""
    path: str | None = None
    """Behind the base URL, where it is not the protocol's."""
    purpose: str = "chat"
    timeouts: Timeouts = Timeouts()
    retry: Retry = Retry()

    @property
    def is_stream(self) -> bool:
        """Whether the answer is to come in pieces."""
        return self.body.get("stream") is True

    def render_bytes(self) -> bytes:
        """Return the body as it goes out, byte for byte."""
        return encoded(dict(self.body))

    def request(self) -> Request:
        """Return the whole request."""
        path = FORMATS[self.protocol].path if self.path is None else self.path
        return Request(
            url=self.endpoint.url(path),
            headers=self.endpoint.with_headers(self.headers),
            body=self.render_bytes(),
            timeouts=self.timeouts,
        )
