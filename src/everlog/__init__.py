"""Everlog: endless memory for any LLM app.

    import everlog

    memory = everlog.attach("anthropic/claude-sonnet-5-5", key="holiday")
    memory.turn("Which sea is warm in June?")

    home = everlog.open("chats.db")
    home.thread("holiday").append("user", "Let us go to the sea in June.")

    everlog.Chat("anthropic/claude-sonnet-5-5").ask("Which sea is warm in June?")

Every message is kept word for word in an append-only log; cheap, disposable memories are derived from it. Names are
loaded when they are first used, so that importing this costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everlog.chat.async_chat import AsyncChat
    from everlog.chat.attachments import attachment
    from everlog.chat.chat import Chat
    from everlog.chat.cost import Cost
    from everlog.chat.effects import Timeouts
    from everlog.chat.ledger import Attempt
    from everlog.chat.loop import Fallback
    from everlog.chat.message import ChatMessage, Chunk
    from everlog.chat.retries import Retry
    from everlog.chat.routes import ChatConfig
    from everlog.chat.tools import Tool, ToolCall, tool
    from everlog.clock import Clock, SystemClock
    from everlog.conversation.alignment.intake import Added
    from everlog.conversation.attach import attach
    from everlog.conversation.costs import Costs
    from everlog.conversation.database import Everlog, Overview, Redactor, open  # noqa: A004 -- reads as `everlog.open`
    from everlog.conversation.memory import AsyncMemory, Memory
    from everlog.conversation.stats import Stats
    from everlog.conversation.status import MemoryStatus
    from everlog.conversation.thread import Thread
    from everlog.conversation.tree import Tree
    from everlog.errors import (
        BadImport,
        BadReply,
        BadRequest,
        BudgetTooSmall,
        Busy,
        Cancelled,
        Conflict,
        ConnectionFailed,
        ContextTooLong,
        Damaged,
        Erased,
        EverlogError,
        Forbidden,
        KeyTrouble,
        MissingCredentials,
        Mistake,
        NeverSent,
        Overloaded,
        PartTooLarge,
        PaymentRequired,
        PendingCalls,
        ProtocolError,
        ProviderFailed,
        ProviderTimeout,
        ProviderTrouble,
        ProviderUnavailable,
        PumpTimeout,
        RateLimited,
        SchemaMismatch,
        SpendCapReached,
        StoreUnavailable,
        Trouble,
        Unauthorized,
        UnknownAddress,
        UnknownModel,
        UnknownThread,
        UnsupportedAttachment,
    )
    from everlog.importers import Problem, Reading, read
    from everlog.log import Appended, NewTurn, Receipt, Spent, TurnState
    from everlog.messages import Call, Conversation, Entry, Media, Message, Origin, Result, Unknown
    from everlog.protocols.exchange import Usage
    from everlog.store.keys import KeyProvider, MasterKeys

__version__ = "0.1.0.dev0"

_HOME = {
    "everlog.conversation.attach": ("attach",),
    "everlog.conversation.memory": ("AsyncMemory", "Memory"),
    "everlog.conversation.status": ("MemoryStatus",),
    "everlog.conversation.database": ("Everlog", "Overview", "Redactor", "open"),
    "everlog.conversation.thread": ("Thread",),
    "everlog.conversation.costs": ("Costs",),
    "everlog.conversation.tree": ("Tree",),
    "everlog.conversation.alignment.intake": ("Added",),
    "everlog.conversation.stats": ("Stats",),
    "everlog.chat.chat": ("Chat",),
    "everlog.chat.async_chat": ("AsyncChat",),
    "everlog.chat.routes": ("ChatConfig",),
    "everlog.chat.message": ("ChatMessage", "Chunk"),
    "everlog.chat.tools": ("Tool", "ToolCall", "tool"),
    "everlog.chat.attachments": ("attachment",),
    "everlog.chat.loop": ("Fallback",),
    "everlog.chat.ledger": ("Attempt",),
    "everlog.chat.cost": ("Cost",),
    "everlog.chat.effects": ("Timeouts",),
    "everlog.chat.retries": ("Retry",),
    "everlog.importers": ("Problem", "Reading", "read"),
    "everlog.log": ("Appended", "NewTurn", "Receipt", "Spent", "TurnState"),
    "everlog.messages": ("Call", "Conversation", "Entry", "Media", "Message", "Origin", "Result", "Unknown"),
    "everlog.protocols.exchange": ("Usage",),
    "everlog.store.keys": ("KeyProvider", "MasterKeys"),
    "everlog.clock": ("Clock", "SystemClock"),
    "everlog.errors": (
        "BadImport",
        "BadReply",
        "BadRequest",
        "BudgetTooSmall",
        "Busy",
        "Cancelled",
        "Conflict",
        "ConnectionFailed",
        "ContextTooLong",
        "Damaged",
        "Erased",
        "EverlogError",
        "Forbidden",
        "KeyTrouble",
        "MissingCredentials",
        "Mistake",
        "NeverSent",
        "Overloaded",
        "PartTooLarge",
        "PaymentRequired",
        "PendingCalls",
        "ProtocolError",
        "ProviderFailed",
        "ProviderTimeout",
        "ProviderTrouble",
        "ProviderUnavailable",
        "PumpTimeout",
        "RateLimited",
        "SchemaMismatch",
        "SpendCapReached",
        "StoreUnavailable",
        "Trouble",
        "Unauthorized",
        "UnknownAddress",
        "UnknownModel",
        "UnknownThread",
        "UnsupportedAttachment",
    ),
}

_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Added",
    "Appended",
    "AsyncChat",
    "AsyncMemory",
    "Attempt",
    "BadImport",
    "BadReply",
    "BadRequest",
    "BudgetTooSmall",
    "Busy",
    "Call",
    "Cancelled",
    "Chat",
    "ChatConfig",
    "ChatMessage",
    "Chunk",
    "Clock",
    "Conflict",
    "ConnectionFailed",
    "ContextTooLong",
    "Conversation",
    "Cost",
    "Costs",
    "Damaged",
    "Entry",
    "Erased",
    "Everlog",
    "EverlogError",
    "Fallback",
    "Forbidden",
    "KeyProvider",
    "KeyTrouble",
    "MasterKeys",
    "Media",
    "Memory",
    "MemoryStatus",
    "Message",
    "MissingCredentials",
    "Mistake",
    "NeverSent",
    "NewTurn",
    "Origin",
    "Overloaded",
    "Overview",
    "PartTooLarge",
    "PaymentRequired",
    "PendingCalls",
    "Problem",
    "ProtocolError",
    "ProviderFailed",
    "ProviderTimeout",
    "ProviderTrouble",
    "ProviderUnavailable",
    "PumpTimeout",
    "RateLimited",
    "Reading",
    "Receipt",
    "Redactor",
    "Result",
    "Retry",
    "SchemaMismatch",
    "SpendCapReached",
    "Spent",
    "Stats",
    "StoreUnavailable",
    "SystemClock",
    "Thread",
    "Timeouts",
    "Tool",
    "ToolCall",
    "Tree",
    "Trouble",
    "TurnState",
    "Unauthorized",
    "Unknown",
    "UnknownAddress",
    "UnknownModel",
    "UnknownThread",
    "UnsupportedAttachment",
    "Usage",
    "__version__",
    "attach",
    "attachment",
    "open",
    "read",
    "tool",
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
