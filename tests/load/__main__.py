"""The load test as a program: `python -m tests.load`; it exits with 1 if anything is wrong."""

import argparse
import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles

from tests.load.proof import was_kept_first
from tests.load.run import Outcome, run

MOST_FAULTS = 20
"""Faults that are printed."""


def main() -> int:
    """Run it; return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long clients talk (600)")
    parser.add_argument("--clients", type=int, default=50, help="how many at once (50)")
    parser.add_argument("--kills", type=int, default=5, help="how often the proxy is killed (5)")
    parser.add_argument("--seed", type=int, default=1, help="of all that is left to chance (1)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        outcome = asyncio.run(
            run(
                Path(home),
                seconds=chosen.seconds,
                clients=chosen.clients,
                kills=chosen.kills,
                seed=chosen.seed,
                say=lambda text: print(text, flush=True),
            )
        )
    print("\n" + "\n".join(table(outcome)))
    return 1 if outcome.faults else 0


def table(outcome: Outcome) -> Iterator[str]:
    """Yield the lines of what happened."""
    seen = Counter(one.outcome for one in outcome.tries)
    answered = [one for one in outcome.tries if one.outcome == "acknowledged"]
    held = quantiles([0.0, 0.0, *(one.held_s * 1000 for one in answered)], n=100)  # there may be none
    rss = [sample.rss_mb for sample in outcome.samples]
    last = [sample.rss_mb for sample in outcome.samples if sample.life == outcome.kills]
    shown = {
        "seconds": round(outcome.seconds),
        "kill -9": outcome.kills,
        "dialogues": len(outcome.dialogues),
        "requests": len(outcome.tries),
        **{f"  {word}": times for word, times in seen.most_common()},
        "ends of answers, half and 95 of 100 within (ms)": f"{held[49]:.0f} {held[94]:.0f}",
        "  not surely kept before: 250 ms or more": len([one for one in answered if not was_kept_first(one)]),
        "  let go by the proxy before they were kept": outcome.pages["everlog_held_too_long_total"],
        "answers that said they would not be kept": sum(one.degraded for one in answered),
        "acknowledged, and not there after a kill": len(outcome.lost),
        "  of these not there at the end": len(outcome.gone),
        "threads": outcome.threads,
        "entries": outcome.entries,
        "memory, least and most (MB)": f"{min(rss):.0f} {max(rss):.0f}",
        "memory of the last life (MB)": " ".join(f"{one:.0f}" for one in last[:: max(1, len(last) // 8)]),
        "files: start, most, end": f"{outcome.first_files} {max(one.files for one in outcome.samples)} {outcome.last_files}",
        "faults": len(outcome.faults),
    }
    for name, value in shown.items():
        yield f"{name:48} {value:>10}"
    yield from outcome.faults[:MOST_FAULTS]


if __name__ == "__main__":
    raise SystemExit(main())
