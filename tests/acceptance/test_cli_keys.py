"""Keys of callers from the command line."""

import json

from everlog.access import parse
from tests.acceptance.cli import Everlog


def test_a_key_is_shown_once_listed_without_its_secret_and_revoked(everlog: Everlog):
    made = everlog("keys", "create", "laptop", "--one-person", "--usd-per-month", "12.5", "--days", "3")
    token = parse(made.text.strip())
    assert token is not None
    assert token.tenant == "default"
    assert token.text not in made.err
    listed = everlog.good("keys", "list")
    assert token.id in listed.text
    assert "one person, $12.50/month, until " in listed.text
    assert token.text.rpartition(".")[2] not in listed.text
    assert everlog.good("keys", "revoke", "laptop").text.startswith(f"key {token.id}")
    (key,) = everlog.good("keys", "list", "--json").json
    assert key["revoked_at"] is not None
    assert "revoked" in everlog.good("keys", "list").text


def test_a_key_belongs_to_its_tenant_and_says_what_it_is_for(everlog: Everlog):
    made = everlog.good("keys", "create", "--tenant", "acme", "--role", "read", "--user", "u-1", "--json").json
    token = parse(made["token"])
    assert token is not None
    assert (token.tenant, made["role"], made["user"], made["name"]) == ("acme", "read", "u-1", None)
    assert "no keys of tenant 'default'" in everlog("keys", "list").err


def test_a_small_limit_is_listed_as_it_is_and_what_was_used_beside_it(everlog: Everlog):
    everlog.good("keys", "create", "small", "--usd-per-month", "0.0001", "--json")
    assert "$0.0001/month" in everlog.good("keys", "list").text
    (key,) = everlog.good("keys", "list", "--json").json
    assert key["used_this_month"] == {"requests": 0, "tokens": 0, "usd": 0.0, "unpriced": 0}


def test_a_key_says_what_is_done_with_its_conversations_and_how_much_memory_may_take(everlog: Everlog):
    made = everlog.good("keys", "create", "agent", "--mode", "tree", "--budget", "50000", "--json").json
    assert (made["mode"], made["budget_tokens"]) == ("tree", 50_000)
    everlog("keys", "create", "plain")
    listed = everlog.good("keys", "list")
    assert "mode tree, 50,000 tokens of memory" in listed.text
    assert listed.text.count("mode ") == 1
    agent, plain = everlog.good("keys", "list", "--json").json
    assert (agent["mode"], agent["budget_tokens"]) == ("tree", 50_000)
    assert (plain["mode"], plain["budget_tokens"]) == (None, None)


def test_what_cannot_be_done_with_keys_is_one_line(everlog: Everlog):
    everlog("keys", "create", "same")
    token = everlog("keys", "create", "same").text.strip()
    for words, said in (
        (("create", "x", "--role", "root"), "a role is one of chat, read, admin"),
        (("create", "x", "--requests-per-minute", "0"), "requests_per_minute is above 0"),
        (("create", "x", "--mode", "all"), "a mode is one of off, record, rolling, tree, not 'all'"),
        (("create", "x", "--budget", "999"), "the budget of a key is 1,000 tokens at least"),
        (("revoke", "same"), "2 keys are meant"),
        (("revoke", "nobody"), "there is no such key"),
        (("revoke", token), "keep the key itself out of commands"),
    ):
        done = everlog("keys", *words)
        assert (done.status, done.out, done.err.count("\n")) == (2, b"", 1)
        assert said in done.err
        assert token not in done.err
    assert json.loads(everlog("keys", "revoke", "x", "--json").err)["type"] == "Mistake"
