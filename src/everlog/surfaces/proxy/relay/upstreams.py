"""Which upstream has a model, under which address, and what models there are in all of them. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from everlog.chat.places import place_of
from everlog.protocols.shapes import array, encoded, record
from everlog.registry import builtin
from everlog.surfaces.proxy.recording.identity import opaque
from everlog.surfaces.proxy.settings.options import Target


@dataclass(frozen=True, slots=True)
class Upstreams:
    """All upstreams of a proxy."""

    targets: tuple[Target, ...]

    @property
    def default(self) -> Target:
        """The one that takes what no other does."""
        return next(target for target in self.targets if not target.models)

    def called(self, name: str | None) -> Target:
        """Return the one of a name, as it is kept; the default where there is none."""
        return next((target for target in self.targets if opaque(target.name) == name), self.default)

    def of(self, model: str | None) -> Target:
        """Return the first whose patterns fit a model, else the default."""
        if model is not None:
            for target in self.targets:
                if any(fnmatchcase(model, pattern) for pattern in target.models):
                    return target
        return self.default


def provider_of(target: Target) -> str | None:
    """Return the provider whose prices hold at an upstream: the one that it is said to be, or whose address it has."""
    if target.provider is not None:
        return target.provider
    place = place_of(target.base_url)
    return next((one.name for one in builtin().providers.values() if place_of(one.base_url) == place), None)


def model_of(body: bytes) -> str | None:
    """Return the model that a body names; None where it names none, or is no JSON, which its upstream will say."""
    try:
        named = record(json.loads(body)).get("model")
    except (ValueError, RecursionError):
        return None
    return named if isinstance(named, str) else None


def address(target: Target, path: str, query: bytes) -> str:
    """Return where a path of ours is at an upstream, its escapes and its query as they came."""
    rest = path.removeprefix("/v1")
    return f"{target.base}{rest}?{query.decode('latin-1')}" if query else f"{target.base}{rest}"


def merged(answers: Sequence[tuple[Target, bytes]], upstreams: Upstreams) -> bytes:
    """Return one list of models from those of several upstreams, lawful for clients of OpenAI and of Anthropic.

    A model stands in it as its upstream describes it, if requests for it go there; each once.
    """
    found: dict[str, dict[str, Any]] = {}
    for target, body in answers:
        for item in _listed(body):
            name = item.get("id")
            if isinstance(name, str) and upstreams.of(name) is target:
                found.setdefault(name, item)
    names = [*found]
    ends = {"has_more": False, "first_id": names[0] if names else None, "last_id": names[-1] if names else None}
    return encoded({"object": "list", "data": [*found.values()], **ends})


def _listed(body: bytes) -> list[dict[str, Any]]:
    try:
        return [record(item) for item in array(record(json.loads(body)).get("data"))]
    except (ValueError, RecursionError):
        return []
