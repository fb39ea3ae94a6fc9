"""How much of a prompt is read from a provider's cache, and what input costs, by each provider's rules, over real bytes.

Conversations are replayed; no provider is asked. What ours is compared with has the marks that were best for it. Shown
are shares: of all tokens of input; of those that an earlier request had too; and of what a view costs that is merged
after every message. So is what leaves the proxy for a client that knows of no memory, also beside the same client without it.
`python -m benchmarks._caches` writes the tables and the plot of the documentation.
"""

from benchmarks._caches.compared import Compared, compare, compare_proxied
from benchmarks._caches.talks import Talk, agent, plain, with_tools
from benchmarks._sheet import Sheet, fill

CHEAP_READS = 0.05
"""Reading at so much of the price of reading anew, or less, is cheap."""


def measure(sheet: Sheet) -> None:
    """Measure it for talk, for talk with tools, and for long turns of an agent."""
    long = agent(*sheet.pick((20, 30, 60), (1, 6, 10)))
    for talk in (plain(sheet.pick(300, 12)), with_tools(sheet.pick(300, 6)), long):
        rivals = ("rolling", "window", "rewritten", "whole") if talk.name == "talk" else ("by turn",)
        for one in compare(talk, ("merged", "ours", *rivals)):
            judge(sheet, talk, one)
    for talk in (plain(sheet.pick(300, 45)), with_tools(sheet.pick(100, 8))):
        ran = list(compare_proxied(talk))
        for straight, one in zip(ran[::2], ran[1::2], strict=True):
            judge(sheet, talk, one)
            tokens, cost = one.run.use.tokens / straight.run.use.tokens, one.run.usd / straight.run.usd
            size = f"{talk.turns} turns, {talk.name}"
            sheet.row("proxied, tokens beside all of it, always", size, one.provider.name, 100 * tokens, "%")
            sheet.row("proxied, cost beside all of it, always", size, one.provider.name, 100 * cost, "%")


OURS = ("ours", "proxied")


def judge(sheet: Sheet, talk: Talk, one: Compared) -> None:
    """Hold ours to the bounds; show what else there is."""
    size = f"{talk.turns} turns, {talk.name}"
    if one.policy in OURS:
        least = 93.0 if talk.name == "talk" else None
        sheet.row(
            f"{one.policy}, read of all input", size, one.provider.name, 100 * one.run.cached, "%", at_least=least
        )
        again = 100 * one.run.cached_again
        sheet.row(f"{one.policy}, read of what was sent again", size, one.provider.name, again, "%", at_least=95.0)
    if one.policy != "merged":
        most = None
        if one.policy in OURS:
            most = 16.0 if one.provider.read_share <= CHEAP_READS else 24.0
        what = f"{one.policy}, cost beside merging always"
        sheet.row(what, size, one.provider.name, 100 * one.relative, "%", at_most=most)


if __name__ == "__main__":
    raise SystemExit(fill("cache", measure))
