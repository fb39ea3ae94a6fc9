"""`everlog db upgrade`: the tables of a server's database."""

from typing import Annotated

import typer

from everlog import Mistake
from everlog.store.migrate import HEAD, REVISIONS, prepare, version
from everlog.store.migrate import upgrade as upgrade_tables
from everlog.store.postgres import PostgresEngine
from everlog.surfaces import opening
from everlog.surfaces.cli import session
from everlog.surfaces.cli.console import line
from everlog.surfaces.cli.output import document


def upgrade(
    context: typer.Context,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", metavar="N", min=1, help="Partitions by tenant of each table of a new database."),
    ] = None,
    app_role: Annotated[
        str | None, typer.Option("--app-role", metavar="ROLE", help="Who reads and writes, if not who upgrades.")
    ] = None,
) -> None:
    """Make or upgrade the tables of a server's database.

    A file upgrades itself when it is opened. With a master key, a database that is made now is encrypted.

    Example:
      everlog --db postgresql://admin@host/chats db upgrade --partitions 16
    """
    here = session.of(context)
    settings = here.settings
    if settings.path is not None:
        if partitions is not None or app_role is not None:
            raise Mistake("--partitions and --app-role are for a server's database, and this is a file")
        opening.require(settings)
        here.open().close()
    else:
        opening.require(settings)
        keys = opening.keys(settings)
        engine = PostgresEngine(settings.database)
        try:
            found = version(engine)
            if found is not None and found not in REVISIONS:
                prepare(engine, encrypted=keys is not None)
            upgrade_tables(engine, encrypted=keys is not None, partitions=partitions or 0, app_role=app_role)
        finally:
            engine.close()
    if here.json:
        document({"database": settings.shown, "schema": HEAD})
    else:
        line(f"{settings.shown} has schema {HEAD}")
