"""Named points at which a test can stop the process or raise, to prove that a crash loses nothing.

Each commit hits `<unit>.before_commit` and `<unit>.after_commit`. Without a listener a hit is one dictionary look-up.
Only `everlog.testing` installs one.
"""

from collections.abc import Callable

Listener = Callable[[str], None]

_listener: Listener | None = None


def hit(name: str) -> None:
    """Tell the listener, if there is one, that execution stands at the point."""
    if _listener is not None:
        _listener(name)


def listen(listener: Listener | None) -> None:
    """Install the one listener, or remove it."""
    global _listener  # noqa: PLW0603 -- one switch for the process, set by tests only
    _listener = listener
