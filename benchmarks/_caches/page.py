"""The numbers of the documentation: tables in `docs/caching.md`, a plot beside it, and what proves that they are current."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks._caches.compared import Compared, compare, compare_proxied
from benchmarks._caches.plot import plot
from benchmarks._caches.talks import agent, plain, with_tools
from benchmarks._caches.use import MILLION

PAGE = Path(__file__).parents[2] / "docs" / "caching.md"

PLOT = PAGE.with_name("caching.svg")

BEGIN, END = "<!-- numbers: python -m benchmarks._caches -->\n", "<!-- end of numbers -->\n"

ROWS = {
    "merged": "a tree view, merged after every message",
    "window": "the newest 20,000 tokens, sliding",
    "rewritten": "a memory of 2,000 tokens, rewritten each turn, and the newest 8,000",
    "whole": "everything, always",
    "rolling": "a rolling summary at 20,000, 20 messages kept",
    "ours": "**Everlog: a frozen view, growing behind it**",
}

SHORT = {
    "merged": "merged after every message",
    "window": "sliding window",
    "rewritten": "rewritten memory",
    "whole": "everything",
    "rolling": "rolling summary",
    "ours": "Everlog",
}
"""The same, as they are named in the plot."""

TALKS = {
    "talk": "300 turns",
    "tools": "300 turns, half of them with 3 to 10 rounds of tools",
    "agent": "20 turns of 30 to 60 rounds",
}

WORKED = 100
"""Turns with tools of a client that sends all of it, always, a megabyte in the end."""

SHORT_TURNS = 45
"""Enough for a first epoch to end."""


def write() -> None:
    """Make all numbers again and put them into the page and the plot."""
    talked = list(compare(plain(), list(ROWS)))
    worked = [*compare(with_tools(), ("merged", "ours")), *compare(agent(), ("merged", "ours"))]
    through = [
        (TALKS["talk"], compare_proxied(plain())),
        (f"{WORKED} turns with tools", compare_proxied(with_tools(WORKED))),
    ]
    parts = (_matrix(talked), _ours("talk", talked, worked), _proxied(through), short())
    numbers = "\n".join(parts)
    text = PAGE.read_text("utf-8")
    head, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{numbers}{END}{rest.partition(END)[2]}", "utf-8")
    PLOT.write_text(drawn([one for one in talked if one.provider is talked[0].provider]), "utf-8")


def drawn(ran: Sequence[Compared]) -> str:
    """Return the plot of all policies at one provider."""
    lines = {SHORT[one.policy]: one.run.spent_usd for one in ran}
    return plot(lines, f"Input of {len(ran[0].run.spent_usd)} turns, in dollars: {ran[0].provider.name}", "turns")


def short() -> str:
    """Return the numbers of a short run, as a comment: they change whenever the others do."""
    ran = list(compare(plain(SHORT_TURNS), ("merged", "ours")))
    ran = [*ran, *(one for one in compare_proxied(plain(SHORT_TURNS)) if one.policy == "proxied")]
    found = {f"{one.provider.name}, {one.policy}": [one.run.use.read, round(one.run.usd, 6)] for one in ran}
    return f"<!-- {SHORT_TURNS} turns: {json.dumps(found)} -->\n"


def _matrix(ran: Sequence[Compared]) -> str:
    names = list(dict.fromkeys(one.provider.name for one in ran))
    cells = {(one.policy, one.provider.name): f"{one.relative:.1%} ({one.run.cached:.1%})" for one in ran}
    rows = [[said, *(cells[policy, name] for name in names)] for policy, said in ROWS.items()]
    return _table(["input cost, and in parentheses how much of all input was read", *names], rows)


def _ours(name: str, talked: Iterable[Compared], worked: Sequence[Compared]) -> str:
    half = len(worked) // 2
    parts = [(name, talked), ("tools", worked[:half]), ("agent", worked[half:])]
    rows = []
    for talk, ran in parts:
        for one in ran:
            if one.policy == "ours":
                shares = (one.run.cached, one.run.cached_again, one.relative)
                rows.append(
                    [TALKS[talk], one.provider.name, *(f"{share:.1%}" for share in shares), f"${one.run.usd:.3f}"]
                )
    head = [
        "conversation",
        "model",
        "read of all",
        "read of what was sent again",
        "cost beside merging always",
        "input cost",
    ]
    return _table(head, rows)


def _proxied(parts: Iterable[tuple[str, Iterable[Compared]]]) -> str:
    """Return what a client sends and pays without Everlog, and what leaves the proxy for it."""
    rows = []
    for talk, compared in parts:
        ran = list(compared)
        for straight, one in zip(ran[::2], ran[1::2], strict=True):
            tokens = [f"{side.run.use.tokens / MILLION:.2f} M" for side in (straight, one)]
            costs = [f"${side.run.usd:.3f}" for side in (straight, one)]
            shares = [f"{share:.1%}" for share in (one.run.cached, one.run.cached_again, one.relative)]
            rows.append([talk, one.provider.name, *tokens, *costs, *shares])
    head = [
        "conversation",
        "model",
        "input without Everlog",
        "through the proxy",
        "its cost without",
        "through the proxy",
        "read of all",
        "read of what was sent again",
        "cost beside merging always",
    ]
    return _table(head, rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
