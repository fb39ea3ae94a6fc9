"""Policies side by side, in the cache of each provider."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks._caches import policies
from benchmarks._caches.ours import ours
from benchmarks._caches.plans import Request, requests
from benchmarks._caches.providers import Provider, Wire, wires
from benchmarks._caches.proxied import proxied, told
from benchmarks._caches.runs import Run, run
from benchmarks._caches.talks import Talk

POLICIES = {
    "merged": policies.merged,
    "by turn": policies.merged_by_turn,
    "rolling": policies.rolling,
    "window": policies.window,
    "rewritten": policies.rewritten,
    "whole": policies.whole,
}


@dataclass(frozen=True, slots=True)
class Compared:
    """One policy at one provider."""

    provider: Provider
    policy: str
    run: Run
    relative: float
    """What it costs, of what the first policy costs."""


def compare(talk: Talk, names: Sequence[str]) -> Iterator[Compared]:
    """Yield each policy at each provider; the first is what the others are compared with."""
    for wire in wires():
        ran = {name: run(wire, _requests(name, talk, wire)) for name in names}
        for provider in wire.providers:
            first = ran[names[0]][provider.name].usd
            for name in names:
                one = ran[name][provider.name]
                yield Compared(provider, name, one, one.usd / first)


def compare_proxied(talk: Talk) -> Iterator[Compared]:
    """Yield, at each provider, a client that sends everything, straight and through the proxy.

    Their costs are told beside a view that is merged after every message, by a model that is told of it as the proxy does.
    """
    for wire in wires():
        first = run(wire, requests(policies.merged, told(talk), wire))
        ran = {"whole": run(wire, requests(policies.whole, talk, wire)), "proxied": run(wire, proxied(talk, wire))}
        for provider in wire.providers:
            for name, runs in ran.items():
                one = runs[provider.name]
                yield Compared(provider, name, one, one.usd / first[provider.name].usd)


def _requests(name: str, talk: Talk, wire: Wire) -> Iterator[Request]:
    return ours(talk, wire) if name == "ours" else requests(POLICIES[name], talk, wire)
