"""Where a conversation is folded, and what of it is shown as it is."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.errors import Mistake
from everlog.memory.rolling import Plaintext, Settings, Stands, Weight, Wish, resolve, window
from everlog.memory.rolling.weights import boundaries, piece_end, tokens, torn
from everlog.messages import Kind

PLAIN = Settings(threshold_tokens=100, min_recent=3)


def talk(kinds: Sequence[str], chars: int = 100) -> list[Weight]:
    """Weights of messages by their kinds; a call is `c1`, its result `r1`. A user's message begins a turn."""
    found: list[Weight] = []
    turn = 0
    for i, said in enumerate(kinds):
        kind: Kind = {"u": "user", "a": "assistant", "c": "tool_call", "r": "tool_result", "s": "system"}[said[0]]  # type: ignore[assignment]
        turn += kind == "user" and i > 0
        found.append(
            Weight(
                i=i,
                kind=kind,
                turn=turn,
                chars=0 if kind == "system" else chars,
                bytes=0 if kind == "system" else chars,
                opens=said if kind == "tool_call" else None,
                closes=f"c{said[1:]}" if kind == "tool_result" else None,
            )
        )
    return found


@st.composite
def talks(draw: st.DrawFn) -> list[Weight]:
    """Lawful conversations: turns of rounds, with parallel calls answered in any order."""
    kinds: list[str] = []
    number = 0
    for _ in range(draw(st.integers(1, 8))):
        kinds.append("u")
        for _ in range(draw(st.integers(0, 3))):
            calls = draw(st.integers(0, 3))
            kinds += ["a"] if draw(st.booleans()) or not calls else []
            ids = [number + n for n in range(calls)]
            number += calls
            kinds += [f"c{n}" for n in ids]
            kinds += [f"r{n}" for n in draw(st.permutations(ids))]
        kinds += draw(st.sampled_from([["a"], ["s", "a"], []]))
    sizes = draw(st.lists(st.integers(0, 300), min_size=len(kinds), max_size=len(kinds)))
    return [
        weight if weight.kind == "system" else replace(weight, chars=size, bytes=size)
        for weight, size in zip(talk(kinds), sizes, strict=True)
    ]


settings = st.builds(
    Settings, threshold_tokens=st.integers(100, 800), min_recent=st.integers(1, 8), piece_bytes=st.integers(400, 2000)
)


@pytest.mark.covers("B1", "B3", "B6", "B37")
def test_up_to_the_threshold_everything_is_shown_as_it_is_and_above_it_compression_is_wanted():
    weights = talk(["u", "a"] * 4, 50)
    assert tokens(50 * 8) == 100
    assert window(weights, PLAIN, []) == Plaintext(start=0, act="none")
    longer = [*weights[:-1], replace(weights[-1], chars=51)]
    assert window(longer, PLAIN, []) == Plaintext(start=0, act="compress", upto=5)


@pytest.mark.covers("B4", "B8")
@pytest.mark.parametrize(
    ("upto", "chars", "act"),
    [
        pytest.param(14, 200, "reuse", id="the gap is as many messages as are always shown, and it fits exactly"),
        pytest.param(13, 200, "compress", id="the gap is one more"),
        pytest.param(14, 201, "compress", id="it is a token too much"),
    ],
)
def test_a_summary_is_reused_while_gap_and_tokens_allow(upto: int, chars: int, act: Literal["reuse", "compress"]):
    weights = talk(["u", "a"] * 10)
    weights[13] = replace(weights[13], chars=0)
    some = replace(PLAIN, threshold_tokens=tokens(6 * 100 + 200))
    assert window(weights, some, [Stands(upto=upto, chars=chars)]) == Plaintext(start=upto, act=act, upto=17)


@pytest.mark.covers("B7")
def test_while_what_is_wanted_is_not_there_the_newest_summary_that_reaches_no_further_stands_in():
    weights = talk(["u", "a"] * 20)
    stands = [Stands(upto=upto, chars=300) for upto in (6, 12, 39)]
    assert window(weights, PLAIN, stands) == Plaintext(start=12, act="compress", upto=37)


def test_where_nothing_more_can_be_compressed_nothing_is_asked_for():
    """Report 4: a threshold that can never be met must not compress at every turn."""
    weights = talk(["u", "a"] * 20, 1000)
    assert window(weights, PLAIN, [Stands(upto=37, chars=300)]).act == "reuse"
    assert window(talk(["u", "a", "a"], 1000), PLAIN, []) == Plaintext(start=0, act="none", upto=0)


def test_a_summary_that_is_no_smaller_than_what_it_stands_for_is_not_used():
    """Report 3."""
    weights = talk(["u", "a"] * 20)
    assert window(weights, PLAIN, [Stands(upto=4, chars=400)]).start == 0
    assert window(weights, PLAIN, [Stands(upto=4, chars=399)]).start == 4


def test_what_is_left_out_of_the_weights_counts():
    weights = talk(["u", "a"] * 20)
    stands = [Stands(upto=10, chars=300)]
    assert window(weights[10:], PLAIN, stands, chars_before=1000) == window(weights, PLAIN, stands)


