"""Everlog: endless memory for any LLM app.

    import everlog

    memory = everlog.open("chats.db")
    memory.thread("holiday").append("user", "Let us go to the sea in June.")

Every message is kept word for word in an append-only log; cheap, disposable memories are derived from it. Names are
loaded when they are first used, so that importing this costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everlog.clock import Clock, SystemClock
    from everlog.conversation.database import Everlog, Overview, Redactor, open  # noqa: A004 -- reads as `everlog.open`
    from everlog.conversation.intake import Added
    from everlog.conversation.stats import Stats
    from everlog.conversation.thread import Thread
    from everlog.conversation.tree import Tree
    from everlog.errors import (
        BadImport,
        BudgetTooSmall,
        Conflict,
        Damaged,
        Erased,
        EverlogError,
        KeyTrouble,
        Mistake,
        PartTooLarge,
        PumpTimeout,
        SchemaMismatch,
        StoreUnavailable,
        Trouble,
        UnknownAddress,
        UnknownThread,
    )
    from everlog.importers import Problem, Reading, read
    from everlog.log import Appended, NewTurn, Receipt, TurnState
    from everlog.messages import Call, Conversation, Entry, Media, Message, Origin, Result, Unknown
    from everlog.store.keys import KeyProvider, MasterKeys

__version__ = "0.1.0.dev0"

_HOME = {
    "everlog.conversation.database": ("Everlog", "Overview", "Redactor", "open"),
    "everlog.conversation.thread": ("Thread",),
    "everlog.conversation.tree": ("Tree",),
    "everlog.conversation.intake": ("Added",),
    "everlog.conversation.stats": ("Stats",),
    "everlog.importers": ("Problem", "Reading", "read"),
    "everlog.log": ("Appended", "NewTurn", "Receipt", "TurnState"),
    "everlog.messages": ("Call", "Conversation", "Entry", "Media", "Message", "Origin", "Result", "Unknown"),
    "everlog.store.keys": ("KeyProvider", "MasterKeys"),
    "everlog.clock": ("Clock", "SystemClock"),
    "everlog.errors": (
        "BadImport",
        "BudgetTooSmall",
        "Conflict",
        "Damaged",
        "Erased",
        "EverlogError",
        "KeyTrouble",
        "Mistake",
        "PartTooLarge",
        "PumpTimeout",
        "SchemaMismatch",
        "StoreUnavailable",
        "Trouble",
        "UnknownAddress",
        "UnknownThread",
    ),
}

_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Added",
    "Appended",
    "BadImport",
    "BudgetTooSmall",
    "Call",
    "Clock",
    "Conflict",
    "Conversation",
    "Damaged",
    "Entry",
    "Erased",
    "Everlog",
    "EverlogError",
    "KeyProvider",
    "KeyTrouble",
    "MasterKeys",
    "Media",
    "Message",
    "Mistake",
    "NewTurn",
    "Origin",
    "Overview",
    "PartTooLarge",
    "Problem",
    "PumpTimeout",
    "Reading",
    "Receipt",
    "Redactor",
    "Result",
    "SchemaMismatch",
    "Stats",
    "StoreUnavailable",
    "SystemClock",
    "Thread",
    "Tree",
    "Trouble",
    "TurnState",
    "Unknown",
    "UnknownAddress",
    "UnknownThread",
    "__version__",
    "open",
    "read",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'everlog' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
