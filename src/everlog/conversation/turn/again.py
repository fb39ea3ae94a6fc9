"""Asking again where an answer failed or broke off: what the model is told, and what the caller is."""

from everlog.chat.pending import last_said
from everlog.chat.state import State
from everlog.messages import Message
from everlog.protocols.exchange import Said

AGAIN = "[The answer above broke off. Answer the user's last message again, from the beginning.]"

SAID = Said(messages=(Message(kind="user", text=AGAIN),))
"""What follows words of an answer that broke off: models do not go on with their own last words, and some refuse to."""

ADVICE = "what was said is kept; resume() of the memory asks again, turn(…) goes on with other words"


def breaks_off(state: State) -> bool:
    """Return whether a prompt ends with words of an answer, and no calls."""
    last = last_said(state.messages)
    return last is not None and last.role == "assistant" and not last.calls


def advise(error: BaseException) -> None:
    """Say with an error how to go on."""
    if isinstance(error, Exception) and ADVICE not in getattr(error, "__notes__", ()):
        error.add_note(ADVICE)
