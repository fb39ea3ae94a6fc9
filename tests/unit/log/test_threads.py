"""Threads and forks: keys, segments, where turns go on."""

from collections.abc import Callable
from functools import partial

import pytest

from everlog import Conflict, Erased, Everlog, Message, Mistake, NewTurn, Origin, UnknownThread, log
from everlog.log.threads import END, KEY_LENGTH, VARIANTS
from everlog.testing import FrozenClock


def filled(memory: Everlog, key: str, turns: int) -> None:
    for n in range(turns):
        said = [Message(kind="user", text=f"{key}{n}"), Message(kind="assistant", text=f"{key}{n}!")]
        memory.thread(key).turn(said)


def shown(memory: Everlog, key: str) -> list[tuple[int, str]]:
    return [(entry.turn, entry.text) for entry in memory.thread(key).entries()]


@pytest.mark.parametrize("key", ["", "x" * (KEY_LENGTH + 1), "a\nb", "a\x00b", "\ud83d", "\u2028"])
def test_a_key_that_cannot_be_shown_and_stored_is_refused(memory: Everlog, key: str):
    with pytest.raises(Mistake, match="printable characters"):
        memory.thread(key)
    memory.thread("x" * KEY_LENGTH).append("user", "fits")
    memory.thread("straße/日本 1~2").append("user", "fits")


def test_an_unknown_thread_is_named_in_the_error(memory: Everlog):
    acts: list[Callable[[], object]] = [
        memory.thread("nowhere").row,
        partial(list, memory.thread("nowhere").entries()),
        memory.thread("nowhere").pump,
    ]
    for act in acts:
        with pytest.raises(UnknownThread, match="'nowhere'"):
            act()


@pytest.mark.parametrize("at", range(7))
def test_a_fork_shares_what_is_below_and_goes_its_own_way(memory: Everlog, at: int):
    filled(memory, "p", 3)
    before = shown(memory, "p")
    fork = memory.thread("p").fork(at, "f")
    assert fork.row().segments == ((memory.thread("p").id, at), (fork.id, END))[at == 0 :]
    assert shown(memory, "f") == before[:at]
    fork.append("assistant", "goes on")
    fork.append("user", "asks")
    memory.thread("p").append("user", "elsewhere")
    turns = [turn for turn, _ in before[:at]]
    last = turns[-1] if turns else 0
    assert shown(memory, "f") == [*before[:at], (last, "goes on"), (last + 1, "asks")]
    assert shown(memory, "p")[:6] == before
    assert [fault for part in memory.verify() for fault in part.faults] == []


def test_a_fork_inside_a_turn_has_its_own_part_of_it_with_the_same_origin(memory: Everlog):
    origin = Origin(session="s", user="u", project="p", cwd="/home/ada")
    memory.thread("p").turn([Message(kind="user", text="q"), Message(kind="assistant", text="a")], origin=origin)
    fork = memory.thread("p").fork(1, "f")
    fork.extend([NewTurn(messages=(Message(kind="assistant", text="b"),), more=True, origin=Origin(user="v"))])
    fork.extend([NewTurn(messages=(Message(kind="assistant", text="c"),), more=True)])
    assert [entry.origin for entry in fork.entries()] == [origin] * 3
    memory.erase(thread="p")
    assert [(entry.turn, entry.text, entry.origin) for entry in fork.entries()] == [
        (0, text, origin) for text in ("q", "b", "c")
    ]
    assert [fault for part in fork.verify() for fault in part.faults] == []


def test_forks_of_forks_list_their_owners_flat(memory: Everlog):
    filled(memory, "a", 3)
    ids = [memory.thread("a").id]
    for n, (at, key) in enumerate([(5, "b"), (7, "c"), (9, "d")]):
        fork = memory.thread("abc"[n]).fork(at - 1, key)
        fork.append("user", f"{key} 1")
        fork.append("user", f"{key} 2")
        fork.append("user", f"{key} 3")
        ids.append(fork.id)
    assert memory.thread("d").row().segments == ((ids[0], 4), (ids[1], 6), (ids[2], 8), (ids[3], END))
    low = memory.thread("d").fork(5, "low")
    assert low.row().segments == ((ids[0], 4), (ids[1], 5), (low.id, END))
    assert [entry.text for entry in low.entries()] == ["a0", "a0!", "a1", "a1!", "b 1"]


def test_a_fork_beyond_the_end_or_under_a_taken_name_is_refused(memory: Everlog):
    filled(memory, "p", 1)
    for at in (-1, 3):
        with pytest.raises(Mistake, match=f"cannot fork at {at}: the thread has 2 entries"):
            memory.thread("p").fork(at, "f")
    with pytest.raises(Conflict, match="there is a thread 'p' already"):
        memory.thread("p").fork(1, "p")
    assert [overview.key for overview in memory.threads()] == ["p"]


def test_a_fork_is_listed_after_its_parent_also_when_the_clock_stands_or_goes_back(memory: Everlog, clock: FrozenClock):
    filled(memory, "p", 1)
    for n in range(8):
        clock.set(FrozenClock().now())
        memory.thread("p" if not n else f"f{n - 1}").fork(1, f"f{n}")
    assert [overview.key for overview in memory.threads()] == ["p", *(f"f{n}" for n in range(8))]


def test_threads_are_listed_with_their_parents_over_many_pages(memory: Everlog):
    filled(memory, "p", 1)
    for n in range(620):
        memory.thread("p").fork(1, f"f{n:03}", title=f"fork {n}")
    found = list(memory.threads())
    assert [overview.key for overview in found] == ["p", *(f"f{n:03}" for n in range(620))]
    assert {overview.forked_from for overview in found[1:]} == {"p"}
    assert (found[5].title, found[5].entries, found[5].turns) == ("fork 4", 1, 1)


def test_other_ways_of_a_conversation_are_found_by_name(memory: Everlog):
    names = [log.variant("k", n) for n in (1, 2, 3, VARIANTS + 1, 3 * VARIANTS + 1)]
    for name in names:
        memory.thread(name).append("user", name)
    ids = {name: memory.thread(name).id for name in names}
    assert memory.store.read(memory.name, partial(log.variants, key="k")) == [ids[name] for name in names[:4]]
    long = log.variant("k" * KEY_LENGTH, 12)
    assert (len(long), long[-3:]) == (KEY_LENGTH, "~12")


def test_a_thread_that_is_held_knows_when_it_was_erased(memory: Everlog):
    filled(memory, "t", 1)
    held = memory.thread("t")
    assert held.row().next == 2
    memory.erase(thread="t")
    entries = held.entries()
    acts: list[Callable[[], object]] = [held.row, lambda: list(entries), lambda: held.append("user", "x")]
    for act in (*acts, lambda: held.fork(1, "f")):
        with pytest.raises(Erased, match="was erased"):
            act()
