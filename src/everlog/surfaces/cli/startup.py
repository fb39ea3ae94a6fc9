"""What `everlog serve` says when it is ready: where it is, in front of whom, what it keeps and where, and who gets in."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from everlog.access import Mode
from everlog.memory.interface import Compactor
from everlog.surfaces.config import Settings
from everlog.surfaces.proxy.settings.configured import Configured

_DOES = {
    "off": "nothing is kept",
    "record": "each conversation is kept",
    "rolling": "each conversation is kept; of one that outgrows {budget:,} tokens, a summary goes up",
    "tree": "each conversation is kept; of one that outgrows {budget:,} tokens, a view goes up",
}
_WIDTH = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server of models."""

    name: str
    host: str
    """Where it is, without path and credentials."""
    models: tuple[str, ...]
    """Patterns of those that go there; none where all others do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """A proxy that is ready."""

    base_url: str
    """What a client is given."""
    mode: Mode
    budget_tokens: int
    """How much of a prompt memory may take."""
    builder: str | None
    """What makes lines or summaries of it, code or a model, to which words go then; None where nobody does here."""
    upstreams: tuple[Server, ...]
    database: str | None
    """The whole path of its file, or the address of a server's without a password; None where none is open."""
    settings: str | None
    """The file of settings; None where there is none."""
    needs_keys: bool
    """Whether callers on this machine need a key as well."""

    def document(self) -> dict[str, Any]:
        """Return it for programs."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """Yield it for people."""
        root = self.base_url.removesuffix("/v1")
        yield f"{self.base_url} is the base URL for clients; {root} for those of Anthropic"
        for label, said in (
            ("models", "; ".join(map(_place, self.upstreams))),
            ("mode", f"{self.mode}: {_DOES[self.mode].format(budget=self.budget_tokens)}"),
            ("lines" if self.mode == "tree" else "summaries", self._built),
            ("database", self.database or "none"),
            ("settings", self.settings or "no file"),
            ("keys", "needed: `everlog keys create`" if self.needs_keys else "not needed on this machine"),
            ("look", f"{root}/everlog/v1" if self.database else None),
        ):
            if said is not None:
                yield f"{label:<{_WIDTH}}{said}"

    @property
    def _built(self) -> str | None:
        """Who makes what stands for older words, for people; None where nothing is made."""
        match self.mode:
            case "tree":
                return f"by {self.builder}" if self.builder else "by nobody here: `everlog worker` makes them"
            case "rolling":
                return f"by {self.builder}" if self.builder else "by nobody here: name a model in [compactor]"
            case _:
                return None


def started(
    address: str, found: Configured, file: Path | None, settings: Settings, *, compactor: Compactor | None
) -> Startup:
    """Return what a proxy is, which listens at an address, and has something to build lines and summaries."""
    writes = compactor is not None and (found.mode != "rolling" or not getattr(compactor, "inline", False))
    path = settings.path
    database = settings.shown if path is None else str(path.absolute())
    return Startup(
        base_url=f"{address}/v1",
        mode=found.mode,
        budget_tokens=found.proxy.memory.budget_tokens,
        builder=compactor.model if compactor is not None and writes else None,
        upstreams=tuple(
            Server(name=one.name, host=_host(one.base_url), models=one.models) for one in found.options().targets
        ),
        database=database if found.needs_database else None,
        settings=None if file is None else str(file.absolute()),
        needs_keys=found.needs_keys,
    )


def _host(address: str) -> str:
    return urlsplit(address).netloc.rpartition("@")[2]


def _place(server: Server) -> str:
    patterns = f" for {', '.join(server.models)}" if server.models else ""
    return f"{server.host} ({server.name}){patterns}"
