"""What is done with one request: as its headers say, else as its key does, else as the server is set. Pure."""

from dataclasses import dataclass

from everlog.access import Mode, Principal
from everlog.context import Mode as Past
from everlog.surfaces.proxy.recording.controls import Controls
from everlog.surfaces.proxy.settings.options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is done with a request."""

    mode: Mode
    budget_tokens: int
    """How much of its prompt memory may take, where there is one."""

    @property
    def remembers(self) -> bool:
        """Whether memory stands for what outgrew the budget."""
        return self.mode in ("rolling", "tree")

    @property
    def memory(self) -> Past:
        """What stands for older words."""
        return "rolling" if self.mode == "rolling" else "tree"


def wanted(controls: Controls, principal: Principal, options: Options) -> Wanted:
    """Return what is done with a request; one that is to be kept nowhere has no memory."""
    return Wanted(
        mode=(controls.mode or principal.mode or options.mode) if controls.keeps else "off",
        budget_tokens=controls.budget_tokens or principal.budget_tokens or options.budget_tokens,
    )
