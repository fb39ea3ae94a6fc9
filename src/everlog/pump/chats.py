"""A model as a compactor: each request is a conversation of its own with it.

What is said is given by the request, up to the mark behind which requests differ; what comes back is an answer, or a
failure of one of the kinds that the pump tells apart, with what it took. The chat itself sends again only what never
left; when to ask again is the pump's to decide, or the two would multiply.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from inspect import signature
from typing import Any, Literal

from everlog.chat.async_chat import AsyncChat
from everlog.chat.chat import Chat
from everlog.chat.ledger import NOTHING, Attempt
from everlog.chat.message import ChatMessage
from everlog.chat.options import refuse_unknown
from everlog.chat.required import require
from everlog.chat.retries import Retry
from everlog.chat.routes import ChatConfig
from everlog.errors import (
    BadReply,
    BadRequest,
    ContextTooLong,
    Forbidden,
    Mistake,
    NeverSent,
    ProtocolError,
    ProviderTimeout,
    ProviderTrouble,
    Unauthorized,
)
from everlog.memory.interface import Answer, Bill, Failure, Reply, Request
from everlog.messages import JSON
from everlog.protocols.exchange import Said
from everlog.pump.priming import Priming

OPTIONS = ("provider", "protocol", "assume_model_exists", "base_url", "api_key", "config")
"""What picks the wire of a model that is named."""

RETRY = Retry(retries=2, first_s=1.0, jitter=0.0, on=(NeverSent,))
"""What never left may go once more after a second, and after two more."""

_TOKENS_A_BYTE = 2
"""An answer may have so many tokens for each byte that it should have: room for a try that is too long, none for a
model that does not end."""
_THINKING_TOKENS = 16_000
"""What a model that thinks may think besides."""

_VERSION = re.compile(r"gpt-(\d+)(?:\.(\d+))?")

Make = Callable[[], Chat]


def named(name: str, options: Mapping[str, Any], required: str | None, config: ChatConfig | None) -> "ChatCompactor":
    """Return the compactor that a model is.

    Raises:
        ProtocolError: it would be asked in another protocol than the required one.
        Mistake: there is no such option, model or key.
    """
    refuse_unknown(options, OPTIONS, "a compactor")
    try:
        chat = Chat(name, **{"config": config, **options})
    except Mistake as error:
        raise _of_compactor(name, error) from None
    return ChatCompactor(_template(chat).fresh, required)


def given(chat: Any, required: str | None) -> "ChatCompactor":
    """Return the compactor that a chat is, or that a function makes chats for.

    Raises:
        ProtocolError: one speaks another protocol than the required one.
        Mistake: it is neither.
    """
    if isinstance(chat, AsyncChat):
        raise Mistake("a compactor is asked in threads, so its chat is a Chat; an AsyncChat cannot be one")
    if isinstance(chat, Chat):
        return ChatCompactor(_template(chat).fresh, required)
    if not callable(chat):
        raise Mistake(
            "a compactor is 'extractive', the name of a model, a Chat, a function that makes one, or something that "
            f"takes a request and has a `model`, its name; not {type(chat).__name__}"
        )
    return ChatCompactor(lambda: _template(_made(chat)), required)


def _made(make: Callable[[], Any]) -> Chat:
    try:
        signature(make).bind()
    except TypeError:
        raise Mistake("a function given as a compactor makes a Chat and takes no arguments") from None
    made = make()
    if not isinstance(made, Chat):
        raise Mistake(f"the function given as a compactor makes a Chat, not {type(made).__name__}")
    return made


def _of_compactor(name: str, error: Mistake) -> Mistake:
    """Return an error that says whose it is: there may be another chat that is talked with."""
    return type(error)(f"the compactor {name} cannot be used: {error}")


def _template(chat: Chat) -> Chat:
    """Return the chat with nothing said in it, and with the patience of a compactor."""
    return chat.fresh().with_config(replace(chat.config, retry=RETRY))


class ChatCompactor:
    """Asks a model. Thread-safe."""

    def __init__(self, make: Make, required: str | None = None) -> None:
        """Ask whatever chats are made.

        Args:
            make: makes a chat in which nothing was said.
            required: the protocol that each of them must speak, and so must its fallbacks.

        Raises:
            ProtocolError: one that is made does not.
        """
        self._make = make
        self._required = required
        self._priming = Priming()
        self._was_answered = False
        chat = self._chat()
        self.protocol = chat.protocol
        """The protocol that is spoken."""
        self.model = f"{chat.provider.name}/{chat.model.id}"
        """Provider and id, as they were asked for: providers answer with other names for the same model."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model}>"

    def __call__(self, request: Request) -> Reply:
        chat = self._chat()
        said: list[ChatMessage] = []
        mark = request.shared if takes_marks(chat) else 0
        for n, message in enumerate(request.messages or request.source, 1):
            said.append(ChatMessage(said=Said(messages=(message,), cached=n == mark)))
        chat.messages = said
        if request.schema is not None:
            chat.with_schema(dict(request.schema))
        if chat.max_output_tokens is None:
            chat.with_max_output_tokens(output_tokens(chat, request.limit_bytes))
        shared = tuple(one.text for one in request.messages[: request.shared])
        try:
            with self._priming.of(shared):
                reply = chat.generate()
        except ProviderTrouble as error:
            return self._failed(error, chat)
        self._was_answered = True
        return _answer(reply, request, chat)

    def _chat(self) -> Chat:
        chat = self._make()
        try:
            require(chat, self._required)
        except ProtocolError as error:
            raise _of_compactor(f"{chat.provider.name}/{chat.model.id}", error) from None
        return chat

    def _failed(self, error: ProviderTrouble, chat: Chat) -> Failure:
        """Return what kind of failure an error is.

        Raises:
            Mistake: no request would be answered, and waiting does not help.
        """
        bills = _bills(chat.attempts)
        match error:
            case BadReply():
                return Failure(kind="unusable", bills=bills)
            case ContextTooLong():
                return Failure(kind="refused", bills=bills)
            case BadRequest() | Forbidden() if self._was_answered and error.status != 404:
                return Failure(kind="refused", bills=bills)
            case BadRequest() | Forbidden() | Unauthorized():
                raise Mistake(f"the compactor cannot be asked: {error}") from error
            case ProviderTimeout() if error.status is None:
                return Failure(kind="timeout", bills=bills)
            case _:
                wait = error.retry_after_s
                retry_at = None if wait is None else chat.config.clock.now() + timedelta(seconds=wait)
                return Failure(kind="unavailable", retry_at=retry_at, bills=bills)


