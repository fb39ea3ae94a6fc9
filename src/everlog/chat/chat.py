"""The chat whose methods wait for what they ask."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Never, Self

from everlog.chat import loop, rounds
from everlog.chat.bodies import body_bytes
from everlog.chat.counting import count_tokens
from everlog.chat.drivers import SyncDriver
from everlog.chat.loop import OnChunk
from everlog.chat.message import ChatMessage, Chunk
from everlog.chat.requests import body_of
from everlog.chat.talk import Talk


class Chat(Talk):
    """A conversation with any model.

        chat = Chat("anthropic/claude-sonnet-5-5").with_instructions("Be brief.")
        chat.ask("Why is the sky blue?")

    Tools and callbacks may be plain functions or async ones.
    """

    _driver = SyncDriver()

    def ask(
        self, text: str | None = None, *, files: Any = None, on_chunk: OnChunk | None = None, **misspelt: Never
    ) -> ChatMessage:
        """Say something and return the answer, once all tools that it called have run.

        It may be a message with calls that wait for approval: see `is_awaiting_approval`.

        Args:
            text: the words.
            files: attachments, as `ask_later` takes them.
            on_chunk: gets each `Chunk` of the answer as it comes.
            misspelt: nothing; a type checker says so, and so does the error.

        Raises:
            PendingCalls: calls of the last response have no result yet.
            Mistake: there are neither words nor files, or an attachment cannot be read.
            ProviderTrouble: the model failed, after all retries and fallbacks.
            Cancelled: it was cancelled.
        """
        self.ask_later(text, files=files, **misspelt)
        message = self.complete(on_chunk=on_chunk)
        assert message is not None, "a message was staged"
        return message

    say = ask

    def stream(self, text: str | None = None, *, files: Any = None, **misspelt: Never) -> Iterator[Chunk]:
        """Say something and hand out the answer, and those of tool rounds before it, as they come.

        Without words it completes what was staged. The messages are then in the chat; who stops reading gets none.
        """
        if text is not None or files is not None or misspelt:
            self.ask_later(text, files=files, **misspelt)
        return self._driver.stream(loop.complete(self._state, stream=True))

    def complete(self, *, on_chunk: OnChunk | None = None) -> ChatMessage | None:
        """Go on until the model has answered or a call waits for approval; return the last message, None if there is none."""
        return self._driver.run(loop.complete(self._state, on_chunk=on_chunk))

    def generate(self, *, on_chunk: OnChunk | None = None) -> ChatMessage:
        """Ask the model once, add its reply and return it. Its calls are not run."""
        return self._driver.run(loop.generate(self._state, on_chunk=on_chunk))

    def step(self, *, on_chunk: OnChunk | None = None) -> ChatMessage | None:
        """Make one move: run the open calls, else ask the model. Return the message that came of it, None if none did."""
        return self._driver.run(loop.step(self._state, on_chunk=on_chunk))

    def run_tools(self) -> Self:
        """Run the open calls of the last response that may run, without asking the model."""
        self._driver.run(rounds.run_tools(self._state))
        return self

    def render(self, *, stream: bool = False) -> dict[str, Any]:
        """Return the body of the next request, as it would be sent; nothing is."""
        return deepcopy(self._driver.run(body_of(self._state, stream=stream)))

    def render_bytes(self, *, stream: bool = False) -> bytes:
        """Return the next request byte for byte, as it would be sent; nothing is."""
        return body_bytes(self._driver.run(body_of(self._state, stream=stream)))

    def count_tokens(self, message: str | ChatMessage | None = None) -> int:
        """Ask the provider how many tokens the next request has, with a message that is not said yet.

        Raises:
            Mistake: the protocol has no way to count.
        """
        return self._driver.run(count_tokens(self._state, message))
