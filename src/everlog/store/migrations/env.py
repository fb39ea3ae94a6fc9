"""Alembic's entry: runs the revisions on the connection that `everlog.store.migrate` hands over."""

from alembic import context

from everlog.store.migrate import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
context.run_migrations()
