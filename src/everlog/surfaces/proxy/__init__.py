"""The proxy: stands in front of any model, and passes on what it is given.

Comes in: requests of any client of the OpenAI or Anthropic wire formats. Goes out: the same bytes, to the upstream that
has the model, and its answer back, as it comes. Beside the relay, ears hear each exchange. The relay knows no log, and
nothing of a conversation is in what it logs or says of itself.

`app` is for any ASGI server: `uvicorn everlog.surfaces.proxy:app`. It reads its settings when the server starts it.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from importlib import import_module
from typing import Any

from everlog.errors import EverlogError

Message = MutableMapping[str, Any]


class _Application:
    """The proxy of the environment, made when it is first called, so that importing this reads and loads nothing."""

    def __init__(self) -> None:
        self._made: Any = None

    async def __call__(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        try:
            self._made = self._made or import_module("everlog.surfaces.proxy.running").from_environment()
        except EverlogError as error:
            if scope["type"] != "lifespan":
                raise
            await receive()
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await self._made(scope, receive, send)


app = _Application()
