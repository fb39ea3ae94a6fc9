"""What a past request was made of can be told, for a bounded number of epochs."""

from functools import partial

import pytest

from everlog import context
from everlog.context import EPOCHS_EXPLAINED, Explained, rows
from everlog.context.values import REASONS
from everlog.protocols.exchange import Usage
from everlog.surfaces.reasons import WHY
from tests.unit.context.talking import TENANT, Talk


def explained(talk: Talk, turn: int | None = None) -> Explained | None:
    return talk.memory.store.read(TENANT, partial(context.request, thread=talk.thread.id, turn=turn))


def kept(talk: Talk) -> dict[str, int]:
    """How many requests there are, and how many have items."""
    thread = talk.thread.id

    def count(unit):
        found = [row[2] for row in unit.rows(rows.REQUESTS, thread=thread, limit=10_000)]
        items = {one: len(context.items_of(unit, thread, one)) for one in found}
        return {"requests": len(found), "with items": sum(map(bool, items.values()))}

    return talk.memory.store.read(TENANT, count)


def test_a_request_is_explained_by_what_was_in_it_and_why_its_epoch_opened():
    talk = Talk()
    made = talk.until("full")
    found = explained(talk)
    assert found is not None
    assert (found.id, found.items, found.status) == (made.request, made.items, "sent")
    assert (found.epoch.reason, found.epoch.n, found.is_first) == ("full", made.epoch.n, True)
    talk.ask("and?")
    later = talk.request()
    talk.reply("yes", Usage(input=10, cache_read=90, output=5))
    newest = explained(talk)
    assert newest is not None
    assert (newest.id, newest.is_first, newest.turn) == (later.request, False, found.turn + 1)
    assert (newest.usage.input, newest.usage.cache_read, newest.status) == (10, 90, "answered")
    earlier = explained(talk, found.turn)
    assert earlier is not None
    assert (earlier.id, earlier.items, earlier.is_first) == (found.id, found.items, True)
    assert explained(talk, 10_000) is None


def test_a_turn_of_several_requests_is_explained_by_the_last():
    talk = Talk()
    talk.ask("look")
    talk.request()
    talk.round("found")
    last = talk.request()
    found = explained(talk, 0)
    assert found is not None
    assert found.id == last.request
    assert [one.ref for one in found.items if one.kind == "message"] == ["0-2"]


@pytest.mark.parametrize("more", [2, 8])
def test_requests_of_the_newest_epochs_are_kept_and_older_ones_go_with_all_that_is_of_them(more: int):
    talk = Talk(consumer={"tail": False})
    for n in range(EPOCHS_EXPLAINED + more):
        talk.turn(f"question {n}", "answer")
    newest = explained(talk)
    assert newest is not None
    first = max(0, newest.epoch.n - EPOCHS_EXPLAINED)
    assert first > 0
    assert kept(talk) == {"requests": newest.epoch.n - first + 1, "with items": newest.epoch.n - first + 1}
    assert explained(talk, 0) is None


def test_each_reason_for_which_an_epoch_opens_has_words():
    assert set(WHY) == set(REASONS)
