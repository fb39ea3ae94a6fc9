"""What one does with a chat beside asking: stage, read, decide, cancel. None of it waits for anything."""

from collections.abc import Callable, Iterator, Sized
from copy import copy
from dataclasses import replace
from typing import Any, Never, Self, overload

from everlog.chat.cost import Cost
from everlog.chat.ledger import Attempt
from everlog.chat.loop import is_waiting
from everlog.chat.message import ChatMessage, as_message, as_messages, system_message, user_message
from everlog.chat.options import refuse_unknown
from everlog.chat.pending import Checker, is_complete, open_calls, refuse_pending
from everlog.chat.routes import ChatConfig, opened
from everlog.chat.settings import Settings
from everlog.chat.state import State
from everlog.chat.tools import ToolCall
from everlog.errors import Mistake
from everlog.protocols.exchange import Usage

OPTIONS = ("provider", "protocol", "assume_model_exists", "base_url", "api_key", "config")
"""What may be said of a new chat, beside its model."""


BY_FILES = "; attachments are given by files="


class Talk(Settings):
    """A conversation, its open calls and decisions."""

    def __init__(
        self,
        model: str | None = None,
        *,
        provider: str | None = None,
        protocol: str | None = None,
        assume_model_exists: bool = False,
        base_url: str | None = None,
        api_key: str | None = None,
        config: ChatConfig | None = None,
        **misspelt: Never,
    ) -> None:
        """Begin a conversation.

        Args:
            model: its id, or provider/id; None is the configured one.
            provider: who serves it, where several do.
            protocol: how to talk to it, where the provider speaks several: chat_completions, responses, anthropic.
            assume_model_exists: take a model that nobody knows; `provider` says whose it is.
            base_url: where to send requests; alone, the address of a server that speaks like OpenAI's.
            api_key: the key; by default it is looked up in the environment.
            config: where keys, addresses and defaults come from.
            misspelt: nothing; a type checker says so, and so does the error.

        Raises:
            UnknownModel: nobody knows the model.
            MissingCredentials: its provider wants a key.
            Mistake: no name and no default, no such provider or option, or a model is assumed to exist at none.
        """
        refuse_unknown(misspelt, OPTIONS, type(self).__name__)
        super().__init__(
            State(
                *opened(
                    config,
                    model,
                    provider=provider,
                    protocol=protocol,
                    assume_exists=assume_model_exists,
                    base_url=base_url,
                    api_key=api_key,
                )
            )
        )

    def fresh(self) -> Self:
        """Return a new chat with the same model and settings, callbacks included, in which nothing was said yet.

        Tools, the form of answers, and decisions stay behind. The two chats know nothing of each other.
        """
        made = copy(self)
        made._state = self._state.fresh()  # noqa: SLF001 -- a chat of the same class
        return made

    @property
    def protocol(self) -> str:
        """The protocol in which the model is asked."""
        return self._state.route.protocol

    @property
    def wires(self) -> tuple[tuple[str, str], ...]:
        """Provider and protocol of the model, then of each fallback."""
        return tuple((route.provider.name, route.protocol) for route in (self._state.route, *self._state.fallbacks))

    @property
    def messages(self) -> list[ChatMessage]:
        """What was said so far, instructions included; a list of its own."""
        return list(self._state.messages)

    @messages.setter
    def messages(self, given: Any) -> None:
        self._state.messages[:] = as_messages(given)

    def __iter__(self) -> Iterator[ChatMessage]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self._state.messages)

    def __bool__(self) -> bool:
        return True

    @overload
    def __getitem__(self, place: int) -> ChatMessage: ...
    @overload
    def __getitem__(self, place: slice) -> list[ChatMessage]: ...
    def __getitem__(self, place: int | slice) -> ChatMessage | list[ChatMessage]:
        return self._state.messages[place]

    def add_message(self, message: Any) -> ChatMessage:
        """Append a message and return it: a `ChatMessage`, a `Message`, or a mapping with `role` and `content`.

        Raises:
            Mistake: it is none of these, or its role or content is no such thing.
        """
        made = as_message(message)
        self._state.messages.append(made)
        return made

    def ask_later(self, text: str | None = None, *, files: Any = None, **misspelt: Never) -> Self:
        """Stage what the user says, and ask nobody yet.

        Args:
            text: the words.
            files: attachments: paths, http(s) URLs, open files, bytes, or a list or mapping of them. A path is read and
                a URL is handed on, so take neither from strangers.
            misspelt: nothing; a type checker says so, and so does the error.

        Raises:
            PendingCalls: calls of the last response have no result yet.
            Mistake: there are neither words nor files, or an attachment cannot be read.
        """
        refuse_unknown(misspelt, ("text", "files", "on_chunk"), "asking", BY_FILES)
        refuse_pending(self._state.messages)
        self._state.messages.append(user_message(text, files))
        return self

    def with_instructions(self, text: str | None, *, append: bool = False, cache_until_here: bool = False) -> Self:
        """Say what holds for the whole conversation, in the place of what was said so before; None removes it.

        Args:
            text: the words.
            append: keep what was said so before.
            cache_until_here: end here what the provider is to cache.
        """
        if not append:
            self._state.messages[:] = [one for one in self._state.messages if one.role != "system"]
        if text is not None:
            self._state.messages.append(system_message(text, cached=cache_until_here))
        return self

    def cache_until_here(self) -> Self:
        """Have the provider cache the prompt up to the last message.

        Raises:
            Mistake: there is no message.
        """
        if not self._state.messages:
            raise Mistake("there is no message to cache; add one first")
        last = self._state.messages[-1]
        self._state.messages[-1] = replace(last, said=replace(last.said, cached=True))
        return self

    @property
    def is_complete(self) -> bool:
        """Whether nothing waits: nobody has asked, or the model answered without calling a tool."""
        return is_complete(self._state.messages)

    @property
    def is_awaiting_approval(self) -> bool:
        """Whether nothing can go on without a decision: every open call waits for one. Asks the tools' resolvers."""
        return is_waiting(self._state)

    @property
    def pending_approvals(self) -> list[ToolCall]:
        """The calls of the last response that wait for a decision. Asks the tools' resolvers."""
        state = self._state
        return [call for call in open_calls(state.messages) if state.approvals.of(call, state.tools) is None]

    def approve(self, call: ToolCall | str) -> Self:
        """Let a call, or the call of an id, run with the next `complete` or `run_tools`.

        Before there are calls, the id of one that is to come may be given.

        Raises:
            Mistake: calls wait, and it is none of them.
        """
        self._state.approvals.decide(self._open(call), approved=True)
        return self

    def deny(self, call: ToolCall | str) -> Self:
        """Have the model told, with the next `complete` or `run_tools`, that the user denied a call; see `approve`."""
        self._state.approvals.decide(self._open(call), approved=False)
        return self

    def _open(self, call: ToolCall | str) -> str:
        """Return the id of a call that is to be decided on.

        Raises:
            Mistake: calls wait, and it is none of them.
        """
        waiting = {one.id: one.name for one in open_calls(self._state.messages)}
        if (given := _id_of(call)) not in waiting and waiting:
            there = ", ".join(f"{id_!r} ({name})" for id_, name in waiting.items())
            raise Mistake(f"no call {given!r} waits for a decision; of the last response there {_are(waiting)} {there}")
        return given

    @property
    def approval_checker(self) -> Checker | None:
        """Who is asked of calls that nobody has decided here: True, False, or None for not yet."""
        return self._state.approvals.checker

    @approval_checker.setter
    def approval_checker(self, checker: Checker | None) -> None:
        self._state.approvals.checker = checker

    def cancel(self, *, hard: bool = False) -> Self:
        """Stop what is under way at its next step, from any thread; it raises `Cancelled` once.

        Args:
            hard: also close the connection that it waits in.
        """
        self._state.cancel.pull(hard=hard)
        return self

    @property
    def is_cancelled(self) -> bool:
        """Whether it is cancelled, and nothing has stopped for it yet."""
        return self._state.cancel.is_pulled

    @property
    def cancellation_checker(self) -> Callable[[], bool] | None:
        """Who is asked at each step whether to stop."""
        return self._state.cancel.checker

    @cancellation_checker.setter
    def cancellation_checker(self, checker: Callable[[], bool] | None) -> None:
        self._state.cancel.checker = checker

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The newest thousand requests that went out, retries and failures included."""
        return self._state.ledger.attempts

    @property
    def tokens(self) -> Usage:
        """The tokens of all requests, retries and failures included; None in it is what nobody counted."""
        return self._state.ledger.tokens()

    @property
    def cost(self) -> Cost:
        """What all requests cost; its total is None if that of one is not known. Messages added by hand cost nothing."""
        return self._state.ledger.cost()

    @property
    def usage_recorder(self) -> Callable[[Attempt], None] | None:
        """Who is told of each request, as it begins and as it ends."""
        return self._state.ledger.recorder

    @usage_recorder.setter
    def usage_recorder(self, recorder: Callable[[Attempt], None] | None) -> None:
        self._state.ledger.recorder = recorder

    def __repr__(self) -> str:
        waiting = ", ".join(call.name for call in self.pending_approvals)
        more = f", awaiting approval of {waiting}" if waiting else ""
        return f"<{type(self).__name__} {self._state.route.name}, {len(self)} messages{more}>"


def _are(there: Sized) -> str:
    return "is" if len(there) == 1 else "are"


def _id_of(call: ToolCall | str) -> str:
    if isinstance(call, ToolCall):
        return call.id
    if not isinstance(call, str):
        raise Mistake(f"a call is a ToolCall or its id, not {type(call).__name__}")
    return call
