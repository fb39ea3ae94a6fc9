"""The tree memory: a log folded into lines, two into one, that open back down to the words.

Comes in: entries of a thread. Goes out: a view of the whole thread within a budget, and what any of its lines opens to.
`nodes` are addresses, `lines` their texts, `render` the form of a view, `fold` which nodes it shows: all pure. `shelf`,
`window`, `views` and `lookup` read them in a unit of work; `tree` is what the pump drives; `extractive` is the compactor
that needs no model, and works with `clauses` of a text. A model is asked in `questions`, with `contexts` beside the source, and what it says is weighed in
`replies`; `tries` keeps what was not good enough, `pairs` brings tools' calls and results together, and `upkeep` drops
what is to be made again. It knows the log and no other memory.

`lookup` is what a line opens to, `search` finds messages by `matching` words, `tools` gives both to an agent for a
turn as `schemas` describe them, `echoes` knows its calls in a log again, and `digs` counts what was opened. `verify`
proves that the lines can be shown.
"""

from everlog.memory.tree.digs import Dig, Hot, events, hot
from everlog.memory.tree.echoes import echoes
from everlog.memory.tree.extractive import Extractive
from everlog.memory.tree.fold import MIN_BUDGET_BYTES
from everlog.memory.tree.lookup import Opened, Page, date, read, zoom
from everlog.memory.tree.questions import CONTEXT_BYTES, Prompts, prompts
from everlog.memory.tree.render import Shown, parse
from everlog.memory.tree.schemas import SCHEMAS
from everlog.memory.tree.search import Found, Hit, Mask, search
from everlog.memory.tree.tools import Tools
from everlog.memory.tree.tree import Tree
from everlog.memory.tree.upkeep import ENTRIES, Made, drop, made, reach, stale
from everlog.memory.tree.verify import verify
from everlog.memory.tree.views import LOW_MARK, show

__all__ = [
    "CONTEXT_BYTES",
    "ENTRIES",
    "LOW_MARK",
    "MIN_BUDGET_BYTES",
    "SCHEMAS",
    "Dig",
    "Extractive",
    "Found",
    "Hit",
    "Hot",
    "Made",
    "Mask",
    "Opened",
    "Page",
    "Prompts",
    "Shown",
    "Tools",
    "Tree",
    "date",
    "drop",
    "echoes",
    "events",
    "hot",
    "made",
    "parse",
    "prompts",
    "reach",
    "read",
    "search",
    "show",
    "stale",
    "verify",
    "zoom",
]
