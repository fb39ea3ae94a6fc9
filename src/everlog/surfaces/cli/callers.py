"""Commands about keys of callers, who ask through the proxy: keys create, keys list, keys revoke."""

from datetime import timedelta
from functools import partial
from typing import Annotated, cast

import typer

from everlog import Mistake, access
from everlog.access import Key, Limits, Mode, Role, Used
from everlog.clock import isoformat
from everlog.messages import JSON
from everlog.surfaces.cli import session
from everlog.surfaces.cli.console import line, note
from everlog.surfaces.cli.output import array, document, table

Name = Annotated[str | None, typer.Argument(metavar="NAME", help="What it is for; not secret.", show_default=False)]
Asked = Annotated[
    str,
    typer.Option(
        "--role", metavar="ROLE", help="chat asks models; read also looks at everything; admin may also erase."
    ),
]
User = Annotated[
    str | None, typer.Option("--user", metavar="ID", help="Whose all its requests are.", show_default=False)
]
Project = Annotated[
    str | None, typer.Option("--project", metavar="ID", help="What all its requests are about.", show_default=False)
]
OnePerson = Annotated[
    bool,
    typer.Option(
        "--one-person", help="Only one person stands behind it: a trimmed history still finds its conversation."
    ),
]
How = Annotated[
    str | None,
    typer.Option(
        "--mode",
        metavar="MODE",
        help="tree, rolling, record or off, unless a request says so itself.",
        show_default=False,
    ),
]
Budget = Annotated[
    int | None,
    typer.Option("--budget", metavar="TOKENS", help="What memory may take of its prompts.", show_default=False),
]
Pace = Annotated[
    int | None,
    typer.Option("--requests-per-minute", metavar="N", help="Counted by each server.", show_default=False),
]
Tokens = Annotated[
    int | None, typer.Option("--tokens-per-day", metavar="N", help="Of all kinds, UTC.", show_default=False)
]
Money = Annotated[
    float | None,
    typer.Option("--usd-per-month", metavar="USD", help="Where the price is known.", show_default=False),
]
Days = Annotated[
    int | None, typer.Option("--days", metavar="N", min=1, help="How long it is good for.", show_default=False)
]


def create(
    context: typer.Context,
    name: Name = None,
    role: Asked = "chat",
    user: User = None,
    project: Project = None,
    one_person: OnePerson = False,
    mode: How = None,
    budget: Budget = None,
    requests: Pace = None,
    tokens: Tokens = None,
    usd: Money = None,
    days: Days = None,
) -> None:
    """Make a key for a caller of the proxy, and print it.

    It is shown once: only a hash of it is kept. A caller presents it as X-Everlog-Key, or as the ordinary key of its SDK.

    Examples:
      everlog keys create laptop --one-person
      everlog keys create agent --mode tree --budget 50000
      everlog keys create team --requests-per-minute 120 --usd-per-month 50
    """
    here = session.of(context)
    limits = Limits(requests_per_minute=requests, tokens_per_day=tokens, usd_per_month=usd)
    with here.open(create=True) as memory:
        until = None if days is None else memory.store.clock.now() + timedelta(days=days)
        act = partial(
            access.create,
            role=cast("Role", role),
            name=name,
            user=user,
            project=project,
            one_person=one_person,
            mode=cast("Mode | None", mode),
            budget_tokens=budget,
            limits=limits,
            expires_at=until,
        )
        made = memory.store.write(memory.name, act, name="keys.create")
    if here.json:
        document({**_shown(made.key), "token": made.token})
        return
    line(made.token)
    note(f"key {made.key.id}: keep it now, it cannot be shown again. `everlog keys revoke {made.key.id}` ends it.")


def list_keys(context: typer.Context) -> None:
    """List the keys of callers.

    REQUESTS and TOKENS are those of this month, UTC.

    Example:
      everlog keys list
    """
    here = session.of(context)
    with here.open() as memory:
        found = memory.store.read(memory.name, access.keys)
        now = memory.store.clock.now()
        month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        took = {key.id: memory.store.read(memory.name, partial(access.used, key=key.id, since=month)) for key in found}
    if here.json:
        array({**_shown(key), "used_this_month": _used(took[key.id])} for key in found)
        return
    if not found:
        note(f"no keys of tenant {here.settings.tenant!r}; `everlog keys create` makes one")
        return
    rows = []
    for key in found:
        is_over = key.expires_at is not None and key.expires_at <= now
        state = "revoked" if key.revoked_at is not None else "expired" if is_over else "good"
        rows.append(
            (
                key.id,
                key.role,
                state,
                f"{key.created_at:%Y-%m-%d}",
                took[key.id].requests,
                took[key.id].tokens,
                key.name or "",
                _about(key),
            )
        )
    table(("KEY", "ROLE", "STATE", "MADE", "REQUESTS", "TOKENS", "NAME", "FOR"), rows)


def revoke(
    context: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Its id, the beginning of it, or its name.")],
) -> None:
    """Have a key of a caller open nothing from now on.

    Servers that know it notice within seconds.

    Example:
      everlog keys revoke laptop
    """
    if access.is_token(key):
        raise Mistake("name a key by its id, which `everlog keys list` shows, and keep the key itself out of commands")
    here = session.of(context)
    with here.open() as memory:
        revoked = memory.store.write(memory.name, partial(access.revoke, named=key), name="keys.revoke")
    if here.json:
        document(_shown(revoked))
    else:
        line(f"key {revoked.id} opens nothing any more")


def _about(key: Key) -> str:
    """Return whose a key is, what is done with its conversations, and how much it may, in words."""
    limits = key.limits
    said = (
        f"user {key.user}" if key.user else "",
        f"project {key.project}" if key.project else "",
        "one person" if key.one_person else "",
        f"mode {key.mode}" if key.mode else "",
        f"{key.budget_tokens:,} tokens of memory" if key.budget_tokens else "",
        f"{limits.requests_per_minute:,} requests/minute" if limits.requests_per_minute else "",
        f"{limits.tokens_per_day:,} tokens/day" if limits.tokens_per_day else "",
        f"{_dollars(limits.usd_per_month)}/month" if limits.usd_per_month else "",
        f"until {key.expires_at:%Y-%m-%d}" if key.expires_at else "",
    )
    return ", ".join(filter(None, said))


def _dollars(usd: float) -> str:
    """Return a price with as many places as it takes."""
    return f"${usd:,.2f}" if round(usd, 2) == usd else f"${usd:,.6f}".rstrip("0")


def _used(used: Used) -> JSON:
    return {
        "requests": used.requests,
        "tokens": used.tokens,
        "usd": used.nano_usd / 1e9,
        "unpriced": used.unpriced,
    }


def _shown(key: Key) -> dict[str, JSON]:
    limits = key.limits
    return {
        "id": key.id,
        "role": key.role,
        "name": key.name,
        "user": key.user,
        "project": key.project,
        "one_person": key.one_person,
        "mode": key.mode,
        "budget_tokens": key.budget_tokens,
        "requests_per_minute": limits.requests_per_minute,
        "tokens_per_day": limits.tokens_per_day,
        "usd_per_month": limits.usd_per_month,
        "created_at": isoformat(key.created_at),
        "expires_at": None if key.expires_at is None else isoformat(key.expires_at),
        "revoked_at": None if key.revoked_at is None else isoformat(key.revoked_at),
    }
