"""One way to speak to a chat of either kind, so that each test runs through both drivers."""

import asyncio
import inspect
from collections.abc import Iterable
from typing import Any

from everlog.chat.async_chat import AsyncChat
from everlog.chat.chat import Chat
from everlog.chat.message import ChatMessage, Chunk
from everlog.chat.retries import Retry
from everlog.chat.routes import ChatConfig
from everlog.testing.upstream import Answer, Upstream

DRIVERS = ("sync", "async")
PROTOCOLS = ("chat_completions", "responses", "anthropic")
PROVIDERS = {"chat_completions": "openai", "responses": "openai", "anthropic": "anthropic"}


class Talk:
    """A chat with an upstream that says what it is told to."""

    def __init__(self, driver: str, protocol: str, upstream: Upstream, **options: Any) -> None:
        self.protocol = protocol
        self.upstream = upstream
        self.provider = PROVIDERS[protocol]
        kind = {"sync": Chat, "async": AsyncChat}[driver]
        options.setdefault("config", config(upstream))
        self.chat: Any = kind("m-1", provider=self.provider, protocol=protocol, assume_model_exists=True, **options)
        self._runner = asyncio.Runner()

    def do(self, verb: str, *args: Any, **named: Any) -> Any:
        """Call a method, and await what it returns if that is to be awaited."""
        result = getattr(self.chat, verb)(*args, **named)
        return self._runner.run(awaited(result)) if inspect.isawaitable(result) else result

    def ask(self, text: str | None = "Hi", **named: Any) -> ChatMessage:
        message: ChatMessage = self.do("ask", text, **named)
        return message

    def stream(self, text: str | None = "Hi", **named: Any) -> list[Chunk]:
        """Return all pieces of an answer."""
        pieces = self.chat.stream(text, **named)
        return self._runner.run(collected(pieces)) if hasattr(pieces, "__anext__") else list(pieces)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The bodies of all requests."""
        return [one.body for one in self.upstream.requests]

    @property
    def said(self) -> list[tuple[str, str]]:
        """Role and words of each message."""
        return [(one.role, one.text) for one in self.chat]

    def close(self) -> None:
        self._runner.close()


def config(upstream: Upstream, **options: Any) -> ChatConfig:
    """Return where all providers are the upstream, and nothing is tried twice."""
    urls = dict.fromkeys(("openai", "anthropic", "deepseek", "openrouter", "ollama"), upstream.url)
    options.setdefault("retry", Retry(retries=0))
    return ChatConfig(base_urls=urls, environ={}, **options)


async def awaited(value: Any) -> Any:
    return await value


async def collected(pieces: Any) -> list[Any]:
    return [one async for one in pieces]


def called(*calls: tuple[str, str, Any], text: str = "") -> Answer:
    """Return an answer with calls: id, name, arguments."""
    return Answer(text=text, calls=calls)


def texts(*said: str) -> Iterable[Answer]:
    """Return answers of words only."""
    return [Answer(text=one) for one in said]
