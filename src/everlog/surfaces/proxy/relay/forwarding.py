"""What an upstream that is a Headroom is told of who asks: as it was resolved, not as the client said it. Pure."""

from collections.abc import Mapping, Sequence

from everlog.access import Principal
from everlog.surfaces.proxy.incoming import Headers
from everlog.surfaces.proxy.recording.exchanges import body_of
from everlog.surfaces.proxy.recording.identity import identify
from everlog.surfaces.proxy.recording.profiles import profile_of
from everlog.surfaces.proxy.recording.profiles.rules import Facts


def for_headroom(headers: Headers, body: bytes, principal: Principal, aliases: Mapping[str, Sequence[str]]) -> Headers:
    """Return the headers that a Headroom reads, for headers and body of a client."""
    asked = body_of(body) or {}
    sources = profile_of(Facts(headers, asked, ())).sources
    who = identify(headers, asked, sources=sources, aliases=aliases)
    said = {
        "x-headroom-user-id": principal.user or who.user,
        "x-headroom-project-id": principal.project or who.project,
        "x-headroom-cwd": who.cwd,
    }
    return tuple((name.encode(), value.encode("utf-8", "replace")) for name, value in said.items() if value)
