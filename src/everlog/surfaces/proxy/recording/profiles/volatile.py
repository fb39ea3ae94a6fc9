"""What a client writes into its instructions anew for each request, and its own provider alone can read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from everlog.errors import Mistake


@dataclass(frozen=True, slots=True, kw_only=True)
class Volatile:
    """A block of instructions, known by how it begins."""

    why: str
    """What it is for."""
    begins: str
    own: str
    """The provider that reads it, a name in the registry; there it stays, and breaks nothing."""

    @classmethod
    def parse(cls, name: str, found: Mapping[str, Any]) -> "Volatile":
        """Return the block that a table of a profile describes.

        Raises:
            Mistake: it says something else, or too little.
        """
        if found.keys() != {"why", "begins", "own"} or not all(found.values()):
            raise Mistake(
                f"a volatile block of the profile {name} has why, begins and own, not {', '.join(sorted(found))}"
            )
        return cls(**found)
