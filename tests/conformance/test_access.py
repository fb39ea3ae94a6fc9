"""Keys of callers on every store: only a hash is kept, a tenant's keys open nothing of another's, limits hold."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

import everlog
from everlog import access
from everlog.access import Key, Limits, NewKey, Token
from everlog.errors import Mistake
from everlog.messages import Origin
from everlog.store import Store
from tests.conformance.conftest import Database


def made(store: Store, tenant: str, **given) -> NewKey:
    return store.write(tenant, partial(access.create, **given), name="keys.create")


def token_of(new: NewKey) -> Token:
    token = access.parse(new.token)
    assert token is not None
    return token


def recognised(store: Store, token: Token) -> object:
    return store.read(token.tenant, partial(access.recognise, token=token))


def test_a_key_is_recognised_until_it_is_revoked(store: Store, tenants: Iterator[str]):
    tenant = next(tenants)
    limits = Limits(requests_per_minute=60, tokens_per_day=1_000_000, usd_per_month=12.5)
    given: dict[str, Any] = {"role": "read", "name": "laptop", "user": "ann", "project": "boat", "one_person": True}
    given |= {"mode": "rolling", "budget_tokens": 8000, "limits": limits}
    new = made(store, tenant, **given)
    assert recognised(store, token_of(new)) == new.key
    assert store.read(tenant, access.keys) == [new.key]
    assert {name: getattr(new.key, name) for name in given} == given
    who = access.principal(tenant, new.key)
    assert (who.mode, who.budget_tokens) == ("rolling", 8000)
    revoked = store.write(tenant, partial(access.revoke, named=new.key.id[:5]), name="keys.revoke")
    assert revoked.revoked_at is not None
    assert recognised(store, token_of(new)) == "revoked"
    again = store.write(tenant, partial(access.revoke, named="laptop"), name="keys.revoke")
    assert again == revoked


def test_a_key_that_has_expired_opens_nothing(database: Database):
    store = database.open()
    soon = database.clock.now() + timedelta(hours=1)
    new = made(store, "default", expires_at=soon)
    assert isinstance(recognised(store, token_of(new)), Key)
    database.clock.advance(timedelta(hours=2))
    assert recognised(store, token_of(new)) == "expired"


def test_a_key_of_one_tenant_or_with_another_secret_is_unknown(store: Store, tenants: Iterator[str]):
    here, there = next(tenants), next(tenants)
    mine, theirs = token_of(made(store, here)), token_of(made(store, there))
    mixed = Token(tenant=here, id=mine.id, text=theirs.text)
    assert recognised(store, mixed) == "unknown"
    assert recognised(store, Token(tenant=there, id=mine.id, text=mine.text)) == "unknown"
    assert [key.id for key in store.read(here, access.keys)] == [mine.id]


def test_no_key_is_in_any_file(database: Database):
    store = database.open()
    token = token_of(made(store, "default", name="laptop"))
    secret = token.text.rpartition(".")[2]
    store.close()
    assert not [file for file in database.folder.iterdir() if secret.encode() in file.read_bytes()]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"role": "root"}, "a role is one of chat, read, admin, not 'root'"),
        ({"name": ""}, "the name of a key has 1 to 200 characters"),
        ({"user": "x" * 201}, "the user of a key has 1 to 200 characters"),
        ({"limits": Limits(requests_per_minute=0)}, "requests_per_minute is above 0"),
        ({"limits": Limits(usd_per_month=float("nan"))}, "usd_per_month is a finite number"),
        ({"limits": Limits(tokens_per_day=1 << 60)}, "tokens_per_day is above 0 and at most"),
    ],
)
def test_what_cannot_be_a_key_is_refused(given, said: str):
    home = everlog.open(":memory:")
    with pytest.raises(Mistake, match=said):
        made(home.store, "default", **given)
    assert home.store.read("default", access.keys) == []


def test_a_key_to_revoke_is_named_so_that_one_is_meant(store: Store, tenants: Iterator[str]):
    tenant = next(tenants)
    for _ in range(2):
        made(store, tenant, name="same")
    for named, said in (("same", "2 keys are meant"), ("nobody", "there is no such key"), ("", "there is no such key")):
        with pytest.raises(Mistake, match=said):
            store.write(tenant, partial(access.revoke, named=named), name="keys.revoke")
    assert all(key.revoked_at is None for key in store.read(tenant, access.keys))


def test_what_is_used_is_added_up_and_limits_are_reached(database: Database):
    store, clock = database.open(), database.clock
    clock.advance(datetime(2026, 11, 29, 23, 0, tzinfo=UTC) - clock.now())
    limits = Limits(tokens_per_day=100, usd_per_month=1.0)

    def reached() -> str | None:
        found = store.read("default", partial(access.exceeded, key="ab", limits=limits))
        return None if found is None else f"{found.limit} {found.until:%m-%d}"

    def use(tokens: int, nano_usd: int | None) -> None:
        store.write("default", partial(access.use, key="ab", tokens=tokens, nano_usd=nano_usd), name="keys.use")

    assert reached() is None
    use(99, 400_000_000)
    assert reached() is None
    use(1, None)
    assert reached() == "tokens_per_day 11-30"
    clock.advance(timedelta(hours=1))
    assert reached() is None
    use(0, 600_000_000)
    assert reached() == "usd_per_month 12-01"
    used = store.read("default", partial(access.used, key="ab", since=clock.now() - timedelta(days=30)))
    assert (used.requests, used.unpriced, used.tokens, used.nano_usd) == (3, 1, 100, 1_000_000_000)
    clock.advance(timedelta(days=1))
    assert reached() is None
    assert store.read("other", partial(access.used, key="ab", since=clock.now())).requests == 0


def test_what_models_took_is_added_up_for_each_tenant(store: Store, tenants: Iterator[str]):
    here, there = next(tenants), next(tenants)
    for n, (tenant, model) in enumerate(((here, "b"), (here, "a"), (here, "b"), (here, None), (there, "b"))):
        was = access.Requested(
            id=f"{n:032x}",
            at=datetime(2026, 3, 1, tzinfo=UTC),
            protocol="responses",
            decision="append",
            model=model,
            tokens_in=10**n,
            tokens_out=None,
            tokens_read=1 if n else None,
        )
        store.write(tenant, partial(access.note, requested=was), name="test")
    found = store.read(here, access.by_model)
    assert [(one.model, one.requests, one.tokens_in, one.tokens_out, one.tokens_read) for one in found] == [
        ("a", 1, 10, 0, 1),
        ("b", 2, 101, 0, 1),
    ]


def test_the_keys_of_a_user_go_with_their_words_and_all_keys_with_the_tenant(database: Database):
    store = database.open()
    home = everlog.Everlog(store)
    anns, others = made(store, "default", user="ann"), made(store, "default", user="bob")
    home.thread("sea").append("user", "Hello.", origin=Origin(user="ann"))
    home.erase(user="ann")
    assert store.read("default", access.keys) == [others.key]
    assert recognised(store, token_of(anns)) == "unknown"
    with pytest.raises(Mistake, match=r"their keys, was erased"):
        home.erase(user="bob")
    last = made(store, "default")
    store.write("default", partial(access.use, key=last.key.id, tokens=1, nano_usd=1), name="keys.use")
    home.erase_tenant()
    assert store.read("default", access.keys) == []
    assert store.read("default", partial(access.used, key=last.key.id, since=last.key.created_at)).requests == 0
