"""How many tokens the next request has, as the provider itself counts them."""

from dataclasses import replace
from typing import Any

from everlog.chat.attempts import fetch
from everlog.chat.effects import Program
from everlog.chat.message import ChatMessage, as_message, user_message
from everlog.chat.requests import prepared_of, said_of, settings_of
from everlog.chat.state import State
from everlog.errors import BadReply, Mistake
from everlog.protocols import FORMATS
from everlog.protocols.shapes import count

PLACES: dict[str, tuple[str, frozenset[str]]] = {
    "anthropic": (
        "/messages/count_tokens",
        frozenset({"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"}),
    ),
    "responses": (
        "/responses/input_tokens",
        frozenset(
            {"model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "text", "reasoning"}
        ),
    ),
}
"""Where the tokens of a request are counted, and which of its fields that wants."""


def count_tokens(state: State, message: Any = None) -> Program[int]:
    """Ask the provider how many tokens the conversation has, with a message that is not said yet; the chat stays as it is.

    Instructions, tools, schema, thinking and attachments count; provider options and callbacks do not.

    Raises:
        Mistake: the protocol has no way to count.
    """
    protocol = state.route.protocol
    if protocol not in PLACES:
        raise Mistake(f"{protocol} has no way to count tokens; protocols that have are {', '.join(PLACES)}")
    path, fields = PLACES[protocol]
    staged = [] if message is None else [_staged(message)]
    history = said_of(state, staged)
    settings = replace(settings_of(state), options={}, caching=None, end_user=None)
    body = FORMATS[protocol].render_request(history, settings)
    asked = replace(
        prepared_of(state, {name: value for name, value in body.items() if name in fields}),
        path=path,
        purpose="count_tokens",
    )
    answer = yield from fetch(asked, ledger=state.ledger, cancel=state.cancel, clock=state.config.clock)
    found = count(answer.get("input_tokens"))
    if found is None:
        raise BadReply("the provider did not say how many tokens there are")
    return found


def _staged(message: Any) -> ChatMessage:
    return user_message(message) if isinstance(message, str) else as_message(message)
