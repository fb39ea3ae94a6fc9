"""What each request was: kept without a word of it, found by whose it was, gone with its thread and its user."""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

import everlog
from everlog.access import Requested, answered_by, asked, asked_by, forget, note, oldest, rows, surplus
from everlog.access.requests import counted
from everlog.clock import first_id, new_id
from everlog.messages import Origin
from everlog.protocols.exchange import Usage
from everlog.store.statements import compiler
from everlog.testing import FrozenClock

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def one(n: int, **more: object) -> Requested:
    given = {"id": f"{n:032x}", "at": AT + timedelta(seconds=n), "protocol": "responses", "decision": "append"}
    return Requested(**given | more)  # type: ignore[arg-type]


@pytest.fixture
def home():
    with everlog.open(":memory:") as home:
        home.store.write("default", six_requests, name="test")
        yield home


def six_requests(unit):
    for n in range(6):
        who = {"user": "ann" if n % 2 else "", "session": f"s{n // 2}", "key": "k1" if n < 3 else ""}
        note(unit, one(n, project="boat" if n == 5 else None, **who))


def found(home, **filters) -> list[int]:
    return [int(one.id, 16) for one in home.store.read("default", partial(asked_by, limit=100, **filters))]


def test_requests_come_newest_first_and_in_pages(home):
    assert found(home) == [5, 4, 3, 2, 1, 0]
    page = home.store.read("default", partial(asked_by, limit=2, before=f"{4:032x}"))
    assert [int(one.id, 16) for one in page] == [3, 2]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"user": "ann"}, [5, 3, 1]),
        ({"user": ""}, [4, 2, 0]),
        ({"key": "k1"}, [2, 1, 0]),
        ({"session": "s1"}, [3, 2]),
        ({"project": "boat"}, [5]),
        ({"user": "ann", "key": "k1"}, [1]),
        ({"user": "bob"}, []),
    ],
)
def test_requests_are_found_by_whose_they_were(home, filters, expected):
    assert found(home, **filters) == expected


def test_a_request_comes_back_as_it_was_kept(home):
    tokens = counted(Usage(input=10, output=3, cache_read=70))
    kept = one(9, status=200, thread="t" * 32, first=4, stop=6, ms=120, model="m", nano_usd=5, **tokens)
    home.store.write("default", partial(note, requested=kept), name="test")
    assert home.store.read("default", partial(asked, id_=kept.id)) == kept
    assert kept.tokens == 83
    assert home.store.read("default", partial(asked, id_="0" * 30 + "ff")) is None
    assert home.store.read("another", partial(asked, id_=kept.id)) is None


def test_requests_go_with_their_user_and_with_their_thread(home):
    thread = home.thread("sea")
    thread.append("user", "Hello?", origin=Origin(user="bob"))
    home.thread("boat").append("user", "Hello?", origin=Origin(user="ann"))
    home.store.write("default", partial(note, requested=one(7, thread=thread.id)), name="test")
    home.erase(user="ann")
    assert found(home) == [7, 4, 2, 0]
    home.erase(thread="sea")
    assert found(home) == [4, 2, 0]


def test_an_answer_is_known_to_the_upstream_that_gave_it_to_this_key(home):
    for n, (key, upstream) in enumerate((("k1", "here"), ("k2", "there"), ("k1", None)), start=10):
        kept = one(n, key=key, upstream=upstream, response="resp_1" if upstream else None)
        home.store.write("default", partial(note, requested=kept), name="test")
    by = partial(partial, answered_by, response="resp_1")
    known = {key: home.store.read("default", by(key=key)) for key in ("k1", "k2", "")}
    assert {key: row and row.upstream for key, row in known.items()} == {"k1": "here", "k2": "there", "": None}
    assert home.store.read("another", by(key="k1")) is None


def test_requests_are_forgotten_by_age_and_by_number_the_oldest_first_in_steps():
    clock = FrozenClock(AT, step=timedelta(hours=1))
    with everlog.open(":memory:", clock=clock) as home:
        ids = [new_id(clock) for _ in range(9)]
        for n, id_ in enumerate(ids):
            home.store.write("default", partial(note, requested=one(n, id=id_)), name="test")

        def look(act):
            return home.store.read("default", act)

        assert look(partial(surplus, most=9)) is None
        assert look(partial(surplus, most=7)) == ids[1]
        assert look(partial(oldest, upto=first_id(AT), limit=99)) == []
        assert look(partial(oldest, upto=first_id(AT + timedelta(hours=3, minutes=30)), limit=99)) == ids[:3]
        assert look(partial(oldest, upto=ids[3], limit=2)) == ids[:2]
        assert home.store.write("default", partial(forget, ids=ids[:2]), name="test") == 2
        assert [found.id for found in home.store.read("default", partial(asked_by, limit=99))] == ids[:1:-1]


def test_a_moment_has_an_id_that_none_of_it_and_no_later_one_comes_before():
    id_ = new_id(FrozenClock(AT))
    assert first_id(AT) < id_ < first_id(AT + timedelta(milliseconds=1))


@pytest.mark.parametrize("name", rows.FILTERS)
def test_each_filter_of_requests_has_an_index(home, name):
    query = compiler("sqlite")(rows.REQUESTS[(name,)])
    given = {**query.fixed, "tenant": "default", "before": "g", f"of_{name}": "x", "limit": 9}
    plan = str(home.store.read("default", lambda unit: plan_of(unit, query.sql, given)))
    assert f"ix_exchange_tenant_{name}_id" in plan
    assert "TEMP B-TREE" not in plan


def plan_of(unit, sql: str, given: dict[str, object]) -> list[object]:
    return [tuple(row) for row in unit._connection._raw.execute(f"EXPLAIN QUERY PLAN {sql}", given)]
