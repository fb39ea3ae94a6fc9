"""A memory with an upstream that says what it is told to, spoken to in one way by both drivers."""

import asyncio
import inspect
from typing import Any

from everlog import AsyncChat, Chat, ChatMessage, Everlog, TurnState
from everlog.chat.retries import Retry
from everlog.chat.routes import ChatConfig
from everlog.log import rows
from everlog.testing.upstream import Answer, Manner, Upstream

DRIVERS = ("sync", "async")
PROTOCOLS = ("chat_completions", "responses", "anthropic")
PROVIDERS = {"chat_completions": "openai", "responses": "openai", "anthropic": "anthropic"}


class Remembering:
    """A thread of a log, a chat and a memory of it."""

    def __init__(self, driver: str, home: Everlog, *script: Any, protocol: str = "chat_completions", **wishes: Any):
        told = script[0] if len(script) == 1 and callable(script[0]) else script
        self.upstream = Upstream(told, manner=Manner(piece=4)).__enter__()
        self.home = home
        self.protocol = protocol
        self.driver = driver
        self.wishes = {"key": "k", "pump": "inline", "budget": 4_000, **wishes}
        self._runner = asyncio.Runner()
        self._memories: list[Any] = []
        self.chat = self.new_chat()
        self.memory = self.attach(self.chat)

    def new_chat(self, **options: Any) -> Any:
        """A chat that is ready, with instructions of its own."""
        return self.kind("m-1", **{**self.wire, **options}).with_instructions("You are terse.")

    @property
    def kind(self) -> Any:
        return {"sync": Chat, "async": AsyncChat}[self.driver]

    @property
    def wire(self) -> dict[str, Any]:
        """How a chat finds the upstream."""
        urls = dict.fromkeys(("openai", "anthropic"), self.upstream.url)
        config = ChatConfig(base_urls=urls, environ={}, retry=Retry(retries=0))
        provider = PROVIDERS[self.protocol]
        return {"provider": provider, "protocol": self.protocol, "assume_model_exists": True, "config": config}

    def attach(self, chat: Any, **wishes: Any) -> Any:
        """Another memory in the same log, as another program would have it."""
        memory = self.home.attach(chat, **{**self.wishes, **wishes})
        self._memories.append(memory)
        return memory

    def again(self, **wishes: Any) -> None:
        """Go on as a new process would: nothing is remembered but what is in the log."""
        self.do("close")
        self.chat = self.new_chat()
        self.memory = self.attach(self.chat, **wishes)

    def do(self, verb: str, *args: Any, **named: Any) -> Any:
        result = getattr(self.memory, verb)(*args, **named)
        return self._runner.run(_awaited(result)) if inspect.isawaitable(result) else result

    def turn(self, text: str | None = "Hi", **named: Any) -> ChatMessage:
        message: ChatMessage = self.do("turn", text, **named)
        return message

    def stream(self, text: str | None = "Hi", *, pieces: int | None = None, **named: Any) -> str:
        """The words of a streamed answer; given up after so many pieces."""
        stream = self.memory.stream(text, **named)
        if hasattr(stream, "__anext__"):
            return "".join(self._runner.run(_collected(stream, pieces)))
        found = []
        for piece in stream:
            found.append(piece.text)
            if len(found) == pieces:
                stream.close()
                break
        return "".join(found)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [one.body for one in self.upstream.requests]

    @property
    def logged(self) -> list[tuple[str, str]]:
        """Kind and words of each entry."""
        return [(entry.kind, entry.text) for entry in self.memory.thread.entries()]

    @property
    def states(self) -> list[TurnState]:
        """The states of all turns, in order."""
        store, thread = self.home.store, self.memory.thread.id
        found = store.read(self.home.name, lambda unit: unit.rows(rows.TURNS, thread=thread, start=0, stop=1 << 20))
        return [TurnState(row[4]) for row in found]

    def close(self) -> None:
        for memory in self._memories:
            closed = memory.close()
            if inspect.isawaitable(closed):
                self._runner.run(_awaited(closed))
        self._runner.close()
        self.upstream.__exit__(None, None, None)


async def _awaited(value: Any) -> Any:
    return await value


async def _collected(stream: Any, pieces: int | None) -> list[str]:
    found = []
    async for one in stream:
        found.append(one.text)
        if len(found) == pieces:
            await stream.aclose()
            break
    return found


def numbered(received: Any) -> Answer:
    """An answer that says which user message it answers, some 200 bytes long."""
    said = [one["content"] for one in received.body["messages"] if one["role"] == "user"]
    return Answer(text=f"To {said[-1]!r}: " + "the sea is warm and the harbour of Roscoff lies north. " * 3)
