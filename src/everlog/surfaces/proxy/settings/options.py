"""What the proxy is told to do, as values. Reading them from files and the environment is the business of `surfaces.config`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from everlog.access import Mode, expect_budget
from everlog.errors import Mistake, expect_number
from everlog.protocols import FORMATS
from everlog.registry import builtin

System: TypeAlias = Literal["own", "merged", "none"]
"""How a server takes system messages: anywhere and several; one, at the front; none."""

IDENTITY_HEADERS = (
    "x-opencode-user-id",
    "x-opencode-user",
    "x-headroom-user-id",
    "x-litellm-user-id",
    "x-opencode-project-id",
    "x-opencode-project",
    "x-headroom-project-id",
    "x-opencode-directory",
    "x-opencode-cwd",
    "x-headroom-cwd",
)
"""Names by which clients tell a proxy who asks and from where; meant for us, so they do not go up."""

MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An upstream: a server that has models."""

    name: str = "default"
    """By which errors and logs call it; its address is in neither."""
    base_url: str
    """What a client would take as its base URL; `/v1` is added where it has no path."""
    key: str | None = field(default=None, repr=False)
    """The key that is held for it; None where clients bring their own."""
    passes_credentials: bool = True
    """Whether a client's own credential goes up, before the key that is held; without it the held key alone does."""
    protocols: tuple[str, ...] = tuple(FORMATS)
    """The wire formats it speaks."""
    provider: str | None = None
    """The provider whose prices hold there, where its address does not say so."""
    models: tuple[str, ...] = ()
    """Patterns of the models it has, such as `claude-*`; the first target without one takes all others."""
    system: System | None = None
    """How it takes system messages; None to find out."""
    tools: bool | None = None
    """Whether its models are offered tools of memory; None to find out whether they take them."""
    headers: tuple[tuple[str, str], ...] = ()
    """Headers that every request to it gets, in the place of the client's of that name."""
    connect_s: float = 10
    """How long a connection may take to be made, in seconds."""
    silence_s: float = 600
    """How long nothing may come, before an answer or in it, in seconds."""

    def __post_init__(self) -> None:
        if not _is_base(self.base_url):
            raise Mistake(
                f"the base URL of upstream {self.name} begins with neither http:// nor https://, or is no address without a query"
            )
        unknown = set(self.protocols) - set(FORMATS)
        if unknown or not self.protocols:
            raise Mistake(
                f"upstream {self.name} speaks {', '.join(sorted(unknown)) or 'nothing'}; choose of {', '.join(FORMATS)}"
            )
        if self.provider is not None:
            builtin().provider(self.provider)
        for name in ("connect_s", "silence_s"):
            expect_number(getattr(self, name), f"{name} of upstream {self.name}")

    @property
    def base(self) -> str:
        """The address before the part of a path that follows `/v1`."""
        base = self.base_url.rstrip("/")
        return base if urlsplit(base).path else f"{base}/v1"


def _is_base(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not match, or a port that is none
        return False
    is_plain = not (parts.query or parts.fragment or any(one.isspace() for one in url))
    return parts.scheme in {"http", "https"} and is_whole and is_plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """All that the proxy is told."""

    targets: tuple[Target, ...]
    """The upstreams; one without patterns is the default, the first of them if there are several."""
    mode: Mode = "off"
    """off: relays, keeps nothing. record: relays, and keeps each conversation. rolling, tree: and lets what outgrew the
    budget go up as a summary, or as a view of a tree of lines. A request and a key may say otherwise, see `wanted`."""
    budget_tokens: int = 20_000
    """How much of a prompt memory may take."""
    memory_tools: bool = True
    """Whether models are offered tools by which they look into memory."""
    usage: Literal["last", "sum"] = "last"
    """Which input tokens a client is told of an answer that took several rounds: those of the last, or of all."""
    body_bytes: int = 100 * MB
    """The largest body of a request that is taken."""
    origins: tuple[str, ...] = ()
    """Web pages that may call, such as `https://chat.example`, or `*`; pages of this machine always may."""
    identity_headers: tuple[str, ...] = IDENTITY_HEADERS
    """Names of headers beside `x-everlog-*` that are for the proxy alone."""
    forward_to_headroom: bool = False
    """Whether upstreams are told who asks, in the headers of Headroom."""
    aliases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Further names of headers that say who asks, by field."""

    def __post_init__(self) -> None:
        if not self.targets:
            raise Mistake("the proxy has no upstream; name one")
        names = [target.name for target in self.targets]
        if len(set(names)) < len(names):
            raise Mistake(f"two upstreams have one name: {', '.join(sorted(names))}")
        if all(target.models for target in self.targets):
            raise Mistake("each upstream has patterns of models; one without is needed for all other models")
        expect_number(self.body_bytes, "body_bytes", whole=True)
        expect_budget(self.budget_tokens, "budget_tokens")
