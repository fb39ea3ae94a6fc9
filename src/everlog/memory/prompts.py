"""Prompts as files: Markdown beside the memory that uses them, with `{{name}}` slots, known by what they say.

A prompt's id is a hash of its words. It is stored with everything that was made with it, so what a changed prompt makes
stale can be asked for. Whoever wants other words keeps files of the same names in a folder of their own.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from everlog.errors import Mistake
from everlog.tokens import utf8

_SLOT = re.compile(r"\{\{([a-z_]+)\}\}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A template."""

    name: str
    text: str

    @property
    def id(self) -> str:
        """32 hex digits of the SHA-256 of its words."""
        return sha256(utf8(self.text)).hexdigest()[:32]

    @property
    def slots(self) -> frozenset[str]:
        """Names of the values that it needs."""
        return frozenset(_SLOT.findall(self.text))

    def render(self, **values: object) -> str:
        """Return the text with its slots filled; what is filled in is never searched for slots itself.

        Raises:
            KeyError: a slot has no value.
        """
        return _SLOT.sub(lambda slot: str(values[slot[1]]), self.text)


def load(package: str, name: str, folder: Path | None = None) -> Prompt:
    """Return the prompt `name.md`: a folder's own where it has one, else the package's.

    Raises:
        Mistake: the folder's own names a slot that nothing fills.
    """
    ours = Prompt(name, files(package).joinpath("prompts", f"{name}.md").read_text("utf-8").rstrip())
    path = None if folder is None else folder / f"{name}.md"
    if path is None or not path.exists():
        return ours
    theirs = Prompt(name, path.read_text("utf-8").rstrip())
    unknown = sorted(theirs.slots - ours.slots)
    if unknown:
        raise Mistake(
            f"{path} has the unknown slot {{{{{unknown[0]}}}}}; known are {', '.join(sorted(ours.slots)) or 'none'}"
        )
    return theirs


def identity(prompts: Iterable[Prompt]) -> str:
    """Return one id for prompts that are used together."""
    return sha256(" ".join(f"{prompt.name}:{prompt.id}" for prompt in prompts).encode()).hexdigest()[:32]
