"""Hearing what a program hands out, so that what came of an answer that broke off can be kept."""

from collections.abc import Collection, Sequence
from copy import copy
from typing import Any, TypeVar

from everlog.chat.effects import Emit, Invoke, Program
from everlog.chat.loop import Fallback, OnChunk
from everlog.chat.message import Chunk
from everlog.chat.state import State
from everlog.conversation.recording.pace import Pace
from everlog.messages import Message
from everlog.protocols.exchange import Said, said

T = TypeVar("T")


class Heard:
    """The words of one answer as they were handed out; those of a model that broke off before another took its place apart."""

    def __init__(self) -> None:
        self.model: str | None = None
        """Who took the place of the chat's own model, as provider/id."""
        self.broken: list[Message] = []
        """What came of the answers of models that broke off, oldest first."""
        self._words: list[str] = []

    def listen(self, state: State) -> State:
        """Return the state to ask in, so that a change of the model is noted."""
        made = copy(state)
        made.hooks = {**state.hooks, "before_fallback": [self._replaced, *state.hooks["before_fallback"]]}
        return made

    def add(self, words: str) -> None:
        """Note words that are handed out."""
        self._words.append(words)

    def rest(self, replies: Sequence[Said], ours: Collection[str]) -> list[Said]:
        """Return what came of the answer where nothing more comes: the words, or all of a reply if it failed only after that.

        Calls of tools that are `ours` are left out.
        """
        if replies:
            last = tuple(one for one in replies[0].messages if one.call is None or one.call.name not in ours)
        else:
            words = "".join(self._words)
            last = (_message(words, self.model),) if words else ()
        return list(said((*self.broken, *last)))

    def _replaced(self, fallback: Fallback) -> None:
        if words := "".join(self._words):
            self.broken.append(_message(words, fallback.origin))
        self._words, self.model = [], fallback.target


def _message(words: str, model: str | None) -> Message:
    return Message(kind="assistant", text=words, model=None if model is None else model.partition("/")[2])


def overheard(program: Program[T], heard: Heard, on_chunk: OnChunk | None, pace: Pace) -> Program[T]:
    """Run a program; words that it emits are noted in `heard`, and go to `on_chunk` if there is one."""
    answer: Any = None
    error: BaseException | None = None
    try:
        while True:
            effect = program.send(answer) if error is None else program.throw(error)
            answer, error = None, None
            if isinstance(effect, Emit) and isinstance(effect.value, Chunk):
                heard.add(effect.value.text)
                effect = effect if on_chunk is None else Invoke(on_chunk, (effect.value,))
            try:
                if isinstance(effect, Emit):
                    pace.hand_out()
                    answer = yield effect
                    pace.run()
                else:
                    answer = yield effect
            except GeneratorExit:
                program.close()
                raise
            except BaseException as failure:  # noqa: BLE001 -- raised where the program asked for the effect
                error = failure
    except StopIteration as end:
        result: T = end.value
        return result
