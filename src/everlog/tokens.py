"""Sizes: UTF-8 bytes, which every budget inside Everlog counts, and the rough step from tokens to bytes.

Four bytes a token is right for English prose and optimistic for code and other scripts (measured: 2.0 to 3.4 bytes);
ask in bytes where it must be exact. Lone surrogates, which real exports contain, count as the three bytes they are
stored in.
"""

BYTES_PER_TOKEN = 4

MEDIA_BYTES = 4_000
"""What an image or a file counts for; providers count about a thousand tokens."""

FRAME_BYTES = 16
"""What role and quotes of a message count for."""


def utf8(text: str) -> bytes:
    """Encode text as it is stored: UTF-8, lone surrogates kept."""
    return text.encode("utf-8", "surrogatepass")


def text_of(encoded: bytes) -> str:
    """Decode what `utf8` encoded."""
    return encoded.decode("utf-8", "surrogatepass")


def size_bytes(text: str) -> int:
    """Return the number of bytes text takes as UTF-8."""
    return len(text) if text.isascii() else len(utf8(text))


def bytes_for(tokens: int) -> int:
    """Return the byte budget that stands for `tokens` tokens."""
    return tokens * BYTES_PER_TOKEN


def cut(text: str, limit: int) -> str:
    """Return the longest beginning of text that fits in `limit` bytes, never ending inside a character."""
    if size_bytes(text) <= limit:
        return text
    encoded = utf8(text)[: max(0, limit)]
    end = len(encoded)
    while end and encoded[end - 1] & 0xC0 == 0x80:
        end -= 1
    if end:
        lead = encoded[end - 1]
        width = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        end = end - 1 + width if end - 1 + width <= len(encoded) else end - 1
    return text_of(encoded[:end])
