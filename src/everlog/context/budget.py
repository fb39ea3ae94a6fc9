"""How many bytes memory may take: what was asked for, what a token comes to, and what the model's window leaves. Pure."""

from math import gcd

from everlog.context.opening import LEAST_BYTES, MIN_BUDGET_BYTES
from everlog.context.turning import COOL_TURNS
from everlog.context.values import Consumer, Epoch, Rate, Reason
from everlog.errors import ContextTooLong

LEAST_TOKENS = 1_000
"""Tokens that a provider must have counted before the estimate follows it."""

LEAST_RATE, MOST_RATE = 100, 800
"""Hundredths of a byte that a token can stand for."""


def asked(consumer: Consumer, rate: Rate) -> int:
    """Return the bytes that a consumer's budget comes to."""
    return consumer.budget if consumer.unit == "bytes" else max(MIN_BUDGET_BYTES, rate.bytes_for(consumer.budget))


def at_opening(consumer: Consumer, rate: Rate, old: Epoch | None, *, reason: Reason, turn: int) -> int:
    """Return the budget of a new epoch: a quarter less after the provider refused a prompt, for a few turns."""
    budget = asked(consumer, rate)
    if old is None:
        return budget
    if reason == "estimate":
        return min(budget, max(MIN_BUDGET_BYTES, old.budget * 3 // 4))
    cooling = old.reason == "estimate" and turn - old.turn < COOL_TURNS
    return min(budget, old.budget) if cooling else budget


def learned(old: Epoch | None) -> Rate:
    """Return the bytes of a token: what providers counted for the epoch before, in hundredths."""
    if old is None:
        return Rate()
    if old.seen_tokens < LEAST_TOKENS:
        return old.rate
    hundredths = min(MOST_RATE, max(LEAST_RATE, 100 * old.seen_bytes // old.seen_tokens))
    shared = gcd(hundredths, 100)
    return Rate(bytes=hundredths // shared, tokens=100 // shared)


def in_window(window_tokens: int | None, rate: Rate, *, head: int, open_turn: int) -> int:
    """Return the bytes that the model's window leaves to memory beside instructions, tools and the open turn.

    Raises:
        ContextTooLong: it leaves less than memory needs.
    """
    if window_tokens is None:
        return 1 << 62
    whole = rate.bytes_for(window_tokens)
    left = whole - head - open_turn
    if left < LEAST_BYTES:
        raise ContextTooLong(
            f"the request does not fit: the model takes about {whole} bytes ({window_tokens} tokens); instructions and "
            f"tools are {head}, the open turn is {open_turn}, and memory needs {LEAST_BYTES}"
        )
    return left
