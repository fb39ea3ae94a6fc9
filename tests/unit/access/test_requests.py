"""What each request was: kept without a word of it, found by whose it was, gone with its thread and its user."""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

import everlog
from everlog.access import Requested, asked, asked_by, note
from everlog.access.requests import counted
from everlog.messages import Origin
from everlog.protocols.exchange import Usage

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
