"""Who gets in: keys in any header that clients put them in, revoked soon after, limits, and a database that is away."""

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

import everlog
from everlog import access
from everlog.access import LOOPBACK, Limits
from everlog.errors import Damaged, StoreUnavailable
from everlog.store import Store, open_store
from everlog.surfaces.proxy import admission
from everlog.surfaces.proxy.admission import Admitted, Door, Refusal, presented
from everlog.surfaces.proxy.incoming import Headers
from everlog.testing import FrozenClock


class Seconds:
    """A clock that stands until it is told to go on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(step=timedelta(milliseconds=1))


@pytest.fixture
def store(clock: FrozenClock) -> Store:
    return open_store(":memory:", clock=clock)


def made(store: Store, tenant: str = "default", **given) -> str:
    return store.write(tenant, partial(access.create, **given), name="keys.create").token


def keyed(token: str) -> Headers:
    return ((b"x-everlog-key", token.encode()),)


def ask(door: Door, headers: Headers, **named: Any) -> Admitted | Refusal:
    return asyncio.run(door.admit(headers, **named))


@pytest.mark.parametrize(
    ("header", "value"),
    [
        (b"x-everlog-key", b"%s"),
        (b"authorization", b"Bearer %s"),
        (b"authorization", b"bearer  %s "),
        (b"authorization", b"%s"),
        (b"x-api-key", b"%s"),
        (b"api-key", b"%s"),
    ],
    ids=lambda value: value.decode(),
)
def test_a_key_is_taken_from_each_header_that_clients_use_and_goes_no_further(
    store: Store, header: bytes, value: bytes
):
    found = ask(Door(store, local=None), ((header, value % made(store, user="ann").encode()),))
    assert isinstance(found, Admitted)
    assert found.principal.user == "ann"
    assert header in found.spent


@pytest.mark.parametrize("header", [b"authorization", b"x-api-key"])
def test_a_credential_of_the_upstream_is_none_of_ours(store: Store, header: bytes):
    headers = ((header, b"Bearer sk-abc"),)
    assert presented(headers) is None
    assert ask(Door(store), headers) == Admitted(principal=LOOPBACK)


def test_our_key_beside_one_of_the_upstream_leaves_that_one_alone(store: Store):
    headers = ((b"authorization", b"Bearer sk-abc"), *keyed(made(store)))
    found = ask(Door(store, local=None), headers)
    assert isinstance(found, Admitted)
    assert found.spent == {b"x-everlog-key"}


def test_without_a_key_only_the_machine_itself_gets_in_and_may_name_its_user(store: Store):
    found = ask(Door(store), (), user="ann", project="boat")
    assert isinstance(found, Admitted)
    assert (found.principal.user, found.principal.project, found.principal.one_person) == ("ann", "boat", True)
    refused = ask(Door(store, local=None), ())
    assert isinstance(refused, Refusal)
    assert (refused.status, refused.code) == (401, "everlog_key_missing")


@pytest.mark.parametrize("text", ["evl_", "evl_x.y.z", "evl_Kg.aaaaaaaaaaaa." + "a" * 43, "sk-abc"])
def test_what_looks_like_a_key_and_is_none_is_refused_and_not_taken_for_a_guest(store: Store, text: str):
    refused = ask(Door(store), keyed(text))
    assert isinstance(refused, Refusal)
    assert (refused.status, refused.code) == (401, "everlog_key_unknown")
    assert text not in refused.message


def test_a_key_of_another_tenant_opens_that_one(store: Store):
    found = ask(Door(store), keyed(made(store, "acme")))
    assert isinstance(found, Admitted)
    assert found.principal.tenant == "acme"


def test_a_revoked_key_opens_nothing_two_seconds_later(store: Store):
    seconds = Seconds()
    door, headers = Door(store, clock=seconds), keyed(made(store, name="x"))
    assert isinstance(ask(door, headers), Admitted)
    store.write("default", partial(access.revoke, named="x"), name="keys.revoke")
    assert isinstance(ask(door, headers), Admitted)
    seconds.now += 2
    refused = ask(door, headers)
    assert isinstance(refused, Refusal)
    assert (refused.status, refused.code) == (401, "everlog_key_revoked")


def test_while_the_database_is_away_known_keys_open_for_an_hour_and_no_others(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    seconds = Seconds()
    door, known, fresh = Door(store, clock=seconds), keyed(made(store)), keyed(made(store))
    assert isinstance(ask(door, known), Admitted)

    async def away(*args: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(store, "aread", away)
    seconds.now += 1800
    assert isinstance(ask(door, known), Admitted)
    refused = ask(door, fresh)
    assert isinstance(refused, Refusal)
    assert (refused.status, refused.code, refused.retry_after_s) == (503, "everlog_keys_unavailable", 5)
    seconds.now += 1801
    assert isinstance(ask(door, known), Refusal)


@pytest.mark.parametrize("error", [Damaged("broken"), LookupError("a fault of a driver"), TimeoutError()])
def test_whatever_keeps_a_key_from_being_looked_up_opens_nothing_new(
    store: Store, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    seconds = Seconds()
    door, known, fresh = Door(store, clock=seconds), keyed(made(store)), keyed(made(store))
    assert isinstance(ask(door, known), Admitted)

    async def fail(*args: object) -> None:
        raise error

    monkeypatch.setattr(store, "aread", fail)
    seconds.now += 60
    assert isinstance(ask(door, known), Admitted)
    refused = ask(door, fresh)
    assert isinstance(refused, Refusal)
    assert (refused.status, refused.code) == (503, "everlog_keys_unavailable")


def test_of_many_callers_one_waits_for_a_database_that_does_not_answer(store: Store, monkeypatch: pytest.MonkeyPatch):
    """What is limited lets through whoever has a key as well: nobody knows what was used."""
    seconds = Seconds()
    known = keyed(made(store, limits=Limits(tokens_per_day=10)))
    door = Door(store, clock=seconds)
    assert isinstance(ask(door, known), Admitted)
    waited = []

    async def hang(*args: object) -> None:
        waited.append(seconds.now)
        await asyncio.Event().wait()

    monkeypatch.setattr(store, "aread", hang)
    monkeypatch.setattr(admission, "LOOK_S", 0.01)
    seconds.now += 60
    for _ in range(9):
        assert isinstance(ask(door, known), Admitted)
    assert waited == [1060]
    seconds.now += 2
    assert isinstance(ask(door, known), Admitted)
    assert waited == [1060, 1062]
    assert isinstance(ask(door, keyed(made(store))), Refusal)


def test_trouble_of_one_tenant_makes_no_other_wait_or_be_believed(store: Store, monkeypatch: pytest.MonkeyPatch):
    seconds = Seconds()
    door, read = Door(store, clock=seconds), store.aread

    async def damaged(tenant: str, act: Any) -> Any:
        if tenant == "acme":
            raise Damaged("a row of theirs")
        return await read(tenant, act)

    monkeypatch.setattr(store, "aread", damaged)
    assert isinstance(ask(door, keyed(made(store, "acme"))), Refusal)
    assert isinstance(ask(door, keyed(made(store))), Admitted)


def test_limits_of_a_key_are_told_with_the_time_to_wait(store: Store, clock: FrozenClock):
    seconds = Seconds()
    limits = Limits(requests_per_minute=2, tokens_per_day=10)
    token = made(store, limits=limits)
    key = access.parse(token)
    assert key is not None
    door, headers = Door(store, clock=seconds), keyed(token)
    assert isinstance(ask(door, headers), Admitted)
    assert isinstance(ask(door, headers), Admitted)
    refused = ask(door, headers)
    assert isinstance(refused, Refusal)
    assert (refused.status, refused.code, refused.retry_after_s) == (429, "everlog_requests_per_minute", 60)
    seconds.now += 60
    store.write("default", partial(access.use, key=key.id, tokens=10, nano_usd=None), name="keys.use")
    refused = ask(door, headers)
    assert isinstance(refused, Refusal)
    assert refused.code == "everlog_tokens_per_day"
    assert 0 < (refused.retry_after_s or 0) <= 86_400
    clock.advance(timedelta(days=1))
    seconds.now += 60
    assert isinstance(ask(door, headers), Admitted)


def test_where_nothing_is_kept_there_are_no_keys():
    refused = ask(Door(None), keyed(made(everlog.open(":memory:").store)))
    assert isinstance(refused, Refusal)
    assert refused.code == "everlog_key_unknown"
