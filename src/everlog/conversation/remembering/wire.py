"""What a client said on the wire, beside the entries that stand for it: the blocks that the log's words do not give again.

Pure, but for what is redacted: of a message from which something was taken out nothing is held, since its blocks would
bring that back.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from everlog.context import Held
from everlog.conversation.alignment.references import references
from everlog.log import Print
from everlog.messages import JSON, Message
from everlog.protocols import FORMATS
from everlog.protocols.exchange import MODEL, Raw, Said
from everlog.protocols.plain import is_plain
from everlog.protocols.shapes import array, record

MARKS = ("cache_control", "prompt_cache_breakpoint")
"""Fields that end what is to be cached: they move from request to request, and where they stand is ours to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """The history of a request as it came."""

    said: tuple[Said, ...]
    """All of it: each the raw blocks of one wire message or run of items, and what the log has of it."""
    redacted: frozenset[int]
    """Numbers of the messages in which something was redacted."""

    @classmethod
    def of(cls, said: Sequence[Said], redact: Callable[[Message], Message]) -> "Wire":
        """Return a history.

        Args:
            said: the history, its messages without what a client put into them.
            redact: what is applied to each message before it is stored.
        """
        messages = (message for one in said for message in one.messages)
        return cls(said=tuple(said), redacted=frozenset(n for n, one in enumerate(messages) if redact(one) != one))

    @property
    def leading(self) -> tuple[Said, ...]:
        """The instructions at its beginning."""
        return self.said[: _leading(self.said)]

    def own(self, prints: Sequence[Print], there: Sequence[Print], start: int, open_at: int) -> tuple[Held, ...]:
        """Return what the turn that is open is in the client's own blocks, where those say more than the log's words.

        Where the turn begins beside results of tools, the round of those is part of it.

        Args:
            prints: those of the history, without the instructions at its beginning.
            there: those of the thread's newest entries.
            start: the position of the first of these.
            open_at: where the turn begins.
        """
        same = _same_at_end(prints, there)
        end = n = sum(len(said.messages) for said in self.said)
        found: list[Held] = []
        after: Said | None = None
        for said in reversed(self.said):
            n -= len(said.messages)
            position = start + len(there) - end + n
            is_round = after is not None and after.messages[0].kind == "tool_result" and said.messages[0].kind in MODEL
            if n < end - same or not (position + len(said.messages) > open_at or is_round):
                break
            if (held := self._held(said, n, position)) is not None:
                found.append(held)
            after = said
        return tuple(reversed(found))

    def _held(self, said: Said, n: int, position: int) -> Held | None:
        numbers = range(n, n + len(said.messages))
        if said.raw is None or not self.redacted.isdisjoint(numbers) or said.messages[0].kind == "system":
            return None
        if any(map(references, said.messages)):
            return None
        raw = replace(said.raw, items=tuple(map(without_marks, said.raw.items)))
        if _is_told(said.messages, raw):
            return None
        held = Said(messages=said.messages, raw=raw)
        return Held(position=position, n=0, kind="own", covers=len(numbers), said=(held,))


def without_marks(item: JSON) -> JSON:
    """Return a wire message, item or block without marks of what is to be cached."""
    if not isinstance(item, dict):
        return item
    kept: dict[str, JSON] = {name: value for name, value in item.items() if name not in MARKS}
    for name in ("content", "output"):
        if isinstance(kept.get(name), list):
            kept[name] = [without_marks(one) for one in array(kept[name])]
    return kept


def _leading(said: Sequence[Said]) -> int:
    count = 0
    for one in said:
        if any(message.kind != "system" for message in one.messages):
            break
        count += 1
    return count


def _same_at_end(prints: Sequence[Print], there: Sequence[Print]) -> int:
    """Return how many messages at the end of two histories are the same."""
    count = 0
    for new, old in zip(reversed(prints), reversed(there), strict=False):
        if new.fp != old.fp:
            break
        count += 1
    return count


def _is_told(messages: Sequence[Message], raw: Raw) -> bool:
    """Whether the log's words say all that blocks do."""
    if messages[0].kind in MODEL:
        return is_plain(raw)
    body = FORMATS[raw.protocol].with_history({"messages": [], "input": []}, [Said(messages=tuple(messages))])
    rendered = array(body["input" if raw.protocol == "responses" else "messages"])
    return list(map(_plain, rendered)) == list(map(_plain, raw.items))


def _plain(item: JSON) -> JSON:
    """Return a wire message or item as one form of several that say the same."""
    if isinstance(item, str):
        return {"role": "user", "content": [item]}
    shape = {name: value for name, value in record(item).items() if name not in ("id", "status")}
    if shape.get("type") == "message":
        del shape["type"]
    for name in ("content", "output"):
        if name in shape:
            inner = shape[name]
            shape[name] = [inner] if isinstance(inner, str) else [_words(one) for one in array(inner)]
    return shape


def _words(part: JSON) -> JSON:
    """Return the words of a text, and any other part with its own content in one form."""
    shape = record(part)
    is_text = shape.get("type") in ("text", "input_text") and shape.keys() == {"type", "text"}
    return shape["text"] if is_text else _plain(part)
