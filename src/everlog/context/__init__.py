"""Compile prompts: what a model is sent of a thread, within a budget, so that each request begins with the one before it.

Comes in: a thread, for whom its prompt is, and what the caller adds. Goes out: the conversation to send, and the row that
makes any process send the same again. It knows the log and the memories, and neither the pump nor who talks.

`values` are its words; `rounds` cut the log where a prompt may be cut, `past` and `keepers` are what stands for the rest;
`opening` divides a `budget` and `turning` says when to do so anew: all pure. `reading` reads what `compiler` compiles
from, `pieces` are its parts, `drafts` put them together, `marks` are laid over them, `codec` makes bytes of them;
`stored` keeps what is in `rows`, `prepare` is the act, `explain` tells afterwards what a request was made of, and `outlook` what
would end an epoch.
"""

from everlog.context.explain import EPOCHS_EXPLAINED, Explained, request
from everlog.context.opening import MIN_BUDGET_BYTES
from everlog.context.outlook import Outlook, outlooks
from everlog.context.prepare import answered, hold, look, prepare
from everlog.context.stored import epochs, held_at, in_use, items_of, newest
from everlog.context.values import (
    LOW_MARK,
    Consumer,
    Context,
    Epoch,
    Head,
    Held,
    Item,
    Marking,
    Mode,
    Rate,
    Reason,
    Status,
    Terms,
)

__all__ = [
    "EPOCHS_EXPLAINED",
    "LOW_MARK",
    "MIN_BUDGET_BYTES",
    "Consumer",
    "Context",
    "Epoch",
    "Explained",
    "Head",
    "Held",
    "Item",
    "Marking",
    "Mode",
    "Outlook",
    "Rate",
    "Reason",
    "Status",
    "Terms",
    "answered",
    "epochs",
    "held_at",
    "hold",
    "in_use",
    "items_of",
    "look",
    "newest",
    "outlooks",
    "prepare",
    "request",
]
