"""Keep what is derived current: marks of what is due, leases, and the run that works them off.

Comes in: marks, in the units that change what a memory reads; a memory; something that answers its requests. Goes out:
the memory's rows, written by the memory itself. It is a reconciler, not a queue: what is pending follows from the log
and the derived rows, so a run can be killed at any time, and two at once are safe. It knows memories by their four
verbs only.
"""

from everlog.pump.lease import LeaseLost, mark, mark_tree
from everlog.pump.run import Progress, Ran, run

__all__ = ["LeaseLost", "Progress", "Ran", "mark", "mark_tree", "run"]
