"""Wire formats of models, both directions, pure.

In: our conversation and settings, or the parsed JSON of a body, or bytes of a stream. Out: a body to send, or what was
said; from a server's side, what a client asks for, and the answer that it is given. Nothing here opens a connection,
knows a provider, or raises on what a server sends. See `exchange` and `answering` for the words between, `Format` for
what each protocol can do, and decisions 8 and 17 for what is kept.
"""

from everlog.protocols import anthropic, chat_completions, responses
from everlog.protocols.formats import Format

FORMATS: dict[str, Format] = {one.FORMAT.name: one.FORMAT for one in (chat_completions, responses, anthropic)}
"""The protocols by name."""

__all__ = ["FORMATS", "Format"]
