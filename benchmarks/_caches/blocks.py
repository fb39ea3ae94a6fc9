"""What a provider's cache sees of a request: blocks in the order in which they are rendered, and where they end.

A body is read as it is on the wire. Each block knows the digest of all bytes up to its end, marks left out, so that two
requests begin alike exactly as far as their digests are the same. What a block weighs is a fixed count, UTF-8 bytes by
four, the same for every provider and every way of making prompts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from everlog.protocols.shapes import encoded

BYTES_PER_TOKEN = 4

MOST_MARKS = 4
"""As many as Anthropic takes in a request."""

MARKS = ("cache_control", "prompt_cache_breakpoint")

UNMARKABLE = frozenset({"thinking", "redacted_thinking"})


@dataclass(frozen=True, slots=True)
class Block:
    """A tool, a block of the instructions, or one of a message."""

    words: bytes
    """Its bytes without a mark, behind who says it and whether it begins a message."""
    tokens: int
    upto: int
    """Tokens of the prompt up to its end."""
    key: bytes
    """Digest of the prompt up to its end."""
    role: str
    """tools, instructions, system, user, assistant or tool."""
    ends: bool
    """Whether it is the last of its message."""
    mark: str | None = None
    """How long what ends here is to be kept: 5m, 1h, 30m or 12h."""
    is_markable: bool = True
    """Whether Anthropic takes a mark here."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request, as a cache reads it."""

    blocks: tuple[Block, ...]
    is_implicit: bool = True
    """Whether the provider may choose an end of its own for what it keeps."""

    @property
    def tokens(self) -> int:
        """What all of it weighs."""
        return self.blocks[-1].upto if self.blocks else 0


@dataclass(frozen=True, slots=True)
class _Piece:
    """A block before it is weighed."""

    role: str
    value: Any
    begins: bool = True
    ends: bool = True


def parse_anthropic(body: dict[str, Any]) -> Prompt:
    """Return the prompt of a body of Anthropic's Messages.

    A change of model changes all; one of `tool_choice`, `thinking` or `output_config` changes the messages.

    Raises:
        ValueError: more than four marks, or a longer life behind a shorter one: the provider refuses both.
    """
    above = [_Piece("tools", tool) for tool in body.get("tools") or ()] + _message("system", body.get("system"))
    said = [piece for one in body["messages"] for piece in _message(one["role"], one["content"])]
    settings = encoded({name: body.get(name) for name in ("tool_choice", "thinking", "output_config")})
    blocks = _chained(above, _digest(b"", encoded(body.get("model"))), 0)
    blocks += _chained(said, _digest(blocks[-1].key if blocks else b"", settings), blocks[-1].upto if blocks else 0)
    if body.get("cache_control"):
        blocks = _marked_at_its_end(blocks, _life(body["cache_control"]))
    lives = [block.mark for block in blocks if block.mark]
    if len(lives) > MOST_MARKS or "1h" in lives[lives.count("1h") :]:
        raise ValueError(f"the provider refuses these marks: {', '.join(lives)}")
    return Prompt(tuple(blocks), is_implicit=False)


def parse_openai(body: dict[str, Any]) -> Prompt:
    """Return the prompt of a body of Chat Completions or Responses, of whichever provider."""
    pieces = [_Piece("tools", tool) for tool in body.get("tools") or ()]
    pieces += _message("instructions", body.get("instructions"))
    for item in body["messages"] if "messages" in body else body["input"]:
        pieces += _item(item)
    names = ("model", "response_format", "text", "reasoning", "reasoning_effort", "parallel_tool_calls")
    first = _digest(b"", encoded({name: body.get(name) for name in names}))
    options = body.get("prompt_cache_options") or {}
    blocks = tuple(_chained(pieces, first, 0, options.get("ttl", "30m")))
    return Prompt(blocks, is_implicit=options.get("mode", "implicit") == "implicit")


def _item(item: dict[str, Any]) -> list[_Piece]:
    role, kind = item.get("role"), item.get("type", "message")
    if role == "assistant" or (role is None and not kind.endswith("_output")):
        return [_Piece("assistant", item)]
    if role in {"system", "developer", "user"}:
        return _message("user" if role == "user" else "system", item["content"])
    content = item["content"] if role == "tool" else item["output"]
    parts = [_text(content)] if isinstance(content, str) else content
    return _message("tool", [{**part, "of": item.get("tool_call_id") or item.get("call_id")} for part in parts])


def _message(role: str, content: Any) -> list[_Piece]:
    parts = [_text(content)] if isinstance(content, str) else list(content or ())
    last = len(parts) - 1
    return [_Piece(role, part, begins=place == 0, ends=place == last) for place, part in enumerate(parts)]


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _chained(pieces: Sequence[_Piece], key: bytes, upto: int, life: str = "5m") -> list[Block]:
    """Return blocks behind a prefix of which the digest and the tokens are given."""
    blocks: list[Block] = []
    for piece in pieces:
        bare, mark = _bare(piece.value, life)
        words = f"{piece.role}{'^' if piece.begins else ' '}".encode() + encoded(bare)
        tokens = -(-_size(bare, words) // BYTES_PER_TOKEN)
        key, upto = _digest(key, words), upto + tokens
        is_markable = bare.get("type") not in UNMARKABLE
        blocks.append(Block(words, tokens, upto, key, piece.role, piece.ends, mark, is_markable))
    return blocks


def _digest(before: bytes, words: bytes) -> bytes:
    return blake2b(before + words, digest_size=16).digest()


def _size(part: dict[str, Any], words: bytes) -> int:
    text = part.get("text")
    return len(encoded(text)) - 2 if isinstance(text, str) else len(words)


def _bare(part: dict[str, Any], life: str) -> tuple[dict[str, Any], str | None]:
    """Return a block without its mark, and the mark; one on a block inside a result is the result's."""
    mark = next((_life(part[name], life) for name in MARKS if part.get(name)), None)
    bare = {name: value for name, value in part.items() if name not in MARKS} if mark else part
    if part.get("type") == "tool_result" and isinstance(part.get("content"), list):
        inner = [_bare(one, life) for one in part["content"]]
        bare = {**bare, "content": [one for one, _ in inner]}
        mark = mark or next((found for _, found in reversed(inner) if found), None)
    return bare, mark


def _life(mark: dict[str, Any], life: str = "5m") -> str:
    stated = mark.get("ttl", life)
    return stated if isinstance(stated, str) else life


def _marked_at_its_end(blocks: list[Block], life: str) -> list[Block]:
    """Return blocks with a mark on the last that may carry one, as the provider sets it by itself."""
    last = max((place for place, block in enumerate(blocks) if block.is_markable), default=None)
    if last is None or blocks[last].mark:
        return blocks
    return [*blocks[:last], replace(blocks[last], mark=life), *blocks[last + 1 :]]
