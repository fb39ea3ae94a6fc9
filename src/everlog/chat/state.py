"""All that a chat is, between two of its moves: what was said, what is set, what was decided."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Literal, TypeAlias

from everlog.chat.cancel import Cancel
from everlog.chat.effects import Invoke, Program
from everlog.chat.ledger import Ledger
from everlog.chat.message import ChatMessage
from everlog.chat.options import ToolOptions, concurrency_of
from everlog.chat.pending import Approvals
from everlog.chat.provider_tools import ProviderTool
from everlog.chat.retries import TRANSIENT
from everlog.chat.routes import ChatConfig, Route
from everlog.chat.tools import Tool
from everlog.messages import JSON
from everlog.protocols.exchange import Schema, Thinking

Hook: TypeAlias = Callable[..., Any]

MOMENTS = (
    "before_message",
    "after_message",
    "before_tool_call",
    "after_tool_result",
    "before_fallback",
    "after_fallback",
    "before_request",
)
"""When callbacks are called."""


_KEPT = ("fallbacks", "fallback_errors", "temperature", "max_output_tokens", "thinking", "caching", "end_user")


class State:
    """What the moves of a chat read and change."""

    def __init__(self, config: ChatConfig, route: Route) -> None:
        self.config = config
        self.route = route
        self.messages: list[ChatMessage] = []
        self.tools: dict[str, Tool] = {}
        self.tool_options = ToolOptions(concurrency=concurrency_of(None, config.tool_concurrency))
        self.fallbacks: tuple[Route, ...] = ()
        self.fallback_errors: tuple[type[BaseException], ...] = TRANSIENT
        self.temperature: float | None = None
        self.max_output_tokens: int | None = None
        self.thinking: Thinking | None = None
        self.schema: Schema | None = None
        self.caching: Literal[False] | Mapping[str, JSON] | None = None
        self.citations = False
        self.compaction: Literal[False] | Mapping[str, JSON] | None = None
        self.provider_tools: tuple[ProviderTool, ...] = ()
        self.end_user: str | None = None
        self.provider_options: dict[str, Any] = {}
        self.headers: dict[str, str] = {}
        self.hooks: dict[str, list[Hook]] = {moment: [] for moment in MOMENTS}
        self.approvals = Approvals()
        self.cancel = Cancel()
        self.ledger = Ledger()

    def fresh(self) -> "State":
        """Return the same model and settings, callbacks and recorder included, for a conversation of its own.

        What belongs to a conversation stays behind: messages, tools, the form of answers, what was decided.
        """
        made = State(self.config, self.route)
        for name in _KEPT:
            setattr(made, name, getattr(self, name))
        made.provider_options, made.headers = deepcopy(self.provider_options), dict(self.headers)
        made.hooks = {moment: list(hooks) for moment, hooks in self.hooks.items()}
        made.ledger = Ledger(self.ledger.recorder)
        return made

    def fire(self, moment: str, *args: Any) -> Program[None]:
        """Call what was registered for a moment, in order."""
        for hook in tuple(self.hooks[moment]):
            yield Invoke(hook, args)

    def add(self, message: ChatMessage, *, is_announced: bool = False) -> Program[ChatMessage]:
        """Append a reply or a result, with the callbacks around it; they may have been told before that it comes."""
        if not is_announced:
            yield from self.fire("before_message")
        self.messages.append(message)
        yield from self.fire("after_message", message)
        return message
