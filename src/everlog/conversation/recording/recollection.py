"""What a memory remembers by itself, for the requests that are made while the database is away."""

from collections.abc import Sequence

from everlog.context import Context
from everlog.context.codec import weigh
from everlog.protocols.exchange import Said


class Recollection:
    """The last prompt that was compiled, and what was said since."""

    def __init__(self) -> None:
        self.context: Context | None = None
        self._pieces: tuple[Said, ...] = ()
        """What it had before the user's last message."""
        self._budget = 0
        self._closed: list[Said] = []
        self._open: list[Said] = []

    def budget_bytes(self) -> int | None:
        """Return what memory may take in the newest prompt; None before the first."""
        return None if self.context is None else self.context.epoch.budget

    def begin(self) -> None:
        """Note that a turn begins: what was said so far is no longer the caller's own."""
        self._closed += self._open
        self._open = []

    def keep(self, context: Context, head: int) -> None:
        """Keep a prompt that was compiled, `head` of whose parts are instructions."""
        self.context = context
        pieces = context.said[head:]
        began = max((n for n, said in enumerate(pieces) if _is_users(said)), default=len(pieces))
        self._pieces = pieces[:began]
        self._budget = context.epoch.budget
        self._closed, self._open = [], list(pieces[began:])

    def forget(self) -> None:
        """Forget all of it: some of it was erased."""
        self.context = None
        self._pieces, self._budget = (), 0
        self._closed, self._open = [], []

    def add(self, said: Sequence[Said]) -> None:
        """Keep what was said."""
        self._open += said

    def said(self, head: Sequence[Said], budget: int) -> tuple[Said, ...]:
        """Return the prompt to send: instructions, the memory that was compiled last, and what was said since.

        Of turns that are closed by now the newest are shown, as many as the budget has room for.
        """
        memory = 0 if self.context is None else self.context.memory_bytes
        room = (self._budget or budget) - memory
        kept = len(self._closed)
        while kept and room >= (size := weigh(self._closed[kept - 1])):
            room, kept = room - size, kept - 1
        while 0 < kept < len(self._closed) and not _is_users(self._closed[kept]):
            kept += 1
        return (*head, *self._pieces, *self._closed[kept:], *self._open)


def _is_users(said: Said) -> bool:
    return bool(said.messages) and said.messages[0].kind == "user"
