"""Keep what is derived current: what is due, who is at it, and the runs that work it off.

Comes in: marks, in the units that change what a memory reads; a memory; something that answers its requests. Goes out:
the memory's rows, written by the memory itself, and what they cost. It is a reconciler, not a queue: what is pending follows from the log
and the derived rows, so a run can be killed at any time, and any number at once are safe. It knows memories by their
four verbs only.

`compactors` says who answers: code, or a model, which `chats` asks, the first of several with one prefix alone
(`priming`). `due` says what waits, `claim` takes it on, `live` is one run over one subject, in `passes` whose requests `calls` asks
and whose answers `holding` writes; `usefulness` asks less where they are of no use; `worker` goes on with runs until it is told to
stop.
"""

from everlog.pump.calls import Calls
from everlog.pump.claim import LeaseLost
from everlog.pump.compactors import compactor_of
from everlog.pump.due import mark, mark_rolling, mark_tree, waiting
from everlog.pump.holding import Progress
from everlog.pump.live import Ran, run
from everlog.pump.passes import Hold, Options, Result
from everlog.pump.worker import Worked, Worker

__all__ = [
    "Calls",
    "Hold",
    "LeaseLost",
    "Options",
    "Progress",
    "Ran",
    "Result",
    "Worked",
    "Worker",
    "compactor_of",
    "mark",
    "mark_rolling",
    "mark_tree",
    "run",
    "waiting",
]
