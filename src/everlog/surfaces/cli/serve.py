"""`everlog serve`: the proxy, until it is stopped."""

import sys
from typing import Annotated

import typer

from everlog.errors import Mistake
from everlog.surfaces import config
from everlog.surfaces.cli import session
from everlog.surfaces.cli.console import line
from everlog.surfaces.cli.output import document
from everlog.surfaces.proxy.application import App
from everlog.surfaces.proxy.serving import listen
from everlog.surfaces.proxy.serving import serve as run

HOST = "127.0.0.1"
"""Without keys nobody but programs of this machine is served."""


def serve(
    context: typer.Context,
    upstream: Annotated[
        str | None,
        typer.Option("--upstream", metavar="URL", help="The base URL of the server of models. Else EVERLOG_UPSTREAM."),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="Where to listen; 0 takes a free port.")
    ] = 8788,
    mode: Annotated[
        str, typer.Option("--mode", metavar="MODE", help="off: pass everything on, and keep nothing.")
    ] = "off",
) -> int:
    """Stand in front of a server of models as a proxy.

    A client that is given its address as base URL sees no difference: the same bytes, streams, tools and errors. The
    client's own key goes up. SIGTERM or Ctrl-C stops it; answers that are under way may end.

    Examples:
      everlog serve --upstream https://api.openai.com/v1
      everlog serve --upstream http://127.0.0.1:11434 --port 9000
    """
    if mode != "off":
        raise Mistake(f"there is no mode {mode!r}; choose off")
    found, _ = config.proxy(session.of(context).settings, given={"upstream.base_url": upstream, "memory.mode": mode})
    app = App(found.options())
    with listen(HOST, port) as listening:
        here = f"http://{HOST}:{listening.getsockname()[1]}"

        def ready() -> None:
            if session.of(context).json:
                document({"base_url": f"{here}/v1", "mode": mode})
            else:
                line(f"{here}/v1 is the base URL for clients; {here} for those of Anthropic")
            if sys.stdout is not None:
                sys.stdout.flush()

        run(app, listening, ready)
    return 0
