"""What is told to the model before a conversation: once per distinct text, the newest few."""

from everlog import Conversation, Everlog, Message, log
from everlog.log.instructions import KEPT
from everlog.store import Unit


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
