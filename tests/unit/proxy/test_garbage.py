"""Old garbage is collected in a thread, and what was there at the start is not looked at."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from everlog.surfaces.proxy.garbage import DUE, beside, collect, settle


class Knot:
    """Refers to itself."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def full_looks() -> Iterator[list[str]]:
    threads: list[str] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start" and info["generation"] == 2:
            threads.append(threading.current_thread().name)

    gc.callbacks.append(note)
    yield threads
    gc.callbacks.remove(note)


def grown_old() -> weakref.ref[Knot]:
    """Return garbage that is too old for the looks that Python takes by itself."""
    knot = Knot()
    for _ in range(DUE + 1):
        gc.collect(1)
    return weakref.ref(knot)


async def collected(old: weakref.ref[Knot]) -> None:
    collecting = asyncio.create_task(collect(0))
    async with asyncio.timeout(10):
        while old() is not None:  # noqa: ASYNC110 -- garbage tells nobody
            await asyncio.sleep(0)
    collecting.cancel()


def test_old_garbage_is_collected_but_not_on_the_event_loop(full_looks: list[str]):
    with beside():
        old = grown_old()
        assert old() is not None
        full_looks.clear()
        asyncio.run(collected(old))
    assert full_looks
    assert threading.main_thread().name not in full_looks


def test_python_takes_no_full_look_by_itself_until_the_end(full_looks: list[str]):
    before = gc.get_threshold()
    with beside():
        settle()
        assert gc.get_freeze_count()
        full_looks.clear()
        kept = [[n] for n in range(200_000)]
        assert len(kept) == 200_000
        assert not full_looks
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)
