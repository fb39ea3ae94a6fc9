"""Whose caches are compared: models, their prices, the wire formats they are asked in, and their rules."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

from benchmarks._caches.blocks import Prompt, parse_anthropic, parse_openai
from benchmarks._caches.common import Common, Units
from benchmarks._caches.marked import Anthropic, Exact
from benchmarks._caches.use import Use
from everlog.registry import Model, Price, builtin

Marks = Literal["anthropic", "exact", "none"]


class Cache(Protocol):
    """A provider's cache, as one conversation meets it."""

    def ask(self, at_s: float, prompt: Prompt, reply_tokens: int = 0) -> Use:
        """Take in a request at a moment and return what became of its input."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A model whose prompts are cached."""

    name: str
    model: Model
    cache: Callable[[], Cache]

    @property
    def read_share(self) -> float:
        """What reading costs, of reading anew."""
        price = self.model.prices[0]
        return (price.cache_read or 0) / (price.input or 1)


@dataclass(frozen=True, slots=True)
class Wire:
    """Providers that get the same bytes, but for the name of the model."""

    protocol: str
    marks: Marks
    """Which marks they take."""
    parse: Callable[[dict[str, Any]], Prompt]
    served: str
    """As which provider a chat meets them."""
    model: str
    providers: tuple[Provider, ...]


GEMINI = Model(
    id="gemini-3.8-flash",
    provider="google",
    cache_from_tokens=4096,
    prices=(Price(input=0.75, cache_read=0.075, output=3.75),),
)
"""At its price of November 2026; it is not among the models that ship."""


def wires() -> tuple[Wire, ...]:
    """Return all of them, in the order of the table."""
    claude = (_anthropic("Sonnet 5.5", "claude-sonnet-5-5"), _anthropic("Haiku 5.5", "claude-haiku-5-5"))
    terra = Provider("GPT-5.6 terra", builtin().find("gpt-5.6-terra", provider="openai"), Exact)
    older = builtin().find("gpt-5.4", provider="openai")
    deepseek = builtin().find("deepseek-flash", provider="deepseek")
    others = (
        Provider("GPT-5.4", older, partial(Common, minimum=1024, step=128, life_s=300)),
        Provider("Gemini 3.8 Flash", GEMINI, partial(Common, minimum=4096, step=1, life_s=3600)),
        Provider("DeepSeek Flash", deepseek, Units),
    )
    return (
        Wire("anthropic", "anthropic", parse_anthropic, "anthropic", claude[0].model.id, claude),
        Wire("responses", "exact", parse_openai, "openai", terra.model.id, (terra,)),
        Wire("chat_completions", "none", parse_openai, "deepseek", deepseek.id, others),
    )


def _anthropic(name: str, id_: str) -> Provider:
    model = builtin().find(id_, provider="anthropic")
    assert model.cache_from_tokens, "a model whose minimum is known"
    return Provider(name, model, partial(Anthropic, model.cache_from_tokens))