def takes_marks(chat: Chat) -> bool:
    """Return whether the end of a prefix must be marked for a model's cache, and may be.

    Anthropic reads nothing that is not marked, nor does OpenAI from GPT-5.6 on; its older models refuse marks. All others
    find prefixes by themselves.
    """
    if chat.protocol == "anthropic":
        return True
    version = _VERSION.match(chat.model.id) if chat.provider.name == "openai" else None
    return version is not None and (int(version[1]), int(version[2] or 0)) >= (5, 6)


def output_tokens(chat: Chat, limit_bytes: int | None) -> int | None:
    """Return the most tokens that an answer of so many bytes may have; None is the model's own limit."""
    if limit_bytes is None:
        return None
    tokens = limit_bytes * _TOKENS_A_BYTE
    # Servers with small contexts refuse a large limit, and of a model that nobody knows that may be one.
    tokens += {True: _THINKING_TOKENS, None: tokens, False: 0}[chat.model.reasons]
    return min(tokens, chat.model.output_tokens or tokens)


def _answer(message: ChatMessage, request: Request, chat: Chat) -> Reply:
    bills = _bills(chat.attempts)
    finish = _finish(message)
    if finish is None:
        return Failure(kind="unusable", bills=bills)
    arguments: JSON = None
    if request.schema is not None:
        with suppress(BadReply):
            arguments = message.parsed
    last = chat.attempts[-1]
    usage = {} if last.usage is None else {kind: getattr(last.usage, kind) for kind in _KINDS}
    return Answer(
        text=message.text,
        arguments=arguments,
        finish=finish,
        usage={kind: tokens for kind, tokens in usage.items() if tokens is not None},
        model=f"{last.provider}/{last.model.id}",
        bills=bills,
    )


_KINDS = ("input", "cache_read", "cache_write", "output")


def _finish(message: ChatMessage) -> Literal["stop", "length", "tool_calls", "filtered"] | None:
    """Return why a model stopped; None where its answer cannot be whole."""
    match message.finish:
        case "stop" | "length" | "tool_calls" | "filtered":
            return message.finish
        case "other":
            return "tool_calls" if message.calls else "stop"  # words that only this server has for an end
        case _:
            return None


def _bills(attempts: tuple[Attempt, ...]) -> tuple[Bill, ...]:
    """Return what is or may be paid for: not what was never sent, nor what came back with an error status."""
    return tuple(
        Bill(model=f"{one.provider}/{one.model.id}", usage=one.usage, cost_usd=one.cost.total_usd)
        for one in attempts
        if one.usage != NOTHING and (one.http_status is None or one.http_status < 400)
    )
