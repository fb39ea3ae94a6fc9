"""The rolling memory: older messages folded into one summary of fixed sections, again and again, as seed 002 has it.

Comes in: entries of a thread, and a model. Goes out: a summary of entries `[0, upto)`, and the decision what of a
conversation is shown as it is. `settings` and `weights` say where it is folded, `window` what is shown, `outline` what is
carried over and what yields, `markdown` how it reads: all pure. A model is asked in `questions`, what it says is weighed
in `replies`, lines of tool calls are made in `toollines`. `shelf` reads summaries in a unit of work, `fold` the piece that
is due, `rolling` is what the pump drives, and `upkeep` drops what is to be made again. It knows the log and no other
memory.
"""

from everlog.memory.rolling.questions import Prompts, prompts
from everlog.memory.rolling.rolling import FOLDED, Rolling, console_line
from everlog.memory.rolling.settings import Settings, Wish, resolve
from everlog.memory.rolling.shelf import Summary, injection, latest
from everlog.memory.rolling.upkeep import drop, stale
from everlog.memory.rolling.verify import verify
from everlog.memory.rolling.weights import Weight
from everlog.memory.rolling.window import Plaintext, Stands, window

__all__ = [
    "FOLDED",
    "Plaintext",
    "Prompts",
    "Rolling",
    "Settings",
    "Stands",
    "Summary",
    "Weight",
    "Wish",
    "console_line",
    "drop",
    "injection",
    "latest",
    "prompts",
    "resolve",
    "stale",
    "verify",
    "window",
]
