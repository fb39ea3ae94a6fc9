"""One database: engines, units of work, keys and encryption, migrations, the erase plan, the statement lint.

Comes in: statements and rows of the packages above. Goes out: the same rows, on SQLite or PostgreSQL, of one tenant
at a time. It knows no table but its own (`rows.py`): what it must know of others' it reads from the schema's `info`.
"""

from everlog.store.statements import Statement, among, joined, metadata, scoped, unscoped
from everlog.store.store import Store, open_store
from everlog.store.unit import Unit

__all__ = ["Statement", "Store", "Unit", "among", "joined", "metadata", "open_store", "scoped", "unscoped"]
