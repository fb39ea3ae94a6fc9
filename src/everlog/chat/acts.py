"""Threads for what programs on an event loop do on a database: ours and bounded, since the loop's own are shared with others.

Who has filled the loop's default threads with slow work of his own holds no turn up.
"""

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

THREADS = 16
"""How many acts run at once; a database does not take more side by side."""

_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}


def _pool() -> ThreadPoolExecutor:
    """Return the threads of this process; a fork has none of its parent's, so it starts its own."""
    process = os.getpid()
    with _lock:
        if process not in _pools:
            _pools.clear()
            _pools[process] = ThreadPoolExecutor(THREADS, thread_name_prefix="everlog-act")
        return _pools[process]


async def acted(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in one of the threads, with the context variables of the caller.

    Cancelling takes back a call that has not begun; one that has is finished, though nobody hears of it.
    """
    run = partial(contextvars.copy_context().run, function, *args)
    return await asyncio.get_running_loop().run_in_executor(_pool(), run)
