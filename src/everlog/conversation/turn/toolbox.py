"""The tools by which a model opens lines of its memory, as tools of a chat, for one turn."""

from collections.abc import Callable, Mapping
from typing import Any

from everlog.chat.tools import Tool
from everlog.conversation.options import Options
from everlog.conversation.recording.recorder import Recorder
from everlog.conversation.recording.trouble import PASSES, Trouble
from everlog.conversation.recording.units import Turn
from everlog.memory.tree import Tools
from everlog.memory.tree.render import Shown
from everlog.memory.tree.schemas import SCHEMAS

AWAY = "The memory cannot be read at this moment. Say so if the answer depends on it."


class Toolbox:
    """`zoom`, `read`, `date`, and `search` where it is wanted."""

    def __init__(self, recorder: Recorder, options: Options, trouble: Trouble) -> None:
        self._recorder = recorder
        self._options = options
        self._trouble = trouble
        self._tools: Tools | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tools there are; the calls of these are no part of the conversation."""
        return names(self._options)

    @property
    def spent(self) -> int:
        """How often something new was opened, dated or searched for."""
        return 0 if self._tools is None else self._tools.spent

    def show(self, view: Shown | None, turn: Turn) -> None:
        """Note what the model sees, so that a hit can name its line."""
        assert self._recorder.thread is not None
        if self._tools is None:
            self._tools = Tools(
                self._recorder.store,
                self._recorder.tenant,
                self._recorder.thread,
                view=view,
                search=self._options.search,
                mask=self._options.search_mask,
                search_cap=self._options.search_cap,
                turn=turn.number,
            )
        self._tools.view = view

    def tools(self, *, takes: bool) -> Mapping[str, Tool]:
        """Return them as tools of a chat; none if the model takes none."""
        return {name: self._tool(name) for name in self.names} if takes else {}

    def close(self) -> None:
        """Count what was opened."""
        if self._tools is not None:
            self._tools.close()

    def _tool(self, name: str) -> Tool:
        schema: Mapping[str, Any] = SCHEMAS[name]
        return Tool(
            name=name,
            description=schema["description"],
            parameters=schema["parameters"],
            function=self._caller(name),
        )

    def _caller(self, name: str) -> Callable[..., str]:
        def call(**arguments: Any) -> str:
            if self._tools is None:
                return AWAY
            try:
                return self._tools.call(name, arguments)
            except PASSES as error:
                self._trouble.note("prepare", error, tool=name)
                return AWAY

        return call


def names(options: Options) -> tuple[str, ...]:
    """Return the names of the tools that a memory has."""
    if options.past != "tree":
        return ()
    return tuple(name for name in SCHEMAS if name != "search" or options.search)
