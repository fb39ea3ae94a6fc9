"""What is asked for, by method and path. Pure."""

import re
from dataclasses import dataclass
from enum import Enum, auto
from urllib.parse import unquote

from everlog.protocols import FORMATS
from everlog.surfaces.proxy.hidden.items import PREFIX


class Kind(Enum):
    """What is done with a request."""

    HOME = auto()
    """Answered here: somebody looks whether a server is there."""
    MODELS = auto()
    """The models of all upstreams."""
    MODEL = auto()
    """Relayed to the upstream of the model that the path names."""
    ANSWER = auto()
    """Relayed to the upstream that gave the answer that the path names."""
    OURS = auto()
    """Answered from the log, which alone knows the answer that the path names; relayed where there is no log."""
    BY_MODEL = auto()
    """Relayed to the upstream of the model that the body names."""
    DEFAULT = auto()
    """Relayed to the default upstream."""
    PREFLIGHT = auto()
    """Answered here: a web page asks what it may send."""
    SOCKET = auto()
    """Refused, so that the client goes on over HTTP."""
    UNKNOWN = auto()
    """Not here."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request goes."""

    kind: Kind
    protocol: str | None = None
    """The wire format of a conversation; None for all else."""
    model: str | None = None
    """The model that the path names."""
    answer: str | None = None
    """The id of the answer that the path names."""
    is_anthropic: bool = False
    """Whether its client reads errors in the form of Anthropic."""


CONVERSATIONS = {
    f"/v1{one.path}": Route(Kind.BY_MODEL, name, is_anthropic=name == "anthropic") for name, one in FORMATS.items()
}
"""The paths under which conversations come."""

BESIDE = {
    "/v1/messages/count_tokens": Route(Kind.BY_MODEL, is_anthropic=True),
    "/v1/responses/input_tokens": Route(Kind.BY_MODEL),
    "/v1/responses/compact": Route(Kind.BY_MODEL),
    "/v1/embeddings": Route(Kind.BY_MODEL),
}
"""Paths that name a model and hold no conversation of ours."""

ANSWERS = ("/v1/responses/", "/v1/chat/completions/")
"""What is before the id of an answer that an upstream keeps."""


_ESCAPED = re.compile(r"%(?:2[DdEe]|3\d|[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff]|7[Ee])")
"""Escapes of characters that need none: RFC 3986, 2.3."""

_STEPS = re.compile(r"[/\\]")


def route(method: str, path: str, *, is_anthropic: bool = False, is_upgrade: bool = False) -> Route:
    """Return where a request goes.

    Args:
        method: of HTTP.
        path: as it came, without its query.
        is_anthropic: whether it has the version header of Anthropic.
        is_upgrade: whether it wants to go on as a WebSocket.
    """
    if method == "POST" and (found := CONVERSATIONS.get(path) or BESIDE.get(path)):
        return found
    is_anthropic = is_anthropic or path.startswith("/v1/messages")
    if _climbs(path) or (method == "POST" and _meant(path) is not None):
        return Route(Kind.UNKNOWN, is_anthropic=is_anthropic)
    if method == "OPTIONS":
        return Route(Kind.PREFLIGHT)
    if is_upgrade:
        return Route(Kind.SOCKET)
    if method in {"GET", "HEAD"} and path == "/":
        return Route(Kind.HOME)
    if method == "GET" and path == "/v1/models":
        return Route(Kind.MODELS, is_anthropic=is_anthropic)
    if method == "GET" and path.startswith("/v1/models/"):
        return Route(Kind.MODEL, model=path.removeprefix("/v1/models/"), is_anthropic=is_anthropic)
    if named := next((path.removeprefix(start) for start in ANSWERS if path.startswith(start)), ""):
        id_ = unquote(named.partition("/")[0])
        is_ours = id_.startswith(PREFIX) and path.startswith(ANSWERS[0])
        return Route(Kind.OURS if is_ours else Kind.ANSWER, answer=id_)
    if path.startswith("/v1/") and not path.startswith("/v1/v1/"):
        return Route(Kind.DEFAULT, is_anthropic=is_anthropic)
    return Route(Kind.UNKNOWN, is_anthropic=is_anthropic)


def advice(path: str) -> str:
    """Return what to do about a path that is not here."""
    if _climbs(path):
        return "A path has no `.` or `..` in it: a server could take it for another one."
    if (meant := _meant(path)) is not None:
        return f"Ask for it under {meant}."
    if path.startswith("/v1/v1/"):
        return "The client adds /v1 by itself: its base URL must end before it."
    if any(known.removeprefix("/v1") == path for known in (*CONVERSATIONS, *BESIDE, "/v1/models")):
        return "The client's base URL must end in /v1."
    if path in {"/v1", "/v1/"}:
        return "This is the base URL: clients add /chat/completions, /responses, /messages or /models to it."
    if path.startswith("/everlog"):
        return "The log is under /everlog/v1, which shows what can be asked."
    return "Models are under /v1, the log under /everlog/v1."


def _meant(path: str) -> str | None:
    """Return the path of a conversation that is spelt in another way, which a server may take for it and we would not see."""
    plain = re.sub(r"/+", "/", _ESCAPED.sub(lambda one: unquote(one[0]), path)).rstrip("/")
    return plain if plain != path and (plain in CONVERSATIONS or plain in BESIDE) else None


def _climbs(path: str) -> bool:
    """Return whether a step of a path means another place: an upstream could leave the part that is meant for clients."""
    return "." in unquote(path) and not {".", ".."}.isdisjoint(_STEPS.split(unquote(path)))
