"""Every header that is for the proxy, under each of its names: what it does, and that it does not go up."""

import json
from typing import Any

import pytest

from everlog.access import LOOPBACK
from everlog.conversation.alignment.values import Caller
from everlog.protocols import FORMATS
from everlog.surfaces.proxy.recording.controls import Controls
from everlog.surfaces.proxy.recording.exchanges import parse_exchange
from everlog.surfaces.proxy.relay.forwarding import for_headroom
from everlog.surfaces.proxy.settings.options import Options, Target
from tests.unit.proxy.wire import BASE, Client, Coming, asked

BODY = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
STARTS = ("x-everlog-", "x-infinitum-", "x-context-")
FURTHER = {
    "session": ("x-opencode-session", "x-session-id", "x-session-affinity"),
    "user": ("x-opencode-user-id", "x-opencode-user", "x-headroom-user-id", "x-litellm-user-id"),
    "project": ("x-opencode-project-id", "x-opencode-project", "x-headroom-project-id"),
    "cwd": ("x-opencode-directory", "x-opencode-cwd", "x-headroom-cwd"),
}
ENDS = {"session": "session-id", "user": "user-id", "project": "project-id", "cwd": "cwd"}
SWITCHES = {"memory": ("keeps", False, "off"), "learning": ("learns", False, "off"), "debug": ("tells", True, "on")}
NAMES = [(field, start + end) for field, end in ENDS.items() for start in STARTS]
NAMES += [(field, name) for field, names in FURTHER.items() for name in names]
GO_UP = set(FURTHER["session"])
"""Names of sessions that are not ours alone: upstreams read them too."""


def origin_of(*headers: tuple[str, str], **body: Any) -> Any:
    raw = tuple((name.encode(), value.encode()) for name, value in headers)
    return parse_exchange(FORMATS["chat_completions"], raw, BODY | body, caller=Caller(), request="r").origin


def gone_up(*headers: tuple[str, str], body: Any = BODY, protocol: str = "", **options: Any) -> dict[bytes, bytes]:
    raw = tuple((name.encode(), value.encode()) for name, value in headers)
    client = Client(headers=raw, pieces=(json.dumps(body).encode(),))
    protocols = (protocol,) if protocol else tuple(FORMATS)
    told = Options(targets=(Target(base_url=BASE, protocols=protocols),), **options)
    return dict(asked(client, lambda _: Coming(pieces=[b"{}"]), options=told).sent[0].headers)


@pytest.mark.parametrize(("field", "name"), NAMES)
def test_each_name_says_who_asks(field: str, name: str):
    assert getattr(origin_of((name, "/a/b")), field) == "/a/b"


@pytest.mark.parametrize("field", ENDS)
def test_ours_wins_over_the_older_ones_and_these_over_those_of_clients(field: str):
    names = [name for of, name in NAMES if of == field]
    for n, name in enumerate(names[:4]):
        rest = [(other, f"/{m}") for m, other in enumerate(names) if m > n]
        assert getattr(origin_of(*rest, (name, "/first")), field) == "/first"


@pytest.mark.parametrize("name", ["everlog_session_id", "infinitum_session_id", "context_session_id"])
def test_a_session_is_named_in_the_metadata_of_a_body_too(name: str):
    assert origin_of(metadata={name: "s1"}).session == "s1"
    assert origin_of(("x-everlog-session-id", "s2"), metadata={name: "s1"}).session == "s2"


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("switch", SWITCHES)
def test_each_switch_has_each_of_its_words(start: str, switch: str):
    field, on, _ = SWITCHES[switch]
    for word in ("on", "True", "1", "off", "FALSE", "0", "perhaps", ""):
        controls = Controls.of(((f"{start}{switch}".encode(), word.encode()),))
        means = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}.get(word.lower())
        assert getattr(controls, field) is (not on if means is None else means), word


def test_none_of_ours_goes_up():
    switches = [(start + switch, word) for start in STARTS for switch, (_, _, word) in SWITCHES.items()]
    sent = gone_up(*((name, "/a") for _, name in NAMES), *switches)
    assert {name.decode() for name in sent if name.startswith(b"x-")} == GO_UP


def test_a_headroom_is_told_who_asks_as_it_was_resolved():
    headers = [
        ("x-infinitum-user-id", "ann"),
        ("x-opencode-directory", "/home/ann/x/../boat"),
        ("x-headroom-user-id", "eve"),
    ]
    sent = gone_up(*headers, forward_to_headroom=True)
    assert sent[b"x-headroom-user-id"] == b"ann"
    assert sent[b"x-headroom-cwd"] == b"/home/ann/boat"
    assert sent[b"x-headroom-project-id"].startswith(b"cwd:boat:")
    assert not [name for name in gone_up(*headers) if b"headroom" in name]
    for pad in ("", "x" * 2**17):
        by_body = gone_up(body=BODY | {"user": "bea", "metadata": {"pad": pad}}, forward_to_headroom=True)
        assert by_body[b"x-headroom-user-id"] == b"bea"


def test_a_headroom_of_another_protocol_is_told_who_asks_as_well():
    sent = gone_up(("x-everlog-user-id", "ann"), protocol="anthropic", forward_to_headroom=True)
    assert sent[b"x-headroom-user-id"] == b"ann"
    assert b"anthropic-version" in sent


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff"])
def test_a_body_that_says_nothing_names_nobody(body: bytes):
    found = for_headroom(((b"x-everlog-user-id", b"ann"),), body, LOOPBACK, {})
    assert found == ((b"x-headroom-user-id", b"ann"),)
