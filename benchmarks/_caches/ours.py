"""The prompts that are held to the bounds."""

from collections.abc import Iterator

from benchmarks._caches import policies
from benchmarks._caches.plans import Request, requests
from benchmarks._caches.providers import Wire
from benchmarks._caches.talks import Talk


def ours(talk: Talk, wire: Wire) -> Iterator[Request]:
    """Yield the requests of a talk: a frozen view, words that grow behind it, and marks as they are planned."""
    return requests(policies.epochs, talk, wire)
