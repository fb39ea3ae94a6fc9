"""What is known of a model and of a provider."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Dollars for a million tokens, of each kind that is counted apart; None where nobody says."""

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_long: float | None = None
    """For what is kept for the longer of the provider's lives."""
    above_tokens: int = 0
    """It holds for requests of more input tokens than this, those of caches included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model at a provider; None where nobody knows."""

    id: str
    provider: str
    name: str | None = None
    context_tokens: int | None = None
    input_tokens: int | None = None
    """The most input it takes, where that is less than the context."""
    output_tokens: int | None = None
    """The most output it gives."""
    takes: tuple[str, ...] = ()
    """What it takes beside text: image, pdf, audio, video."""
    reasons: bool | None = None
    reasons_by: tuple[str, ...] = ()
    """How its user says how much it reasons: effort, budget; empty where nobody knows."""
    tools: bool | None = None
    schema: bool | None = None
    """Whether its answers can be held to a JSON schema."""
    temperature: bool | None = None
    """Whether it takes a temperature."""
    status: str | None = None
    cache_from_tokens: int | None = None
    """The shortest prompt that the provider caches."""
    prices: tuple[Price, ...] = ()
    """In order of `above_tokens`."""

    def price(self, input_tokens: int) -> Price | None:
        """Return the price for a request of that many input tokens, those of caches included."""
        return next(
            (price for price in reversed(self.prices) if input_tokens > price.above_tokens or not price.above_tokens),
            None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Caching:
    """How a provider caches prompts."""

    models: str = ""
    """A pattern of the ids of models that it holds for."""
    marks: Literal["none", "breakpoints", "blocks"] = "none"
    """What may say where a prompt is to be cached: breakpoints that stay where they are, or blocks that may move."""
    idle_s: float | None = None
    """Silence after which what was cached is certainly gone; None where nobody promises that."""
    long_s: float | None = None
    """The same where it is kept for the longer of the provider's lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Where models are served, and what is particular there."""

    name: str
    base_url: str
    protocols: tuple[str, ...]
    """What it speaks, best first."""
    auth: str = "bearer"
    """The header that carries the key; `bearer` is the Authorization header."""
    key_names: tuple[str, ...] = ()
    """Environment variables in which people keep the key; empty where none is needed."""
    headers: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    """How it spells fields that others spell otherwise."""
    exceptions: tuple[tuple[str, str], ...] = ()
    """Patterns of ids of models, and the protocol for these."""
    caches: tuple[Caching, ...] = ()
    """How it caches prompts; the first that fits a model holds for it."""
    local: bool = False
    """Whether it serves whatever its user has put there."""
