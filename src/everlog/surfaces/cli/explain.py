"""`everlog context`: what a past prompt was made of, what was left out of it, and why."""

from functools import partial
from typing import Annotated

import typer

from everlog import Mistake
from everlog import context as contexts
from everlog.context import Explained
from everlog.messages import JSON
from everlog.surfaces.cli import session
from everlog.surfaces.cli.console import line
from everlog.surfaces.cli.names import Named, thread_named
from everlog.surfaces.cli.output import document, facts, table
from everlog.surfaces.reasons import WHY

Turn = Annotated[
    int | None,
    typer.Option(
        "--turn", metavar="N", min=0, help="The last request of this turn; turns count from 0.", show_default=False
    ),
]


def explain(context: typer.Context, thread: Named, turn: Turn = None) -> None:
    """Print what a past prompt was made of, what was left out, and why.

    Without --turn it is the newest request of the thread. References are positions of messages; no words are shown.

    Examples:
      everlog context holiday
      everlog context holiday --turn 12 --json
    """
    here = session.of(context)
    with here.open() as memory:
        found = thread_named(memory, thread)
        asked = memory.store.read(memory.name, partial(contexts.request, thread=found.id, turn=turn))
    if asked is None:
        which = f"turn {turn}" if turn is not None else "the thread"
        raise Mistake(
            f"no request of {which} is known here; those of `everlog chat` and `attach` are, of the newest "
            f"{contexts.EPOCHS_EXPLAINED} epochs; those of the proxy are under its address at /everlog/v1/requests"
        )
    if here.json:
        document(as_json(asked))
        return
    facts(_about(asked))
    line()
    table(("PART", "TOKENS", "MESSAGES"), [(one.kind, one.tokens, one.ref) for one in asked.items])


def as_json(asked: Explained) -> JSON:
    """Return a request for programs."""
    usage, epoch = asked.usage, asked.epoch
    return {
        "request": asked.id,
        "turn": asked.turn,
        "time": asked.at.isoformat(),
        "model": asked.model,
        "status": asked.status,
        "consumer": asked.consumer,
        "epoch": epoch.n,
        "reason": epoch.reason,
        "opened": asked.is_first,
        "epoch_turn": epoch.turn,
        "cut": epoch.cut,
        "budget_bytes": epoch.budget,
        "tokens": {
            "input": usage.input,
            "cache_read": usage.cache_read,
            "cache_write": usage.cache_write,
            "output": usage.output,
        },
        "items": [{"kind": one.kind, "ref": one.ref, "tokens": one.tokens} for one in asked.items],
    }


def _about(asked: Explained) -> list[tuple[str, str]]:
    epoch = asked.epoch
    began = "begun by this request" if asked.is_first else f"begun in turn {epoch.turn}"
    cut = f"messages before {epoch.cut} as the past, the rest as it was said" if epoch.cut else "all as it was said"
    return [
        ("request", f"turn {asked.turn}, {asked.at:%Y-%m-%d %H:%M:%S} UTC, {asked.status}"),
        ("model", asked.model or "no answer"),
        ("epoch", f"{epoch.n}, {began}: {WHY[epoch.reason]} ({epoch.reason})"),
        ("shown", cut),
        ("budget", f"{epoch.budget:,} bytes; {epoch.rate.bytes / epoch.rate.tokens:.1f} bytes a token"),
        ("tokens", _tokens(asked)),
    ]


def _tokens(asked: Explained) -> str:
    usage = asked.usage
    if usage.input is None:
        return "nobody counted"
    total = usage.input + (usage.cache_read or 0) + (usage.cache_write or 0)
    share = 100 * (usage.cache_read or 0) // total if total else 0
    return f"{total:,} in ({share} % read from cache), {usage.output or 0:,} out"
