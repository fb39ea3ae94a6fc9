"""One thing that was looked at, how it is, and what would mend it: what `everlog doctor` prints, and its twin over HTTP."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: Literal["ok", "todo", "fail", "skip"]
    """`todo` is pending, and mends itself or by what `said` names; `skip` was not looked at, or is none of its business."""
    said: str
