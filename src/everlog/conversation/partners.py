"""Whom a memory talks with: a chat that is ready, a model by name, or a function that makes chats; and what of it counts.

Of a chat everything counts but what was said in it: instructions, tools, settings and callbacks are those of the moment
of each request. While a request is out, its messages are the prompt; afterwards they are what was sent and said.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, TypeAlias

from everlog.chat.async_chat import AsyncChat
from everlog.chat.chat import Chat
from everlog.chat.message import ChatMessage
from everlog.chat.options import mapping_of, refuse_unknown
from everlog.chat.required import require
from everlog.chat.state import State
from everlog.chat.tools import Tool
from everlog.errors import MissingCredentials, Mistake, ProtocolError
from everlog.messages import JSON
from everlog.protocols.exchange import Said
from everlog.tokens import utf8

Given: TypeAlias = "str | Chat | AsyncChat | Callable[[], Chat] | Callable[[], AsyncChat]"
"""The name of a model, a chat that is ready, or a function without arguments that makes one."""

OPTIONS = ("provider", "protocol", "assume_model_exists", "base_url", "api_key", "config")
"""What picks the wire of a model that is named."""

_HISTORY = ("messages", "input", "system", "instructions", "previous_response_id", "conversation", "context_management")
"""Fields of requests that say what was said before; memory says that."""


class Partner:
    """Makes or keeps the chat of each turn."""

    def __init__(
        self, given: Given, *, options: Mapping[str, Any] | None, required: str | None, reserved: Sequence[str]
    ) -> None:
        """Take what was given, and refuse what cannot work before anything is said.

        Raises:
            ProtocolError: it speaks another protocol than the required one.
            Mistake: it is no chat, or has what does not go together with a memory.
        """
        self._required = required
        self._reserved = reserved
        self._given = given
        self._options = options
        self._make: Callable[[], Chat | AsyncChat] | None = _maker(given, options)
        self._chat = self.allow(given if self._make is None else self._make())
        self._is_fresh = True

    @property
    def given(self) -> Given:
        """What was given."""
        return self._given

    @property
    def chat(self) -> Chat | AsyncChat:
        """The chat of this turn, or of the last one."""
        return self._chat

    @property
    def is_async(self) -> bool:
        """Whether it is for event loops."""
        return isinstance(self._chat, AsyncChat)

    def for_fork(self) -> "Partner":
        """Return whom a fork talks with: the same chat if it was given, else one of its own."""
        if self._make is None:
            return self
        return Partner(self._given, options=self._options, required=self._required, reserved=self._reserved)

    def next(self) -> Chat | AsyncChat:
        """Return the chat of the next turn, checked again: it may have been changed since."""
        kind = type(self._chat)
        if self._make is not None and not self._is_fresh:
            self._chat = self._make()
            if type(self._chat) is not kind:
                raise Mistake(
                    f"the function makes a {type(self._chat).__name__} now, and made a {kind.__name__} before"
                )
        self._is_fresh = False
        return self.allow(self._chat)

    def allow(self, chat: Any) -> Chat | AsyncChat:
        """Return a chat that may be asked.

        Raises:
            ProtocolError: it speaks another protocol than the required one.
            Mistake: it is no chat, or has what does not go together with a memory.
        """
        if not isinstance(chat, Chat | AsyncChat):
            raise Mistake(f"a function given as a chat makes a Chat or an AsyncChat, not {type(chat).__name__}")
        try:
            require(chat, self._required)
        except ProtocolError as error:
            if not isinstance(self._given, str):
                raise
            raise ProtocolError(taken_as(error, "chat_options", "protocol")) from None
        if taken := [name for name in self._reserved if name in chat.tools]:
            raise Mistake(
                f"the chat has a tool {taken[0]!r}, and so has its memory; give yours another name, as in tool(name=…)"
            )
        if chat.compaction is not None and chat.compaction is not False:
            raise Mistake("the chat has compaction by its provider; memory does that: with_compaction(False)")
        if taken := [name for name in _HISTORY if name in chat.provider_options]:
            raise Mistake(f"provider options of the chat set {taken[0]!r}, which is what a memory is for; leave it out")
        return chat


def taken_as(error: Mistake, options: str, name: str) -> str:
    """Return what an error says, and where `attach` takes what it asks for."""
    return f'{error}; attach takes that as {options}={{"{name}": …}}'


def _maker(given: Given, options: Mapping[str, Any] | None) -> Callable[[], Chat | AsyncChat] | None:
    wire = mapping_of(options, "chat_options")
    if isinstance(given, str):
        refuse_unknown(wire, OPTIONS, "chat_options")
        return lambda: _named(given, wire)
    if wire:
        raise Mistake(f"chat_options ({', '.join(wire)}) are for the name of a model; a chat that is given has its own")
    if isinstance(given, Chat | AsyncChat):
        return None
    if isinstance(given, type) or not callable(given):
        raise Mistake(
            "a memory is attached to the name of a model, a Chat, an AsyncChat, or a function that makes one; "
            f"not to {type(given).__name__}"
        )
    return given


def _named(name: str, wire: Mapping[str, Any]) -> Chat:
    try:
        return Chat(name, **wire)
    except MissingCredentials as error:
        raise MissingCredentials(taken_as(error, "chat_options", "api_key")) from None


def state_of(chat: Chat | AsyncChat) -> State:
    """Return what a chat is made of."""
    return chat._state  # noqa: SLF001 -- a memory says what the chat says next, as the chat's own moves do


def beside(state: State, tools: Mapping[str, Tool]) -> State:
    """Return the state of a chat as it is for one request: with more tools; all else, messages included, is shared."""
    made = copy(state)
    made.tools = {**state.tools, **tools}
    return made


def instructions(state: State, ours: Sequence[str]) -> tuple[Said, ...]:
    """Return what the chat's user told the model: its system messages, but for those that are ours."""
    system = [message.said for message in state.messages if message.role == "system"]
    return tuple(said for said in system if tuple(one.text for one in said.messages) not in {(text,) for text in ours})


def declared(state: State) -> bytes:
    """Return the tools as they are sent, for their hash and size."""
    tools: list[JSON] = [
        [tool.name, tool.description, dict(tool.parameters), tool.strict] for tool in state.tools.values()
    ]
    provided: list[JSON] = [repr(tool) for tool in state.provider_tools]
    form = state.schema
    schema: JSON = None if form is None else [form.name, dict(form.schema), form.strict]
    return utf8(json.dumps([tools, provided, schema], ensure_ascii=False)) if tools or provided or schema else b""


def as_messages(said: Sequence[Said]) -> list[ChatMessage]:
    """Return a prompt as messages of a chat: each result is one, as a chat has them."""
    found: list[ChatMessage] = []
    for one in said:
        if one.raw is None and len(one.messages) > 1 and one.messages[0].kind == "tool_result":
            parts = [Said(messages=(message,)) for message in one.messages]
            parts[-1] = replace(parts[-1], cached=one.cached)
            found += [ChatMessage(said=part) for part in parts]
        else:
            found.append(ChatMessage(said=one))
    return found
