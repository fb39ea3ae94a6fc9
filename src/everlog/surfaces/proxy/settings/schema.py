"""What a file of settings may say of the proxy: each key, its kind and its default.

Names are those of seed 003, so that a file of Infinitum is taken as it stands; ours stand beside them. What is about
learning, facts and embeddings is read and checked here, and acts where those are.
"""

from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct, field

from everlog.access import LEAST_BUDGET, MOST_BUDGET, Mode

Format = Literal["chat_completions", "responses", "anthropic"]
"""The names of `everlog.protocols.FORMATS`."""


class Server(Struct, frozen=True, kw_only=True):
    """Where the proxy listens."""

    host: str = "127.0.0.1"
    port: int = 8788
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"
    body_limit_mb: float = 100
    origins: tuple[str, ...] = ()


class Upstream(Struct, frozen=True, kw_only=True):
    """A server that has models."""

    base_url: str = ""
    api_key: str = ""
    passthrough_authorization: bool = True
    timeout_seconds: float = 600
    connect_seconds: float = 10
    protocols: tuple[Format, ...] = get_args(Format)
    provider: str = ""
    system: Literal["own", "merged", "none"] | None = None
    tools: bool | None = None
    headers: dict[str, str] = field(default_factory=dict)


class NamedUpstream(Upstream, frozen=True, kw_only=True):
    """A further server, for some models."""

    name: str
    models: tuple[str, ...]


class Keys(Struct, frozen=True, kw_only=True):
    """Who may ask."""

    required: bool = False
    one_person: bool = True


class Memory(Struct, frozen=True, kw_only=True):
    """What is kept and shown; the numbers behind `tenant` are about facts."""

    enabled: bool = True
    mode: Mode = "tree"
    budget_tokens: Annotated[int, Meta(ge=LEAST_BUDGET, le=MOST_BUDGET)] = 20_000
    tools: bool = True
    usage: Literal["last", "sum"] = "last"
    database_path: str = "everlog.db"
    tenant: str = "default"
    retrieve_candidates: int = 50
    minimum_retrieval_score: float = 0.18
    minimum_relevance_score: float = 0.08
    inject_max_memories: int = 24
    dedup_similarity: float = 0.88
    reinforce_similarity: float = 0.86
    reinforce_semantic_similarity: float = 0.90
    reinforce_hint_min_score: float = 0.55
    reinforce_hint_min_lexical: float = 0.40
    reinforce_hint_min_semantic: float = 0.72
    supersede_similarity_floor: float = 0.30
    freshness_half_life_days: float = 120
    tools_enabled: bool = False


class Requests(Struct, frozen=True, kw_only=True):
    """How long it is known what each request was."""

    keep_days: Annotated[int, Meta(ge=1, le=36_500)] = 90
    keep_most: Annotated[int, Meta(ge=1)] = 1_000_000


class Context(Struct, frozen=True, kw_only=True):
    """How much of a prompt facts may take."""

    model_context_window: int = 262_144
    reserve_output_tokens: int = 32_768
    reserve_free_tokens: int = 16_384
    max_memory_tokens: int = 100_000
    memory_message_role: Literal["system", "developer"] = "system"
    inject_position: Literal["suffix", "prefix"] = "suffix"


class Learning(Struct, frozen=True, kw_only=True):
    """How facts are learned."""

    enabled: bool = True
    model: str = ""
    base_url: str = ""
    api_key: str = ""
    timeout_seconds: float = 600
    max_tokens: int = 2048
    extra_body: dict[str, object] = field(default_factory=dict)
    poll_interval_seconds: float = 1.0
    max_attempts: int = 5
    skip_when_upstream_busy: bool = False
    upstream_idle_grace_seconds: float = 0
    topic_summaries: bool = True
    topic_summary_min_memories: int = 3
    topic_summary_debounce_seconds: float = 30
    topic_summary_update_threshold: int = 5
    topic_summary_max_changed_memories: int = 24
    topic_summary_context_memories: int = 8
    topic_summary_bootstrap_max_memories: int = 32
    topic_summary_max_tokens: int = 1024
    topic_summary_fallback_memories: int = 12


class Embeddings(Struct, frozen=True, kw_only=True):
    """Who makes vectors."""

    enabled: bool = False
    base_url: str = ""
    api_key: str = ""
    model: str = "text-embedding-3-small"
    timeout_seconds: float = 60


class RequestContext(Struct, frozen=True, kw_only=True):
    """Which headers say who asks, and about what; each list counts after `X-Everlog-*`, in its order."""

    enabled: bool = True
    derive_project_from_cwd: bool = True
    forward_to_headroom: bool = False
    user_affinity_bonus: float = 0.03
    project_affinity_bonus: float = 0.07
    cwd_affinity_bonus: float = 0.01
    session_headers: tuple[str, ...] = ()
    user_headers: tuple[str, ...] = ()
    project_headers: tuple[str, ...] = ()
    cwd_headers: tuple[str, ...] = ()


class RetrievalWeights(Struct, frozen=True, kw_only=True):
    """What counts how much where facts are looked for."""

    semantic: float = 0.45
    lexical: float = 0.18
    importance: float = 0.14
    confidence: float = 0.10
    freshness: float = 0.05
    topic: float = 0.08


class Proxy(Struct, frozen=True, kw_only=True):
    """All of it."""

    server: Server = Server()
    upstream: Upstream = Upstream()
    upstreams: tuple[NamedUpstream, ...] = ()
    keys: Keys = Keys()
    memory: Memory = Memory()
    requests: Requests = Requests()
    request_context: RequestContext = RequestContext()
    context: Context = Context()
    learning: Learning = Learning()
    embeddings: Embeddings = Embeddings()
    retrieval_weights: RetrievalWeights = RetrievalWeights()


ACTING = frozenset({"enabled", "mode", "budget_tokens", "tools", "usage", "database_path", "tenant"})
"""Keys of `memory` that are not about facts."""

WAITING = ("context", "learning", "embeddings", "retrieval_weights")
"""Sections that are checked, and act only where facts are learned."""


def is_waiting(key: str) -> bool:
    """Return whether a key, such as `learning.model`, acts only where facts are learned."""
    section, _, name = key.partition(".")
    return section in WAITING or (section == "memory" and name not in ACTING) or name.endswith("_affinity_bonus")
