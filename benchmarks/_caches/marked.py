"""Caches that keep what ends at a mark: Anthropic's, and OpenAI's since GPT-5.6.

Both match whole prefixes, to the byte. They differ in where a request looks for what an earlier one wrote: Anthropic
walks back from each mark, OpenAI tries marks and ends of messages only.

Where the providers leave it open, it is taken against us: an entry lives on only if it is the one that is read, or is
marked again. OpenAI may keep an entry for longer than it says; here it is gone then.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks._caches.blocks import Block, Prompt
from benchmarks._caches.use import Use

LIVES_S = {"5m": 300.0, "1h": 3600.0, "30m": 1800.0, "12h": 43_200.0}

LONG = frozenset({"1h", "12h"})

LOOK_BACK = 20
"""Blocks at which Anthropic looks for each mark; the marked one is the first."""

FIRST_MARKS, LATEST_MARKS = 2, 50
"""Marks at which OpenAI looks. Its reference speaks of the latest 80; its guide, which is the narrower, of these."""

EARLIER_ENDS = 20
"""Ends of earlier messages at which OpenAI looks by itself."""

WRITES = 4
"""Entries that a request to OpenAI may write, the end that is chosen for it included."""


@dataclass(slots=True)
class Entries:
    """What is kept: ends of prefixes, with the life they were written for and the moment until which they live."""

    kept: dict[bytes, tuple[str, float]] = field(default_factory=dict)

    def live(self, block: Block, at_s: float) -> bool:
        """Whether what ends with this block can be read."""
        return block.key in self.kept and at_s <= self.kept[block.key][1]

    def touch(self, block: Block, at_s: float, life: str) -> None:
        """Keep what ends with this block from now on: for the life it has, or for this one if it is new."""
        if self.live(block, at_s):
            life = self.kept[block.key][0]
        self.kept[block.key] = life, at_s + LIVES_S[life]

    def settle(self, prompt: Prompt, at_s: float, looked: Sequence[Block], writes: Sequence[tuple[Block, str]]) -> Use:
        """Read the longest entry at which is looked, then write, in order, what ends at each mark behind it."""
        hit = max((block for block in looked if self.live(block, at_s)), key=lambda block: block.upto, default=None)
        read = reached = hit.upto if hit else 0
        if hit:
            self.touch(hit, at_s, self.kept[hit.key][0])
        written = {False: 0, True: 0}
        for block, life in writes:
            self.touch(block, at_s, life)
            new = max(0, block.upto - reached)
            written[life in LONG] += new
            reached += new
        return Use(read, prompt.tokens - reached, written[False], written[True])


class Anthropic:
    """Four marks, 5 minutes or an hour from the last hit, a look-back of twenty blocks from each mark.

    Calls in a row, and results in a row, may count as one block by now; here each counts.
    """

    def __init__(self, minimum: int) -> None:
        """Be the empty cache of a model that keeps no fewer than `minimum` tokens."""
        self.minimum = minimum
        self.entries = Entries()

    def ask(self, at_s: float, prompt: Prompt, reply_tokens: int = 0) -> Use:  # noqa: ARG002 -- as all caches are asked
        """Take in a request and return what became of its input."""
        blocks = prompt.blocks
        marks = [(n, block.mark) for n, block in enumerate(blocks) if block.mark and block.upto >= self.minimum]
        looked = [block for n, _ in marks for block in blocks[max(0, n + 1 - LOOK_BACK) : n + 1]]
        return self.entries.settle(prompt, at_s, looked, [(blocks[n], life) for n, life in marks])


class Exact:
    """OpenAI's since GPT-5.6: the caller's marks, and in implicit mode the newest end of a message of the user or a tool.

    Read is what was written at a mark, at that end, at one of the twenty ends before it, or at the end of the developer
    messages that come first. What the assistant says carries no mark, and ends nothing.
    """

    def __init__(self, minimum: int = 1024) -> None:
        """Be an empty cache that keeps no fewer than `minimum` tokens."""
        self.minimum = minimum
        self.entries = Entries()

    def ask(self, at_s: float, prompt: Prompt, reply_tokens: int = 0) -> Use:  # noqa: ARG002 -- as all caches are asked
        """Take in a request and return what became of its input."""
        marks = [block for block in prompt.blocks if block.mark and block.role in {"system", "user", "tool"}]
        ends = list(_ends(prompt)) if prompt.is_implicit else []
        looked = [*marks[:FIRST_MARKS], *marks[-LATEST_MARKS:], *ends[-1 - EARLIER_ENDS :]]
        looked += [block for block in ends[:1] if block.role == "system"]
        own = ends[-1:]
        writes = {block.upto: (block, "30m") for block in own}
        writes |= {block.upto: (block, block.mark or "30m") for block in marks[len(own) - WRITES :]}
        kept = [writes[upto] for upto in sorted(writes) if upto >= self.minimum]
        return self.entries.settle(prompt, at_s, looked, kept)


def _ends(prompt: Prompt) -> Iterator[Block]:
    """Yield the ends of messages at which OpenAI reads and writes by itself."""
    blocks = prompt.blocks
    is_first = True
    for block, follower in zip(blocks, (*blocks[1:], None), strict=True):
        behind = follower.role if follower else ""
        is_first = is_first and block.role in {"tools", "instructions", "system"}
        is_last_result = block.role == "tool" and behind != "tool"
        is_last_instruction = block.role == "system" and is_first and behind != "system"
        if block.ends and (block.role == "user" or is_last_result or is_last_instruction):
            yield block
