"""Two that prepare at the same moment: what one has sent, the other goes on from."""

from functools import partial

from everlog import context
from everlog.context.prepare import _compile, _keep
from tests.unit.context.talking import TENANT, Talk


def test_who_compiled_from_a_row_that_has_changed_keeps_nothing():
    talk = Talk()
    talk.turn("hello", "hi")
    talk.ask("and?")
    terms, thread = talk.terms(), talk.thread.id
    store = talk.memory.store
    stale = store.read(TENANT, partial(_compile, thread=thread, terms=terms))
    talk.round("found")
    made = talk.request()
    keep = partial(_keep, thread=thread, terms=terms, found=stale)
    assert store.write(TENANT, keep, name="test.keep") is False
    newest = store.read(TENANT, lambda unit: context.newest(unit, thread, terms.consumer.key))
    assert newest == made.epoch


def test_of_two_first_epochs_one_is_kept():
    talk = Talk()
    talk.ask("hello")
    terms, thread, store = talk.terms(), talk.thread.id, talk.memory.store
    both = [store.read(TENANT, partial(_compile, thread=thread, terms=terms)) for _ in range(2)]
    kept = [
        store.write(TENANT, partial(_keep, thread=thread, terms=terms, found=one), name="test.keep") for one in both
    ]
    assert kept == [True, False]
