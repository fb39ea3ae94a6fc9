"""What a model is asked for one node: one conversation, the same for the same stretch of the log, whoever asks and when.

First the rules, then the canonical view, both the same for eight messages in a row, so that they are read from a
provider's cache; then what came since, and the source. A further try goes on in the same conversation.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from everlog.memory.escapes import enclose, fence
from everlog.memory.interface import Request, Try
from everlog.memory.prompts import Prompt, identity, load
from everlog.memory.tree.lines import LIMIT_BYTES, Line, flatten, parse_tag
from everlog.messages import Message
from everlog.tokens import cut

CONTEXT_BYTES = 24_000
"""Budget of the view that a model sees, in UTF-8 bytes, before `<input` in it is escaped: its own, whatever a reader of
the thread sees."""

MARK = "⟦limit⟧"
"""Stands, in what a model is told of its own answer, where the limit was."""

_NONE = "(none)"
_SHARED = 2
"""Messages with which the requests of a whole block of eight begin: the rules, and the view."""
_REPLY_SHOWN = 4
"""How many times the limit of a model's own answer it is shown again."""

_PACKAGE = "everlog.memory.tree"


@dataclass(frozen=True, slots=True)
class Prompts:
    """The words in which a model is asked."""

    system: Prompt
    leaf: Prompt
    merge: Prompt
    retry: Prompt

    @property
    def id(self) -> str:
        """Stored with every node that was made with them."""
        return identity((self.system, self.leaf, self.merge, self.retry))


@dataclass(frozen=True, slots=True)
class Context:
    """What is shown beside a source; a function of the log before its end, never of when it is asked."""

    view: str
    """The canonical view of what comes before the source's block of eight."""
    since: tuple[str, ...] = ()
    """Messages of the block before the source, clipped, as lines of a view."""
    finer: tuple[str, ...] = ()
    """What a merge's two halves were made of, as lines of a view."""
    call: str | None = None
    """The call that a tool's result answers."""


def prompts(folder: Path | None = None) -> Prompts:
    """Return the prompts of the tree; files of the same names in a folder replace them.

    Raises:
        Mistake: a file there has an unknown slot.
    """
    return Prompts(*(load(_PACKAGE, name, folder) for name in ("system", "leaf", "merge", "retry")))


def request(words: Prompts | None, given: Line, made: Line, context: Context | None) -> Request:
    """Return the first request for a node.

    Args:
        words: what to ask with; None for a compactor that reads the source alone.
        given: the source as a compactor without a model takes it: a result with its call before it.
        made: the source.
        context: what is shown beside it.
    """
    source = []
    for tag, said in given.pieces:
        kind, author = parse_tag(tag)
        source.append(Message(kind=kind, text=said, author=author))
    if words is None or context is None:
        return Request(source=tuple(source), limit_bytes=LIMIT_BYTES)
    values = {
        "since": fence("\n".join(context.since)) or _NONE,
        "source": enclose(made.text),
        "size": made.size_bytes,
        "limit": LIMIT_BYTES,
        "ruler": "-" * LIMIT_BYTES,
    }
    if context.finer:
        task = words.merge.render(**values, finer=fence("\n".join(context.finer)))
    else:
        call = "" if context.call is None else f"\nIt is the result of this call:\n{fence(context.call)}\n"
        task = words.leaf.render(**values, call=call)
    messages = (
        Message(kind="system", text=words.system.render()),
        Message(kind="user", text=fence(context.view)),
        Message(kind="user", text=task),
    )
    return Request(source=tuple(source), messages=messages, shared=_SHARED, limit_bytes=LIMIT_BYTES)


def further(words: Prompts | None, first: Request, tries: Sequence[Try]) -> Request:
    """Return the request that carries earlier tries along: each answer, and what is wrong with it."""
    if words is None or not first.messages or not tries:
        return first
    messages = list(first.messages)
    for attempt in tries:
        if attempt.text:
            messages.append(Message(kind="assistant", text=cut(enclose(attempt.text), _REPLY_SHOWN * LIMIT_BYTES)))
        said = words.retry.render(
            reason=attempt.reason or "it cannot be used",
            size=attempt.size_bytes,
            limit=LIMIT_BYTES,
            line=f"{cut(enclose(flatten(attempt.text)), LIMIT_BYTES)}{MARK}" if attempt.text else _NONE,
        )
        messages.append(Message(kind="user", text=said))
    return replace(first, messages=tuple(messages))
