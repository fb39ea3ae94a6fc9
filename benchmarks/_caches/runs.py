"""Requests through providers' caches, counted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from benchmarks._caches.blocks import Block, Prompt
from benchmarks._caches.plans import Request
from benchmarks._caches.providers import Provider, Wire
from benchmarks._caches.use import Use


@dataclass(slots=True)
class Run:
    """What became of all requests of a talk."""

    use: Use = field(default_factory=Use)
    new: float = 0
    """Tokens of input in lines of text that no earlier request had."""
    spent_usd: list[float] = field(default_factory=list)
    """For input, after each request."""
    longest: int = 0
    """Tokens of the longest prompt."""

    @property
    def usd(self) -> float:
        """What all input cost."""
        return self.spent_usd[-1]

    @property
    def cached(self) -> float:
        """The share of all input that was read."""
        return self.use.read / self.use.tokens

    @property
    def cached_again(self) -> float:
        """The share of what was sent again that was read; a reply may be read before it was ever sent."""
        return min(1.0, self.use.read / (self.use.tokens - self.new))

    def add(self, provider: Provider, use: Use, new: float) -> None:
        """Count one request."""
        price = provider.model.price(use.tokens)
        assert price is not None, "a model whose prices are known"
        self.spent_usd.append((self.usd if self.spent_usd else 0) + use.usd(price))
        self.use += use
        self.new += new
        self.longest = max(self.longest, use.tokens)


@dataclass(slots=True)
class _Lines:
    """Lines of text that were sent, and blocks of them."""

    blocks: set[bytes] = field(default_factory=set)
    lines: set[bytes] = field(default_factory=set)

    def new(self, prompt: Prompt) -> float:
        """Return how many tokens of a prompt no earlier one had, and remember them."""
        return sum(self._new(block) for block in prompt.blocks if block.words not in self.blocks)

    def _new(self, block: Block) -> float:
        self.blocks.add(block.words)
        fresh = set(block.words.split(b"\\n")) - self.lines
        self.lines |= fresh
        return block.tokens * min(1.0, sum(map(len, fresh)) / len(block.words))


def run(wire: Wire, requests: Iterable[Request]) -> Mapping[str, Run]:
    """Put requests through the cache of each provider of a wire, in order; return what became of them, by provider."""
    caches = {provider: provider.cache() for provider in wire.providers}
    runs = {provider.name: Run() for provider in wire.providers}
    lines = _Lines()
    for request in requests:
        prompt = wire.parse(request.body)
        new = lines.new(prompt)
        for provider, cache in caches.items():
            runs[provider.name].add(provider, cache.ask(request.at_s, prompt, request.reply_tokens), new)
    return runs
