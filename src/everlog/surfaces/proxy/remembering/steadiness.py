"""Requests without what a client writes anew into each of them, at the very beginning, where it breaks every prefix. Pure.

Such blocks are named in the client's profile. Its own provider reads them and caches what stands behind them; any other one
takes them for words, and reads everything anew.
"""

from collections.abc import Callable

from everlog.messages import JSON
from everlog.protocols.shapes import Record, array, record, string
from everlog.surfaces.proxy.recording.profiles import Profile
from everlog.surfaces.proxy.remembering.standing_words import ROLES


def steady(profile: Profile, provider: str | None, body: Record) -> Record:
    """Return a body without such blocks, unless they are for this provider; the same object if it has none."""
    starts = tuple(one.begins for one in profile.volatile if one.own != provider)
    return _without(body, starts) if starts else body


def as_read(profile: Profile, provider: str | None, body: Record) -> Record:
    """Return a body as its provider caches it: without the blocks that are for it."""
    starts = tuple(one.begins for one in profile.volatile if one.own == provider)
    return _without(body, starts) if starts else body


def put_back(profile: Profile, provider: str | None, body: Record, client: Record) -> Record:
    """Return a body with the blocks of a client's body that are for this provider, where they stood: at the front."""
    starts = tuple(one.begins for one in profile.volatile if one.own == provider)
    mine = [block for block in array(client.get("system")) if starts and _text(block).startswith(starts)]
    if not mine:
        return body
    system: JSON = body.get("system")
    rest = [{"type": "text", "text": system}] if isinstance(system, str) and system else array(system)
    return {**body, "system": [*mine, *rest]}


def _without(body: Record, starts: tuple[str, ...]) -> Record:
    out = body
    for name in ("system", "instructions"):
        out = _changed(out, name, lambda content: _left(content, starts))
    for name in ("messages", "input"):
        if isinstance(out.get(name), list):
            out = _changed(out, name, lambda said: _said(said, starts))
    return out


def _changed(body: Record, name: str, act: Callable[[JSON], JSON]) -> Record:
    """Return a body with a field that is changed, or gone where nothing of it is left; the same object if it is as before."""
    if name not in body:
        return body
    value = act(body[name])
    if value is body[name]:
        return body
    return {**body, name: value} if value else {key: one for key, one in body.items() if key != name}


def _said(said: JSON, starts: tuple[str, ...]) -> JSON:
    """Return messages; the instructions at their front are without such blocks."""
    items = array(said)
    out: list[JSON] = []
    for place, item in enumerate(items):
        if record(item).get("role") not in ROLES:
            return said if out == items[:place] else [*out, *items[place:]]
        done = _changed(record(item), "content", lambda content: _left(content, starts))
        out += [done] if "content" in done else []
    return said if out == items else out


def _left(content: JSON, starts: tuple[str, ...]) -> JSON:
    if isinstance(content, str):
        lines = content.split("\n")
        kept = [line for line in lines if not line.startswith(starts)]
        return content if len(kept) == len(lines) else "\n".join(kept).lstrip("\n")
    blocks = array(content)
    left = [block for block in blocks if not _text(block).startswith(starts)]
    return content if len(left) == len(blocks) else left


def _text(block: JSON) -> str:
    return string(record(block).get("text"))
