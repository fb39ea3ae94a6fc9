"""Images, sounds and files: once per thread, retired by time, restored when they come again."""

from datetime import timedelta

import pytest

from everlog import Everlog, Media, Message
from everlog.store.sqlite import SQLiteEngine
from everlog.testing import FrozenClock

PNG = Media(media_type="image/png", content=b"the bytes of a picture" * 20, name="a.png", url="https://x.test/a.png")
WAV = Media(media_type="audio/wav", content=b"the bytes of a sound" * 20)


def show(memory: Everlog, key: str, *parts: Media) -> None:
    memory.thread(key).turn([Message(kind="user", text="look", parts=parts)])


def rows(memory: Everlog, table: str) -> list[tuple[object, ...]]:
    engine = memory.store.engine
    assert isinstance(engine, SQLiteEngine)
    return engine.maintain(lambda raw: raw.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall())


def contents(memory: Everlog, key: str) -> list[bytes | None]:
    found = [entry.message.parts for entry in memory.thread(key).entries()]
    return [part.content for parts in found for part in parts if isinstance(part, Media)]


def test_the_same_bytes_are_stored_once_for_a_thread(memory: Everlog):
    show(memory, "a", PNG, PNG)
    show(memory, "a", WAV, PNG)
    show(memory, "b", PNG)
    assert len(rows(memory, "blob")) == 3
    assert len(rows(memory, "blob_use")) == 4
    assert contents(memory, "a") == [PNG.content, PNG.content, WAV.content, PNG.content]


def test_forks_read_their_parents_bytes(memory: Everlog):
    show(memory, "a", PNG)
    memory.thread("a").fork(1, "b")
    show(memory, "b", PNG)
    assert contents(memory, "b") == [PNG.content, PNG.content]
    assert len(rows(memory, "blob")) == 2


@pytest.mark.parametrize("content", [b"", b"\x00", bytes(range(256))])
def test_any_bytes_come_back(memory: Everlog, content: bytes):
    show(memory, "a", Media(media_type="x/y", content=content))
    assert contents(memory, "a") == [content]


def test_a_reference_without_bytes_stores_none(memory: Everlog):
    show(memory, "a", Media(media_type="image/png", url="https://x.test/a.png"))
    assert rows(memory, "blob") == []
    assert contents(memory, "a") == [None]


def test_retention_takes_old_bytes_and_leaves_what_they_were(memory: Everlog, clock: FrozenClock):
    show(memory, "a", PNG)
    show(memory, "b", PNG)
    clock.advance(timedelta(days=10))
    show(memory, "a", WAV)
    assert memory.retire_media(clock.now() - timedelta(days=1)) == 2
    assert memory.retire_media(clock.now() - timedelta(days=1)) == 0
    assert contents(memory, "a") == [None, WAV.content]
    (part,) = next(memory.thread("a").entries()).message.parts
    assert isinstance(part, Media)
    assert (part.media_type, part.name, part.url) == (PNG.media_type, PNG.name, PNG.url)
    assert [fault for part in memory.verify() for fault in part.faults] == []


def test_bytes_that_are_shown_again_are_young_and_retired_ones_come_back(memory: Everlog, clock: FrozenClock):
    show(memory, "a", PNG, WAV)
    clock.advance(timedelta(days=10))
    show(memory, "a", PNG)
    assert memory.retire_media(clock.now() - timedelta(days=1)) == 1
    assert contents(memory, "a") == [PNG.content, None, PNG.content]
    show(memory, "a", WAV)
    assert contents(memory, "a") == [PNG.content, WAV.content, PNG.content, WAV.content]
    assert [fault for part in memory.verify() for fault in part.faults] == []


def test_retired_bytes_of_shared_entries_are_handed_over_as_retired(memory: Everlog, clock: FrozenClock):
    show(memory, "a", PNG)
    fork = memory.thread("a").fork(1, "b")
    memory.retire_media(clock.now() + timedelta(days=1))
    memory.erase(thread="a")
    assert contents(memory, "b") == [None]
    assert [fault for part in fork.verify() for fault in part.faults] == []