@pytest.mark.covers("B12")
def test_system_messages_are_kept_and_do_not_count():
    weights = talk(["u", "a", "s", "u", "a"] * 4)
    found = window(weights, PLAIN, [Stands(upto=13, chars=100)])
    assert (found.start, found.kept) == (13, (2, 7, 12))


def test_the_users_newest_message_is_always_shown_however_long_the_turn():
    weights = talk(["u", "a", "u", *(["c1", "r1", "a"] * 10)])
    assert window(weights, PLAIN, [Stands(upto=2, chars=10), Stands(upto=5, chars=10)]).start == 2
    assert window(weights, PLAIN, []).upto == 2


def test_a_summary_between_a_call_and_its_late_result_is_not_used():
    weights = talk(["u", "a", "c1", "u", "r1", "a", "u", "a", "u", "a", "a", "a"])
    assert torn(weights) == {3, 4}
    assert window(weights, PLAIN, [Stands(upto=3, chars=1), Stands(upto=1, chars=1)]).start == 1


@given(talks(), settings, st.data())
def test_what_is_shown_parts_no_pair_and_hides_nothing_that_must_be_seen(
    weights: list[Weight], some: Settings, draws: Any
):
    """Reports 10 and 11, and laws of the check, over conversations with calls."""
    places = [0, *boundaries(weights)]
    uptos = draws.draw(
        st.lists(st.sampled_from([*places, len(weights)]).filter(bool), unique=True)
        if len(weights) > 1
        else st.just([])
    )
    stands = [Stands(upto=upto, chars=draws.draw(st.integers(1, 200))) for upto in uptos]
    found = window(weights, some, stands)
    total = sum(weight.chars for weight in weights)
    assert (found.act == "none" and found.start == 0) or tokens(total) > some.threshold_tokens
    assert found.start == 0 or found.start in uptos
    assert found.start not in torn(weights)
    assert found.upto not in torn(weights)
    for at in (found.start, found.upto):
        assert at == 0 or len(weights) - at >= some.min_recent
        assert at <= max(weight.i for weight in weights if weight.kind == "user")
    if found.act == "reuse":
        assert found.upto - found.start <= some.min_recent


@given(talks(), settings, st.data())
def test_where_a_piece_ends_depends_on_nothing_that_comes_after(weights: list[Weight], some: Settings, draws: Any):
    """Law 2: asked later, or with other messages behind it, a piece is the same."""
    end = piece_end(weights, some)
    if end is None:
        return
    assert end in set(boundaries(weights)) - torn(weights)
    known = draws.draw(st.integers(end + 1, len(weights)))
    later = [weight if weight.i < end else replace(weight, chars=9999, bytes=9999) for weight in weights[:known]]
    assert piece_end(later, some) == end
    assert piece_end(weights[:end], some) is None


def test_a_round_is_not_torn_and_a_call_without_result_does_not_hold_on_for_ever():
    weights = talk(["u", "a", "c1", "c2", "r2", "r1", "a", "c3", "u", "a"])
    assert list(boundaries(weights)) == [1, 6, 8, 9]
    stuck = talk(["u", "c1", *["a"] * 300])
    assert next(at for at in boundaries(stuck) if at > 1) == 258


def test_tiny_messages_are_not_folded_by_the_handful():
    some = Settings(threshold_tokens=8_000, min_recent=20)
    assert some.fold_bytes == 8_000
    assert piece_end(talk(["u", "a"] * 200, 10), some) == 200
    assert piece_end(talk(["u", "a"] * 200, 150), some) == 20
    assert piece_end(talk(["u", "a"] * 200, 1_000), some) == 8


@pytest.mark.covers("B29", "B30", "B33", "B34", "B35", "B36", "B47")
def test_recommended_settings_are_those_of_the_original():
    assert Settings() == Settings(threshold_tokens=8_000, min_recent=20, cap_chars=8_000)
    found = {
        size: Settings.for_model(size) for size in (200_000, 400_000, 1_000_000, 2_000_000, 8_192, 32_000, 128_000)
    }
    assert {size: (one.threshold_tokens, one.min_recent) for size, one in found.items()} == {
        200_000: (32_000, 20),
        400_000: (64_000, 20),
        1_000_000: (128_000, 30),
        2_000_000: (128_000, 30),
        8_192: (4_000, 10),
        32_000: (4_000, 10),
        128_000: (16_000, 10),
    }
    for size, one in found.items():
        assert one.threshold_tokens < size
        assert one.fold_bytes <= one.threshold_tokens, "at most a quarter of the threshold"


@pytest.mark.covers("B27", "B32")
def test_a_threads_wish_goes_before_its_tenants_and_that_before_the_model():
    thread, tenant = Wish(threshold_tokens=500), Wish(threshold_tokens=900, min_recent=4)
    assert resolve(thread, tenant, window=200_000) == Settings(threshold_tokens=500, min_recent=4)
    assert resolve(Wish(), tenant) == Settings(threshold_tokens=900, min_recent=4)
    assert resolve(window=200_000) == Settings.for_model(200_000)
    assert resolve() == Settings()


@pytest.mark.parametrize(
    "wrong", [{"threshold_tokens": 0}, {"min_recent": 0}, {"cap_chars": "8000"}, {"piece_bytes": 10}]
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]):
    with pytest.raises(Mistake, match=r"is (at least|an int)"):
        Settings(**wrong)
