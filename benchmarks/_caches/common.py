"""Caches without marks, which find what requests have in common: Gemini's, OpenAI's before GPT-5.6, DeepSeek's."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from benchmarks._caches.blocks import Block, Prompt
from benchmarks._caches.use import Use


@dataclass(slots=True)
class Seen:
    """Earlier requests, by what they begin with."""

    life_s: float
    """How long after its last use a prefix is kept."""
    used_at: dict[bytes, float] = field(default_factory=dict)
    """When a prefix was last used, by its digest."""
    followers: dict[bytes, dict[bytes, bytes]] = field(default_factory=dict)
    """The blocks that came behind a prefix: their words by the digest with them."""

    def shared(self, prompt: Prompt, at_s: float) -> tuple[int, int]:
        """Return how many whole blocks some earlier request begins with too, and how many bytes of the next."""
        before = b""
        for place, block in enumerate(prompt.blocks):
            if not self._lives(block.key, at_s):
                others = self.followers.get(before, {}).items()
                return place, _longest(block.words, (words for key, words in others if self._lives(key, at_s)))
            before = block.key
        return len(prompt.blocks), 0

    def add(self, prompt: Prompt, at_s: float) -> None:
        """Take in a request; what it begins with is used once more."""
        before = b""
        for block in prompt.blocks:
            self.used_at[block.key] = at_s
            self.followers.setdefault(before, {})[block.key] = block.words
            before = block.key

    def _lives(self, key: bytes, at_s: float) -> bool:
        return key in self.used_at and at_s - self.used_at[key] <= self.life_s


def _longest(words: bytes, others: Iterable[bytes]) -> int:
    """Return the most bytes that one of the others begins with too."""
    best = 0
    for other in others:
        high = min(len(words), len(other)) if other.startswith(words[: best + 1]) else best
        while best < high:
            middle = (best + high + 1) // 2
            if other.startswith(words[:middle]):
                best = middle
            else:
                high = middle - 1
    return best


def _reach(prompt: Prompt, place: int, more: int) -> int:
    """Return the tokens of so many whole blocks and so many bytes of the next, rounded down."""
    whole = prompt.blocks[place - 1].upto if place else 0
    if not more:
        return whole
    block = prompt.blocks[place]
    return whole + block.tokens * more // len(block.words)


class Common:
    """The longest prefix that an earlier request has too, from a minimum on, in whole steps.

    Gemini promises nothing: this is the best that it may do. OpenAI before GPT-5.6 counts in steps.
    """

    def __init__(self, *, minimum: int, step: int, life_s: float) -> None:
        """Be a cache that reads no fewer than `minimum` tokens, in steps of `step`, so long after their last use."""
        self.minimum, self.step = minimum, step
        self.seen = Seen(life_s)

    def ask(self, at_s: float, prompt: Prompt, reply_tokens: int = 0) -> Use:  # noqa: ARG002 -- as all caches are asked
        """Take in a request and return what became of its input; what was answered is not kept."""
        read = _reach(prompt, *self.seen.shared(prompt, at_s))
        read -= read % self.step
        self.seen.add(prompt, at_s)
        read = read if read >= self.minimum else 0
        return Use(read, prompt.tokens - read)


class Units:
    """DeepSeek's: only whole stored units are read.

    A unit ends where a request's input ends, where its output ends, and where two requests were found to part: so the
    third one reads what all have in common. Units at fixed steps of long input are left out, since nobody says how long
    the steps are.
    """

    def __init__(self, life_s: float = 7200) -> None:
        """Be an empty cache that keeps a unit so long after its last use."""
        self.seen = Seen(life_s)
        self.replies: dict[bytes, int] = {}
        """Ends of input, and the tokens of the output behind."""
        self.partings: dict[bytes, set[bytes]] = {}
        """Where requests parted: the beginnings of the block behind a prefix; an empty one is the prefix itself."""

    def ask(self, at_s: float, prompt: Prompt, reply_tokens: int = 0) -> Use:
        """Take in a request, with the tokens that were answered, and return what became of its input."""
        place, more = self.seen.shared(prompt, at_s)
        read = max(self._units(prompt, place), default=0)
        before = prompt.blocks[place - 1].key if place else b""
        if self.seen.followers.get(before) and place < len(prompt.blocks) and (place or more):
            self.partings.setdefault(before, set()).add(prompt.blocks[place].words[:more])
        self.replies[prompt.blocks[-1].key] = reply_tokens
        self.seen.add(prompt, at_s)
        return Use(read, prompt.tokens - read)

    def _units(self, prompt: Prompt, place: int) -> Iterable[int]:
        """Yield the tokens of each unit with which a request begins, of which so many blocks were seen before."""
        before = b""
        for n, block in enumerate(prompt.blocks[: place + 1]):
            yield from (
                _reach(prompt, n, len(begun))
                for begun in self.partings.get(before, ())
                if block.words.startswith(begun)
            )
            if n < place and block.key in self.replies:
                yield block.upto + self._replied(prompt.blocks[n + 1 :], self.replies[block.key])
            before = block.key

    @staticmethod
    def _replied(behind: tuple[Block, ...], most: int) -> int:
        """Return the tokens of what the assistant says right behind, if that is what it answered."""
        tokens = 0
        for block in behind:
            if block.role != "assistant":
                break
            tokens += block.tokens
        return tokens if tokens <= most else 0
