"""Each edge case of epochs has a test that names it, or says why it has none yet."""

import re
from pathlib import Path

NAMED = re.compile(r'covers\(f"\{EDGES\}, ([^"]+)"')

CASES = {
    "one message larger than the budget": "whole while its turn is open, then clipped, then a line",
    "tool results of 100 KB": "whole while the turn is open, clipped when the next epoch opens",
    "a turn that itself outgrows the budget": "the epoch turns between two rounds of it",
    "tool pairs": "a cut is between turns or rounds",
    "fork inside the tail": "the fork begins with the same bytes",
    "fork outside the tail": "the fork opens an epoch of its own",
    "estimate changes": "kept with the epoch, new when the next one opens",
    "the window is truly exceeded": "smaller at once, and for a while",
    "nodes land": "nothing changes until the epoch turns, which it does for that in few turns",
    "many budgets": "one epoch for each consumer",
    "two processes": "one wins, the other reads again",
    "unbuilt at fold": "asked for from three quarters on; else a placeholder",
    "memory tools' own calls": "held in place, and gone with the epoch",
    "memory tools' own calls inside a turn": "carried over, long results clipped",
    "budget lowered": "turns at once; raised: goes on, lines never split",
    "idle": "only where expiry is certain, and above the low mark",
    "epoch row lost": "a new epoch says so, nothing else depends on it",
}
"""Cases, and what is right in each."""

LATER = {"proxy crosses its threshold first time": "there is no proxy yet"}


def test_each_edge_case_of_epochs_has_a_test_that_names_it():
    source = (Path(__file__).parent / "context" / "test_epochs.py").read_text("utf-8")
    assert set(NAMED.findall(source)) == CASES.keys()
    assert not CASES.keys() & LATER.keys()
