"""Runs the revisions on a connection that is in a transaction. Apart, since its toolkit takes long to load."""

from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def run(connection: Connection, attributes: dict[str, Any]) -> None:
    """Bring the tables to the newest revision; `attributes` are what the revisions ask for."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.set_main_option("path_separator", "os")
    config.attributes.update(attributes, connection=connection)
    command.upgrade(config, "head")
