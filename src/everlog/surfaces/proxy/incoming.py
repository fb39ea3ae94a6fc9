"""A request of a client, as values: what the relay is given, and what those who listen to it are given."""

from collections.abc import Iterator
from dataclasses import dataclass

Headers = tuple[tuple[bytes, bytes], ...]
"""Names in lower case and values, in the order in which they came; a name may be there more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A request, whole."""

    method: str
    path: str
    """As it came, with its escapes, without the query."""
    query: bytes
    headers: Headers
    body: bytes
    """The bytes of the client: what memory does not change goes up as this very object."""

    def header(self, name: bytes) -> bytes | None:
        """Return the first value of a header; None where there is none."""
        return next(values(self.headers, name), None)

    def with_body(self, body: bytes) -> "Incoming":
        """Return the request with its body, when that has come."""
        return Incoming(method=self.method, path=self.path, query=self.query, headers=self.headers, body=body)


def values(headers: Headers, name: bytes) -> Iterator[bytes]:
    """Yield all values of a header."""
    return (value for found, value in headers if found == name)
