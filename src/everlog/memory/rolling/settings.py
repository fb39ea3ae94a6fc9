"""When a conversation is compressed and how far: a threshold, a window of plain messages, a cap, and the pieces that it is folded in."""

from dataclasses import dataclass, fields, replace

from everlog.errors import Mistake, expect

CAP_CHARS = 8_000
"""Hard cap of a summary (seed: rolling summary, technical notes)."""

PIECE_BYTES = 24_000
"""What one question holds of the conversation: with a full summary, about 9,000 tokens, which a window of 16k takes."""

_LEAST = {"threshold_tokens": 100, "min_recent": 1, "cap_chars": 500, "piece_bytes": 400}
_LEAST_MAYBE = {"cap_bytes": 500, "room_bytes": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How one thread is compressed. The defaults are the original's."""

    threshold_tokens: int = 8_000
    """Tokens of all messages, characters ÷ 4, above which it is compressed."""
    min_recent: int = 20
    """Newest messages that are always shown as they are."""
    cap_chars: int = CAP_CHARS
    """The most characters that a summary may have, headings included."""
    cap_bytes: int | None = None
    """The most UTF-8 bytes that it may have; None for any."""
    piece_bytes: int = PIECE_BYTES
    """The most UTF-8 bytes of messages that are put into one question."""
    room_bytes: int | None = None
    """What there is room for beside the summary: where messages after it take more, fewer than `min_recent` are left as
    they are. None: there is room for as many as there are."""

    def __post_init__(self) -> None:
        maybe = {name: least for name, least in _LEAST_MAYBE.items() if getattr(self, name) is not None}
        for name, least in (_LEAST | maybe).items():
            value = getattr(self, name)
            expect(value, int, f"`{name}` is an int")
            if value < least:
                raise Mistake(f"`{name}` is at least {least}, not {value}")

    @classmethod
    def for_model(cls, window: int) -> "Settings":
        """Return what is recommended for a model, by its window in tokens.

        Args:
            window: 1M and more is a large cloud model, 400k a medium, 200k a small one; up to 128k a local one, whose
                threshold is an eighth of the window, 4,000 to 16,000.
        """
        expect(window, int, "a window is an int, of tokens")
        for least, threshold, recent in ((1_000_000, 128_000, 30), (400_000, 64_000, 20), (128_001, 32_000, 20)):
            if window >= least:
                return cls(threshold_tokens=threshold, min_recent=recent)
        return cls(threshold_tokens=min(16_000, max(4_000, window // 8)), min_recent=10)

    @property
    def fold_bytes(self) -> int:
        """About how much is folded at once: half a piece, but no more than a quarter of the threshold."""
        return min(self.piece_bytes // 2, self.threshold_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a thread, or a tenant, wants otherwise; None where it wants nothing."""

    threshold_tokens: int | None = None
    min_recent: int | None = None
    cap_chars: int | None = None
    piece_bytes: int | None = None


def resolve(*wishes: Wish, window: int | None = None) -> Settings:
    """Return the settings of a thread.

    Args:
        wishes: the strongest first: the thread's, then its tenant's.
        window: of the model that reads it, in tokens; decides what no wish does. None for the defaults.
    """
    settings = Settings() if window is None else Settings.for_model(window)
    for field in fields(Wish):
        said = next((value for wish in wishes if (value := getattr(wish, field.name)) is not None), None)
        if said is not None:
            settings = replace(settings, **{field.name: said})
    return settings
