"""What is known of clients: one TOML file for each, so that a new client is a new file.

A file says by what the client is known, where it says who asks, which blocks it puts into what a person or a tool said,
what it writes anew into the instructions of each request, and which of its requests are questions of its own beside the conversation. `any.toml` holds for all of them. What a
file may say is what `Profile` and `Rule` have; anything else in it is a mistake.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from everlog.errors import Mistake
from everlog.surfaces.proxy.recording.identity import FIELDS, Source
from everlog.surfaces.proxy.recording.profiles.blocks import Blocks
from everlog.surfaces.proxy.recording.profiles.rules import Facts, Rule
from everlog.surfaces.proxy.recording.profiles.volatile import Volatile

EVERY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One client."""

    name: str
    """In the keys of the threads that it begins."""
    title: str
    client: tuple[Rule, ...] = ()
    """What it is known by: one of these."""
    sources: Mapping[str, tuple[Source, ...]]
    """Where it says who asks, by field of an identity."""
    blocks: Blocks
    """What it puts into what others said."""
    side: tuple[Rule, ...] = ()
    """Questions of its own: what holds for one of these."""
    volatile: tuple[Volatile, ...] = ()
    """What it writes anew into the instructions of each request."""

    def is_side(self, facts: Facts) -> bool:
        """Return whether a request is a question of the client's own."""
        return any(rule.holds(facts) for rule in self.side)


def profile_of(facts: Facts) -> Profile:
    """Return the profile of the client that sent a request: what holds for every client, where it is not known."""
    for one in profiles().values():
        if any(rule.holds(facts) for rule in one.client):
            return one
    return _every()


@cache
def profiles() -> Mapping[str, Profile]:
    """Return the known clients by name."""
    return {name: parse(name, text, _every()) for name, text in _texts() if name != EVERY}


@cache
def _every() -> Profile:
    return parse(EVERY, dict(_texts())[EVERY])


def parse(name: str, text: str, every: Profile | None = None) -> Profile:
    """Return the profile that a file's text describes, with what holds for every client behind it.

    Raises:
        Mistake: it says something that no profile has.
    """
    found = tomllib.loads(text)
    unknown = found.keys() - {"title", "client", "identity", "blocks", "side", "volatile"}
    unknown |= found.get("identity", {}).keys() - set(FIELDS)
    if unknown or "title" not in found:
        raise Mistake(f"the profile {name} has no title, or what no profile has: {', '.join(sorted(unknown))}")
    own: Mapping[str, Any] = found.get("identity", {})
    shared = {} if every is None else every.sources
    return Profile(
        name="proxy" if name == EVERY else name,
        title=found["title"],
        client=tuple(Rule.parse(name, one) for one in found.get("client", ())),
        sources={
            field: (*map(Source.parse, own.get(field, ())), *(() if field in own else shared.get(field, ())))
            for field in FIELDS
        },
        blocks=Blocks(tuple((start, end) for start, end in found.get("blocks", ()))),
        side=(*(Rule.parse(name, one) for one in found.get("side", ())), *(() if every is None else every.side)),
        volatile=tuple(Volatile.parse(name, one) for one in found.get("volatile", ())),
    )


def _texts() -> Iterator[tuple[str, str]]:
    for one in sorted(files(__package__).iterdir(), key=lambda one: one.name):
        if one.name.endswith(".toml"):
            yield one.name.removesuffix(".toml"), one.read_text("utf-8")
