"""What the address of a server says to us and not to the driver: whether statements may be prepared. Pure."""

from everlog.errors import Mistake

_SAID = {"prepared=yes": True, "prepared=no": False}


def split(address: str) -> tuple[str, bool | None]:
    """Return the address that the driver knows, and what `prepared` in its query says; None where it is not there.

    A pooler in transaction mode that cannot keep prepared statements needs `?prepared=no`.

    Raises:
        Mistake: it says neither yes nor no.
    """
    head, _, query = address.partition("?")
    parts = query.split("&") if query else []
    said = [part for part in parts if part.startswith("prepared=")]
    if not said:
        return address, None
    if said[-1] not in _SAID:
        raise Mistake(f"{said[-1]} in the address of the database: `prepared` is yes or no")
    rest = "&".join(part for part in parts if part not in said)
    return (f"{head}?{rest}" if rest else head), _SAID[said[-1]]
