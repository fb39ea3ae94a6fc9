"""Callbacks: what a chat tells of itself while it works. They add up, and are called in the order of their coming."""

from typing import Self

from everlog.chat.state import Hook, State
from everlog.errors import Mistake


class Hooks:
    """What is called, and when."""

    def __init__(self, state: State) -> None:
        self._state = state

    def before_message(self, call: Hook | None) -> Self:
        """Call this before a reply or a result is added."""
        return self._on("before_message", call)

    def after_message(self, call: Hook | None) -> Self:
        """Call this with each reply and each result, once it is added."""
        return self._on("after_message", call)

    def before_tool_call(self, call: Hook | None) -> Self:
        """Call this with each `ToolCall` before its tool runs."""
        return self._on("before_tool_call", call)

    def after_tool_result(self, call: Hook | None) -> Self:
        """Call this with what a tool returned."""
        return self._on("after_tool_result", call)

    def before_fallback(self, call: Hook | None) -> Self:
        """Call this with a `Fallback` before another model is tried."""
        return self._on("before_fallback", call)

    def after_fallback(self, call: Hook | None) -> Self:
        """Call this with a `Fallback` once the other model has answered or failed."""
        return self._on("after_fallback", call)

    def before_request(self, call: Hook | None) -> Self:
        """Call this with the body of each request, which it may change, before it is sent."""
        return self._on("before_request", call)

    def _on(self, moment: str, call: Hook | None) -> Self:
        if call is not None:
            if not callable(call):
                raise Mistake(f"{moment} takes a function, not {type(call).__name__}")
            self._state.hooks[moment].append(call)
        return self
