"""Why an epoch ends: one reason at a time, in the order of what they cost."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from everlog.context.turning import Facts, looks, reason_to_turn
from everlog.context.values import Epoch, Rate

AT = datetime(2026, 11, 30, tzinfo=UTC)
EPOCH = Epoch(
    n=0,
    reason="first",
    opened_at=AT,
    turn=10,
    looked=10,
    budget=4_000,
    rate=Rate(),
    renderer="r",
    past="",
    cut=0,
    repeat=None,
    whole=0,
    head_hash=b"h",
    tools_hash=b"t",
    past_hash=b"p",
    prefix=3,
    prefix_hash=b"x",
    last_at=AT,
)
SAME = Facts(
    turn=11,
    renderer="r",
    head_hash=b"h",
    tools_hash=b"t",
    past_hash=b"p",
    prefix_hash=b"x",
    erased=False,
    full=False,
    above_low=False,
    landed=False,
    silent_s=0,
    idle_s=None,
    too_long=False,
    tail=True,
    folds=True,
)


def test_an_epoch_goes_on_while_nothing_has_changed():
    assert reason_to_turn(EPOCH, SAME) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"renderer": "s"}, "renderer"),
        ({"head_hash": b"i"}, "instructions"),
        ({"tools_hash": b"u"}, "tools"),
        ({"past_hash": b"q"}, "rebuilt"),
        ({"past_hash": None}, "rebuilt"),
        ({"prefix_hash": b"y"}, "renderer"),
        ({"prefix_hash": None}, "renderer"),
        ({"prefix_hash": b"y", "erased": True}, "erased"),
        ({"too_long": True}, "estimate"),
        ({"tail": False}, "tail"),
        ({"tail": False, "folds": False}, None),
        ({"full": True}, "full"),
        ({"landed": True}, "landed"),
        ({"landed": True, "turn": 13}, None),
        ({"silent_s": 301, "idle_s": 300, "above_low": True}, "idle"),
        ({"silent_s": 301, "idle_s": 300}, None),
        ({"silent_s": 301, "above_low": True}, None),
        ({"full": True, "landed": True, "head_hash": b"i"}, "instructions"),
    ],
)
def test_each_change_has_its_name(change: dict, reason: str | None):
    assert reason_to_turn(EPOCH, replace(SAME, **change)) == reason


def test_placeholders_are_looked_at_in_as_many_turns_as_a_number_has_digits():
    epoch, looked = EPOCH, []
    for turn in range(10, 210):
        if looks(epoch, turn):
            looked.append(turn - 10)
            epoch = replace(epoch, looked=turn)
        assert not looks(epoch, turn), "once in a turn"
    assert looked == [1, 2, 4, 8, 16, 32, 64, 128]
