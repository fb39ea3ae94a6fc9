"""What is told to the model before a conversation: once per distinct text, the newest few."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from everlog import Conversation, Erased, Everlog, Message, UnknownThread, log
from everlog.importers import read
from everlog.log.instructions import KEPT
from everlog.store import Unit, open_store
from everlog.testing import FrozenClock


def instruct(memory: Everlog, *texts: str) -> list[str]:
    def act(unit: Unit) -> list[str]:
        thread = log.ensure(unit, "t")
        log.instruct(unit, thread, texts)
        return log.instructions(unit, thread)

    return memory.store.write(memory.name, act, name="test")


def test_a_text_is_kept_once(memory: Everlog):
    assert instruct(memory, "be brief", "be brief") == ["be brief"]
    assert instruct(memory, "be kind", "be brief") == ["be brief", "be kind"]


def test_the_oldest_give_way_to_the_newest(memory: Everlog):
    assert instruct(memory, *(f"{n}" for n in range(KEPT + 3))) == [f"{n}" for n in range(3, KEPT + 3)]
    assert instruct(memory, "new", "3") == [*(f"{n}" for n in range(4, KEPT + 3)), "new"]


def test_more_texts_than_are_kept_change_nothing_when_they_come_again(memory: Everlog):
    texts = [f"{n}" for n in range(KEPT + 3)]
    assert instruct(memory, *texts) == instruct(memory, *texts) == texts[3:]


def test_texts_keep_their_order_where_the_clock_stands_still_or_goes_back():
    clock = FrozenClock()
    with Everlog(open_store(":memory:", clock=clock)) as memory:
        for n in range(2 * KEPT):
            instruct(memory, f"{n}")
        clock.set(clock.now() - timedelta(days=1))
        assert instruct(memory, "last") == [*(f"{n}" for n in range(KEPT + 1, 2 * KEPT)), "last"]


def test_texts_of_any_kind_come_back(memory: Everlog):
    assert instruct(memory, "", "\x00\ud83d") == ["", "\x00\ud83d"]


def test_leading_system_messages_of_an_import_are_no_entries(memory: Everlog):
    told = [Message(kind="system", text=text) for text in ("be brief", "be kind")]
    said = [Message(kind="user", text="hello"), Message(kind="system", text="a note in between")]
    added = memory.add(Conversation(key="t", messages=(*told, *said)))
    assert (added.entries, added.instructions) == (2, 2)
    assert [entry.text for entry in memory.thread("t").entries()] == ["hello", "a note in between"]
    assert instruct(memory) == ["be brief", "be kind"]
    memory.erase(thread="t")
    assert instruct(memory) == []


def test_a_thread_says_what_the_model_was_told_and_an_unknown_or_erased_one_does_not(memory: Everlog):
    instruct(memory, "be brief", "be kind")
    thread = memory.thread("t")
    assert thread.instructions() == ["be brief", "be kind"]
    with pytest.raises(UnknownThread):
        memory.thread("u").instructions()
    memory.erase(thread="t")
    with pytest.raises(Erased):
        thread.instructions()


def test_a_redactor_sees_the_instructions_of_an_export(memory: Everlog, tmp_path: Path):
    instruct(memory, "call Mara at 555-0100")
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"".join(memory.thread("t").export()))

    def careful(message: Message) -> Message:
        return replace(message, text=message.text.replace("555-0100", "[phone]"))

    there = Everlog(memory.store, tenant="there", redactor=careful)
    for found in read(path):
        assert isinstance(found, Conversation)
        assert there.add(found).instructions == 1
    assert there.thread("t").instructions() == ["call Mara at [phone]"]
