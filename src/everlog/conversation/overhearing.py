"""Hearing what a program hands out, so that what came of an answer that broke off can be kept."""

from typing import Any, TypeVar

from everlog.chat.effects import Emit, Invoke, Program
from everlog.chat.loop import OnChunk
from everlog.chat.message import Chunk

T = TypeVar("T")


def overheard(program: Program[T], heard: list[str], on_chunk: OnChunk | None) -> Program[T]:
    """Run a program; words that it emits are noted in `heard`, and go to `on_chunk` if there is one."""
    answer: Any = None
    error: BaseException | None = None
    try:
        while True:
            effect = program.send(answer) if error is None else program.throw(error)
            answer, error = None, None
            if isinstance(effect, Emit) and isinstance(effect.value, Chunk):
                heard.append(effect.value.text)
                effect = effect if on_chunk is None else Invoke(on_chunk, (effect.value,))
            try:
                answer = yield effect
            except GeneratorExit:
                program.close()
                raise
            except BaseException as failure:  # noqa: BLE001 -- raised where the program asked for the effect
                error = failure
    except StopIteration as end:
        result: T = end.value
        return result
