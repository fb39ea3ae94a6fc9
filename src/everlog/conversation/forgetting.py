"""What an erasure, or the end of a database, must reach beside its rows: files of words that wait, and what memories of this
process keep.
"""

import threading
import weakref

from everlog.conversation.recording import leftovers
from everlog.conversation.recording.recollection import Recollection
from everlog.conversation.recording.recorder import Recorder
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


def let_go(store: Store) -> None:
    """Let go of the threads of turns that are under way here, before their database is closed."""
    with _lock:
        here = [recorder for recorder in _memories if recorder.store is store]
    for recorder in here:
        recorder.let_go()
