"""What doctor and stats say of a database beside its threads: its files, encryption and pending erasures."""

from everlog import Everlog, Receipt
from everlog.surfaces.config import Settings

_ENCRYPTION = {"off": "off", "on": "begun, not finished", "complete": "on"}


def encryption(memory: Everlog) -> str:
    """Return whether what is stored is sealed: `off`, `on`, or `begun, not finished`."""
    return _ENCRYPTION[memory.store.encryption()]


def files(settings: Settings) -> dict[str, int]:
    """Return the files of an embedded database, and their bytes."""
    if settings.path is None:
        return {}
    found = [settings.path.with_name(settings.path.name + ending) for ending in ("", "-wal")]
    return {path.name: path.stat().st_size for path in found if path.exists()}


def settled(memory: Everlog) -> list[Receipt]:
    """Go on with what is left of erasures of all tenants, also of those that are gone; return their receipts."""
    return [receipt for tenant in _tenants(memory) for receipt in memory.tenant(tenant).resume()]


def receipts(memory: Everlog) -> list[Receipt]:
    """Return the receipts of all tenants, also of those that are gone."""
    return [receipt for tenant in _tenants(memory) for receipt in memory.tenant(tenant).receipts()]


def _tenants(memory: Everlog) -> list[str]:
    return memory.store.tenants(erased=True)
