"""A request that is ready to go out."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from everlog.chat.bodies import body_bytes
from everlog.chat.effects import Request, Timeouts
from everlog.chat.providers import Endpoint
from everlog.chat.retries import Retry
from everlog.messages import JSON
from everlog.protocols import FORMATS
from everlog.registry import Model


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
    timeouts: Timeouts = field(default_factory=Timeouts)
    retry: Retry = field(default_factory=Retry)

    @property
    def is_stream(self) -> bool:
        """Whether the answer is to come in pieces."""
        return self.body.get("stream") is True

    def render_bytes(self) -> bytes:
        """Return the body as it goes out, byte for byte."""
        return body_bytes(self.body)

    def request(self) -> Request:
        """Return the whole request."""
        path = FORMATS[self.protocol].path if self.path is None else self.path
        return Request(
            url=self.endpoint.url(path),
            headers=self.endpoint.with_headers(self.headers),
            body=self.render_bytes(),
            timeouts=self.timeouts,
        )
