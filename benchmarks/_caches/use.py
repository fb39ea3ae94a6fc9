"""What became of the input of a request, and what it costs."""

from dataclasses import dataclass

from everlog.registry import Price

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Use:
    """Tokens of input; each is in one of the four."""

    read: int = 0
    uncached: int = 0
    written: int = 0
    written_long: int = 0
    """Written to be kept for the longer of the provider's lives."""

    def __add__(self, other: "Use") -> "Use":
        return Use(
            self.read + other.read,
            self.uncached + other.uncached,
            self.written + other.written,
            self.written_long + other.written_long,
        )

    @property
    def tokens(self) -> int:
        """All of it."""
        return self.read + self.uncached + self.written + self.written_long

    def usd(self, price: Price) -> float:
        """Return what it costs; where writing has no price of its own it costs what reading anew does."""
        anew = price.input or 0.0
        write = anew if price.cache_write is None else price.cache_write
        long = write if price.cache_write_long is None else price.cache_write_long
        read = anew if price.cache_read is None else price.cache_read
        parts = self.read * read + self.uncached * anew + self.written * write + self.written_long * long
        return parts / MILLION
