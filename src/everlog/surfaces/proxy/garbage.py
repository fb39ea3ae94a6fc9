"""Garbage of the process that serves, collected beside its event loop.

Python looks for garbage in whatever thread makes the next object, and a look at all objects lets no other thread run: 50 ms
for what is imported alone, more while a long history is read. Here what is there at the start is never looked at again,
and old objects are looked at in a thread, now and then; young ones as ever, which takes no time.
"""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager

EVERY_S = 5
"""How often it is asked whether there is something to collect, in seconds."""

DUE = 10
"""So many looks at objects of middle age call for one at all; Python's own number."""

NEVER = 2**30


@contextmanager
def beside() -> Iterator[None]:
    """While the block runs, Python does not look at old objects by itself."""
    before = gc.get_threshold()
    gc.set_threshold(*before[:2], NEVER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def settle() -> None:
    """Take what is there now for what stays."""
    gc.collect()
    gc.freeze()


async def collect(every_s: float = EVERY_S) -> None:
    """Collect what became garbage when it was old, until cancelled."""
    while True:
        await asyncio.sleep(every_s)
        if gc.get_count()[2] >= DUE:
            await asyncio.to_thread(gc.collect)
