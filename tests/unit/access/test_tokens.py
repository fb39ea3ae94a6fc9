"""Keys as they are presented, and how fast requests may come under one."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.access import LOOPBACK, Key, Pace, Principal, is_token, parse, principal
from everlog.access.principal import NAME_CHARS
from everlog.access.tokens import new
from everlog.testing import FrozenClock

TENANTS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=64)


@given(TENANTS)
def test_a_key_names_its_tenant_and_is_read_back_whole(tenant: str):
    token = new(tenant, FrozenClock())
    assert parse(token.text) == token
    assert is_token(token.text)
    assert len(token.digest) == 32


@given(st.text(max_size=80))
def test_what_is_no_key_of_ours_is_none(text: str):
    assert parse(text) is None
    assert parse(f"evl_{text}") is None


CHANGES: dict[str, Callable[[str], str]] = {
    "its last character is gone": lambda text: text[:-1],
    "a space follows": lambda text: f"{text} ",
    "a line break follows": lambda text: f"{text}\n",
    "another prefix": lambda text: text.replace("evl_", "EVL_"),
    "other separators": lambda text: text.replace(".", "_"),
    "padding in front": lambda text: text.replace("evl_", "evl_="),
}


@pytest.mark.parametrize("changed", CHANGES.values(), ids=CHANGES)
def test_a_key_that_was_changed_is_none(changed: Callable[[str], str]):
    assert parse(changed(new("default", FrozenClock()).text)) is None


def test_a_key_and_its_hash_are_not_shown():
    token = new("default", FrozenClock())
    assert token.text not in repr(token)
    assert token.text.rpartition(".")[2] not in repr(token)


def test_only_so_many_requests_come_in_any_minute():
    pace = Pace()
    assert [pace.admit("a", 2, now) for now in (0.0, 10.0)] == [None, None]
    assert pace.admit("a", 2, 20.0) == 40.0
    assert pace.admit("b", 2, 20.0) is None
    assert pace.admit("a", 2, 60.0) is None
    assert pace.admit("a", 2, 61.0) == 9.0


@given(st.integers(1, 5), st.lists(st.floats(0, 30), max_size=60))
def test_whoever_waits_as_long_as_is_said_is_let_in(most: int, pauses: list[float]):
    pace, now, let_in = Pace(), 0.0, []
    for pause in pauses:
        now += pause
        wait = pace.admit("a", most, now)
        if wait is not None:
            assert 0 < wait <= 60
            now += wait + 1e-6
            assert pace.admit("a", most, now) is None
        let_in.append(now)
        assert sum(one > now - 60 for one in let_in) <= most


def test_keys_that_are_not_used_are_forgotten():
    pace = Pace()
    pace.admit("a", 1, 0.0)
    pace.forget(59.0)
    assert pace.admit("a", 1, 59.0) == 1.0
    pace.forget(60.0)
    assert pace.admit("a", 1, 60.0) is None


def test_what_a_key_is_for_wins_over_what_a_request_names():
    now = FrozenClock().now()
    free, bound = Key(id="ab", created_at=now), Key(id="cd", user="ann", project="boat", created_at=now)
    assert principal("t", free, user="bob", project="car").user == "bob"
    assert principal("t", bound, user="bob", project="car").user == "ann"
    assert principal("t", bound, user="bob", project="car").project == "boat"


@given(st.text(max_size=400), st.text(max_size=400))
def test_no_two_principals_have_the_same_name_and_each_fits_its_column(one: str, other: str):
    names = [Principal(tenant="t", key="ab", role="chat", user=user).name for user in (one, other)]
    assert (names[0] == names[1]) == (one == other)
    assert all(len(name) <= NAME_CHARS for name in names)


def test_on_the_loopback_one_person_asks_without_a_key():
    assert LOOPBACK.one_person
    assert LOOPBACK.key is None
    assert LOOPBACK.role == "admin"
