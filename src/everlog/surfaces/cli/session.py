"""What every command has in common: the shared options, and the database they lead to."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

import everlog
from everlog.surfaces import config, opening
from everlog.surfaces.config import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One call of `everlog`, as far as its options are the same for every command."""

    db: str | None = None
    tenant: str | None = None
    key_file: Path | None = None
    json: bool = False
    """Whether the answer is to be JSON."""

    def over(self, **given: Any) -> "Session":
        """Return the same with what was given after the command's name, which wins."""
        return replace(self, **{name: value for name, value in given.items() if value})

    @property
    def settings(self) -> Settings:
        """What the options and the environment say."""
        return config.settings(database=self.db, tenant=self.tenant, key_file=self.key_file)

    @property
    def own_files(self) -> list[Path]:
        """The files that must not be written over: the database, and its master keys."""
        settings = self.settings
        return [path for path in (settings.path, settings.key_file) if path is not None]

    def open(self, *, create: bool = False, encrypting: bool = False) -> everlog.Everlog:
        """Open the database; see `opening.opened`."""
        return opening.opened(self.settings, create=create, encrypting=encrypting)


def of(context: typer.Context) -> Session:
    """Return the session that a command runs in."""
    assert isinstance(context.obj, Session)
    return context.obj
