"""`everlog serve`: the proxy, until it is stopped."""

import sys
from functools import partial
from typing import Annotated

import typer

from everlog.surfaces import opening
from everlog.surfaces.cli import session
from everlog.surfaces.cli.console import line
from everlog.surfaces.cli.output import document
from everlog.surfaces.cli.startup import Startup, started
from everlog.surfaces.proxy import lines
from everlog.surfaces.proxy.running import asked, builder_of, running
from everlog.surfaces.proxy.serving import listen
from everlog.surfaces.proxy.serving import serve as run


def serve(
    context: typer.Context,
    upstream: Annotated[
        str | None,
        typer.Option("--upstream", metavar="URL", help="The base URL of the server of models. Else EVERLOG_UPSTREAM."),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="ADDRESS", help="Where to listen; 127.0.0.1 unless said. Others need keys."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", metavar="N", min=0, max=65535, help="Its port; 8788 unless said, 0 takes a free one."),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            metavar="MODE",
            help="tree (unless said), rolling, record or off: what is done with conversations.",
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option("--budget", metavar="TOKENS", help="What memory may take of a prompt; 20000 unless said."),
    ] = None,
) -> int:
    """Stand in front of a server of models as a proxy.

    A client that is given its address as base URL sees no difference: the same bytes, streams, tools and errors. The
    client's own key goes up. Each conversation is kept, once, and one that outgrows its budget (mode tree, rolling) goes
    up as a view or a summary of it, with the newest messages. SIGTERM or Ctrl-C stops it; answers under way may end.

    Examples:
      everlog serve --upstream https://api.openai.com/v1
      everlog serve --upstream http://127.0.0.1:11434 --port 9000
    """
    here = session.of(context)
    given = {"upstream.base_url": upstream, "server.host": host, "server.port": port, "memory.mode": mode}
    given["memory.budget_tokens"] = budget
    settings = here.settings
    found, file = asked(settings, given=given)
    server = found.proxy.server
    found.options()  # what is missing is told whether or not the address is free
    lines.begin(server.log_level, server.log_format)
    lines.adopt("uvicorn.error")
    compactor = builder_of(settings)
    with listen(server.host, server.port) as listening:
        app = running(found, lambda: opening.opened(settings, create=True), compactor=compactor)
        address = f"http://{shown(server.host)}:{listening.getsockname()[1]}"
        startup = started(address, found, file, settings, compactor=compactor)
        run(app, listening, partial(_tell, startup, as_json=here.json))
    return 0


def _tell(startup: Startup, *, as_json: bool) -> None:
    """Print what a proxy that is ready does."""
    if as_json:
        document(startup.document())
    else:
        for words in startup.lines():
            line(words)
    if sys.stdout is not None:
        sys.stdout.flush()


def shown(host: str) -> str:
    """Return a host as it stands in an address."""
    return f"[{host}]" if ":" in host else host
