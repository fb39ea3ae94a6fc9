"""What an erasure must reach beside the rows of a database: files of words that wait, and what memories of this process keep."""

import threading
import weakref

from everlog.conversation import leftovers
from everlog.conversation.recollection import Recollection
from everlog.conversation.recorder import Recorder
from everlog.store import Store

_lock = threading.Lock()
_memories: "weakref.WeakKeyDictionary[Recorder, Recollection]" = weakref.WeakKeyDictionary()


def remember(recorder: Recorder, recollection: Recollection) -> None:
    """Note what a memory keeps, for as long as there is the memory."""
    with _lock:
        _memories[recorder] = recollection


def forget(store: Store, tenant: str, *, key: str | None = None, user: str | None = None) -> bool:
    """Drop what waits of a thread, of an end user, or of a whole tenant; say whether there was any.

    Raises:
        Damaged: a file cannot be read, so that nobody knows whose words are in it.
        KeyTrouble: one is sealed under another master key.
    """
    with _lock:
        here = [pair for pair in _memories.items() if pair[0].store is store and pair[0].tenant == tenant]
    found = False
    for recorder, recollection in here:
        if key is None or recorder.key == key:
            found = recorder.forget(user) or found
            recollection.forget()
    return leftovers.forget(store, tenant, key=key, user=user) or found
