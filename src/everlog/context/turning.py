"""Whether the next request goes on with an epoch, or opens one, and why. Pure."""

from dataclasses import dataclass

from everlog.context.values import Epoch, Reason

COOL_TURNS = 8
"""How many turns a budget stays small after the provider refused a prompt as too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What has become of the parts of an epoch's prompt."""

    turn: int
    """Number of the turn that asks."""
    renderer: str
    head_hash: bytes
    tools_hash: bytes
    past_hash: bytes | None
    """Hash of the past as it is rendered now; None if it cannot be rendered any more."""
    prefix_hash: bytes | None
    """Hash of as many pieces as the last request had; None if there are fewer."""
    erased: bool
    """Whether words of the tail were erased since."""
    full: bool
    """Whether what was sent, and what came since but for the newest round, is above the budget."""
    above_low: bool
    landed: bool
    """Whether half of the placeholders could be shown with their words by now."""
    reached: bool = False
    """Whether a summary stands by now for words that nothing stands for in the prompt, and that no tool opens."""
    silent_s: float
    idle_s: float | None
    too_long: bool
    tail: bool
    """Whether the consumer has a tail."""
    folds: bool
    """Whether there are closed words that a memory without a tail does not show yet."""


def reason_to_turn(epoch: Epoch, facts: Facts) -> Reason | None:
    """Return why an epoch ends here, or None where it goes on."""
    if epoch.renderer != facts.renderer:
        return "renderer"
    if epoch.head_hash != facts.head_hash:
        return "instructions"
    if epoch.tools_hash != facts.tools_hash:
        return "tools"
    if epoch.past_hash != facts.past_hash:
        return "rebuilt"
    if epoch.prefix and epoch.prefix_hash != facts.prefix_hash:
        return "erased" if facts.erased else "renderer"
    if facts.too_long:
        return "estimate"
    if not facts.tail and facts.folds:
        return "tail"
    if facts.full:
        return "full"
    if facts.reached or (facts.landed and looks(epoch, facts.turn)):
        return "landed"
    if facts.idle_s is not None and facts.silent_s > facts.idle_s and facts.above_low:
        return "idle"
    return None


def looks(epoch: Epoch, turn: int) -> bool:
    """Return whether placeholders are looked at in this turn: the first, second, fourth, eighth … of the epoch."""
    since = turn - epoch.turn
    return turn > epoch.looked and since > 0 and since & since - 1 == 0


def turns_when(epoch: Epoch, memory: int) -> str:
    """Return what would end an epoch next, in words."""
    room = max(0, epoch.budget - memory)
    waiting = ", or when half of the placeholders are built" if '"shown"' in epoch.past and ",0]" in epoch.past else ""
    return f"when {room} more bytes were said{waiting}"
