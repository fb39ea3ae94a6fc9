"""Lines of the log: one for each request, and what went wrong beside it. Never a word of a body, never an address.

A message is constant; facts are in fields, whose names are the list below.
"""

import json
import logging
import sys
from typing import Literal, TextIO

from everlog.clock import isoformat, moment

FIELDS = (
    "method",
    "route",
    "status",
    "ms",
    "received_bytes",
    "sent_bytes",
    "request_id",
    "degraded",
    "upstream",
    "event",
    "reason",
    "act",
    "error",
)
"""All that a line can say beside its time, level, logger and message."""

Form = Literal["text", "json"]


def begin(level: str, form: Form, stream: TextIO | None = None) -> None:
    """Write what the package logs from a level on to standard error."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Lines(form))
    logger = logging.getLogger("everlog")
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())


def begin_in_a_server(level: str, form: Form) -> None:
    """Begin lines in a server of somebody else, unless its program says already where they go."""
    if not logging.getLogger("everlog").hasHandlers():
        begin(level, form)


def adopt(name: str) -> None:
    """Write what another logger warns of in the same way."""
    ours, theirs = logging.getLogger("everlog"), logging.getLogger(name)
    theirs.handlers[:] = ours.handlers
    theirs.setLevel(max(logging.WARNING, ours.level))
    theirs.propagate = False


class Lines(logging.Formatter):
    """Writes a record as one line."""

    def __init__(self, form: Form) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; of an exception only its kind is told."""
        said = {name: getattr(record, name) for name in FIELDS if getattr(record, name, None) is not None}
        if record.exc_info and record.exc_info[0] is not None:
            said.setdefault("error", record.exc_info[0].__name__)
        head = {
            "time": isoformat(moment(int(record.created * 1_000_000))),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if self._form == "json":
            return json.dumps({**head, **said}, separators=(",", ":"))
        facts = "".join(f" {name}={value}" for name, value in said.items())
        return f"{head['time']} {head['level']} {head['message']}{facts}"
