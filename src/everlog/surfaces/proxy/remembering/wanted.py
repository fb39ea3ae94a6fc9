"""What is wanted of memory for a request."""

from dataclasses import dataclass
from typing import Any

from everlog.access import Principal
from everlog.context import Mode as Past
from everlog.surfaces.proxy.incoming import Headers, values
from everlog.surfaces.proxy.settings.options import Mode, Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A mode, and what memory may take."""

    mode: Mode
    budget_tokens: int

    @property
    def memory(self) -> Past:
        """What stands for older words."""
        return "rolling" if self.mode == "rolling" else "tree"


def wanted(headers: Headers, principal: Principal, options: Options) -> Wanted:  # noqa: ARG001
    """Return what a request and the settings say."""
    mode: Any = next(values(headers, b"x-everlog-mode"), options.mode.encode()).decode()
    budget = int(next(values(headers, b"x-everlog-budget"), b"%d" % options.budget_tokens))
    return Wanted(mode=mode, budget_tokens=budget)
