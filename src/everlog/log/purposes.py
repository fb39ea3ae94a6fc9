"""What a model is asked for."""

from enum import IntEnum


class Purpose(IntEnum):
    """What a request to a model is for; the numbers are stored."""

    TALK = 0
    """The conversation itself."""
    MEMORY = 1
    """What is derived from it."""
