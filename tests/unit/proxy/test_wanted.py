"""What is done with a request: its header before its key, that before the server; what cannot be is refused."""

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, get_args

import pytest

from everlog import access
from everlog.access import LOOPBACK, Mode, asked_by
from everlog.errors import Mistake
from everlog.surfaces.proxy.recording.controls import Controls
from everlog.surfaces.proxy.remembering.wanted import Wanted, wanted
from tests.unit.proxy.test_front import Proxy
from tests.unit.proxy.wire import PLAIN, Client, Coming, asked

MODES: tuple[Mode, ...] = get_args(Mode)
DEBUG = (b"x-everlog-debug", b"on")


@pytest.mark.parametrize(("header", "key", "server"), [*product((None, *MODES), (None, *MODES), MODES)])
def test_a_header_counts_before_a_key_and_that_before_the_server(header: Mode | None, key: Mode | None, server: Mode):
    controls, who = Controls(mode=header), replace(LOOPBACK, mode=key)
    assert wanted(controls, who, replace(PLAIN, mode=server)).mode == (header or key or server)
    assert wanted(replace(controls, keeps=False), who, replace(PLAIN, mode=server)).mode == "off"


@pytest.mark.parametrize(("header", "key"), [*product((None, 3_000), (None, 4_000))])
def test_so_does_a_budget(header: int | None, key: int | None):
    controls, who = Controls(budget_tokens=header), replace(LOOPBACK, budget_tokens=key)
    told = replace(PLAIN, mode="tree", budget_tokens=5_000)
    assert wanted(controls, who, told) == Wanted(mode="tree", budget_tokens=header or key or 5_000)


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("mode", "tree", Controls(mode="tree")),
        ("mode", " Rolling ", Controls(mode="rolling")),
        ("mode", "", Controls()),
        ("budget", "1000", Controls(budget_tokens=1000)),
        ("budget", " 20000", Controls(budget_tokens=20_000)),
        ("budget", "", Controls()),
        ("mode", "on", "X-Everlog-Mode is one of off, record, rolling, tree; leave it out for what is usual here"),
        ("mode", "tree, off", "X-Everlog-Mode is one of"),
        ("mode", "tr\xe9e", "X-Everlog-Mode is one of"),
        ("budget", "999", "X-Everlog-Budget is 1,000 tokens at least and 1,000,000,000 at most, not 999"),
        ("budget", "9" * 18, "X-Everlog-Budget is 1,000 tokens at least"),
        ("budget", "9" * 19, "X-Everlog-Budget is a whole number of tokens, such as 20000"),
        ("budget", "20k", "X-Everlog-Budget is a whole number of tokens"),
        ("budget", "-5000", "X-Everlog-Budget is a whole number of tokens"),
        ("budget", "2e4", "X-Everlog-Budget is a whole number of tokens"),
        ("budget", "\u0661".encode().decode("latin-1") * 2, "X-Everlog-Budget is a whole number of tokens"),
    ],
)
def test_a_header_is_understood_or_refused_in_words_that_say_what_to_do(name: str, value: str, found: Controls | str):
    header = (f"x-everlog-{name}".encode(), value.encode("latin-1"))
    if isinstance(found, Controls):
        assert Controls.of((header,)) == found
        return
    with pytest.raises(Mistake, match=found):
        Controls.of((header,))
    client = Client(headers=(header,))
    upstream = asked(client, lambda _: Coming(pieces=[b"{}"]))
    assert (client.status, upstream.sent) == (400, [])
    assert b'"header_not_understood"' in client.body
    beside = Client(path="/v1/embeddings", headers=(header,))
    assert len(asked(beside, lambda _: Coming(pieces=[b"{}"])).sent) == 1


def test_without_a_database_a_header_raises_nothing_and_who_asks_is_told_so():
    for headers in ((DEBUG,), (DEBUG, (b"x-everlog-mode", b"tree"))):
        client = Client(headers=headers)
        asked(client, lambda _: Coming(pieces=[b"{}"]))
        assert client.header(b"x-everlog-memory-mode") == [b"off"]
    quiet = Client(headers=((b"x-everlog-mode", b"tree"),))
    asked(quiet, lambda _: Coming(pieces=[b"{}"]))
    assert quiet.header(b"x-everlog-memory-mode") == []


CASES: list[tuple[str, str | None, str | None, str]] = [
    ("record", None, None, "record"),
    ("record", None, "off", "off"),
    ("record", "off", None, "off"),
    ("record", "off", "record", "record"),
    ("off", None, None, "off"),
    ("off", "record", None, "record"),
    ("off", None, "record", "record"),
]


@pytest.mark.parametrize(("server", "key", "header", "done"), CASES)
def test_what_is_kept_goes_by_the_same_order_where_there_is_a_database(
    server: Any, key: Any, header: str | None, done: str
):
    proxy = Proxy(needs_keys=True, options=replace(PLAIN, mode=server))
    new = proxy.home.store.write(proxy.home.name, partial(access.create, mode=key), name="test")
    said = () if header is None else ((b"x-everlog-mode", header.encode()),)
    client = proxy.chat((b"x-everlog-key", new.token.encode()), DEBUG, *said)
    assert client.status == 200
    assert client.header(b"x-everlog-memory-mode") == [done.encode()]
    kept = proxy.home.store.read(proxy.home.name, partial(asked_by, limit=5))
    assert len(kept) == (done != "off")
    proxy.close()


def test_a_key_has_a_mode_and_a_budget_that_can_be():
    proxy = Proxy()
    with pytest.raises(Mistake, match="a mode is one of off, record, rolling, tree, not 'all'"):
        proxy.home.store.write("t", partial(access.create, mode="all"), name="test")  # type: ignore[arg-type]
    for wrong in (999, 10**9 + 1):
        with pytest.raises(Mistake, match="the budget of a key is 1,000 tokens at least"):
            proxy.home.store.write("t", partial(access.create, budget_tokens=wrong), name="test")
    proxy.close()
