"""What `everlog serve` does not start with: one line says what is wrong and what to do, and nothing listens or is made."""

import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.acceptance.cli import Done, Everlog

UPSTREAM = ("--upstream", "http://127.0.0.1:1")
NO_KEY = "needs keys, and there is none that opens; make one by `everlog keys create`"


def refused(everlog: Everlog, *options: object, **environment: str) -> Done:
    """Return how a start ended that must end at once, by one line."""
    done = everlog.at(everlog.home, **environment)("serve", "--port", 0, *options)
    assert done.status in {1, 2}, done
    assert (done.out, done.err.count("\n")) == (b"", 1), done
    assert done.err.startswith("everlog: ")
    assert "Traceback" not in done.err
    return done


def settings(everlog: Everlog, text: str) -> None:
    (everlog.home / "everlog.yaml").write_text(text)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "127.0.0.2"])
@pytest.mark.parametrize("mode", ["record", "off"])
def test_an_address_that_others_can_reach_needs_a_key_however_it_is_named(everlog: Everlog, host: str, mode: str):
    said = f"everlog: nobody could ask: {host} {NO_KEY}\n"
    assert refused(everlog, *UPSTREAM, "--mode", mode, "--host", host).err == said
    assert refused(everlog, *UPSTREAM, "--mode", mode, EVERLOG_HOST=host).err == said
    settings(everlog, f'server: {{host: "{host}"}}\n')
    assert refused(everlog, *UPSTREAM, "--mode", mode).err == said


def test_keys_that_are_required_must_be_there_and_open(everlog: Everlog):
    settings(everlog, "keys: {required: true}\n")
    said = f"everlog: nobody could ask: 127.0.0.1 {NO_KEY}\n"
    assert refused(everlog, *UPSTREAM).err == said
    assert refused(everlog, *UPSTREAM, "--mode", "off").err == said
    everlog.good("keys", "create", "old", "--json")
    everlog.good("keys", "revoke", "old")
    assert refused(everlog, *UPSTREAM).err == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sever: {port: 1}", "it has no 'sever'; did you mean server?"),
        ("server: {prt: 1}", "server has no 'prt'; did you mean port?"),
        ("upstream: {base_ulr: x}", "upstream has no 'base_ulr'; did you mean base_url?"),
        ("upstreams: [{name: a, modles: [b]}]", "upstreams has no 'modles'; did you mean models?"),
        ("keys: {require: true}", "keys has no 'require'; did you mean required?"),
        ("memory: {mod: off}", "memory has no 'mod'; did you mean mode?"),
        ("request_context: {user_header: [x]}", "request_context has no 'user_header'; did you mean user_headers?"),
        ("server: {body_limit_mb: much}", "server.body_limit_mb: expected a number, got a text"),
        ("keys: {required: perhaps}", "keys.required: expected true or false, got a text"),
        ("memory: {mode: all}", "memory.mode: 'all' is none of off, record, rolling, tree"),
        ("server: [1]", "server: expected a section, got a list"),
        ("server: {port: 1", "everlog.yaml"),
    ],
)
def test_a_setting_that_is_not_known_or_of_another_kind_is_named_with_what_is_meant(
    everlog: Everlog, text: str, said: str
):
    settings(everlog, f"{text}\n")
    assert said in refused(everlog, *UPSTREAM).err


@pytest.mark.parametrize(
    "url",
    [
        "models.example",
        "ftp://models.example/v1",
        "http://",
        "http:///v1",
        "https://:443",
        "//models.example",
        " ",
        "http://a b",
        "http://[::1",
        "http://h:99999",
    ],
)
def test_an_upstream_that_is_no_address_is_refused_wherever_it_is_named(everlog: Everlog, url: str):
    for done in (refused(everlog, "--upstream", url), refused(everlog, EVERLOG_UPSTREAM=url)):
        assert "upstream" in done.err
        assert "http" in done.err or "--upstream URL" in done.err
    settings(
        everlog,
        f'upstream: {{base_url: "http://127.0.0.1:1"}}\nupstreams: [{{name: b, models: [m], base_url: "{url}"}}]\n',
    )
    assert "upstream b" in refused(everlog).err


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_that_is_taken_is_said_and_whose_it_is_stays_alone(everlog: Everlog, taken: int):
    done = refused(everlog, *UPSTREAM, "--port", taken)
    assert f"port {taken} of 127.0.0.1 cannot be listened on" in done.err
    assert done.err.endswith("choose another by --port\n")


def test_an_address_of_another_machine_is_said(everlog: Everlog):
    everlog.good("keys", "create", "k", "--json")
    assert "of 192.0.2.7 cannot be listened on" in refused(everlog, *UPSTREAM, "--host", "192.0.2.7").err


def test_a_database_of_a_newer_version_is_left_as_it_is(everlog: Everlog):
    everlog.good("keys", "create", "k", "--json")
    path = everlog.home / "everlog.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("UPDATE everlog_version SET version_num = '9999'")
    done = refused(everlog, *UPSTREAM)
    assert "has schema 9999" in done.err
    assert "newer version" in done.err


def test_a_server_without_tables_or_that_is_not_there_is_said_with_what_to_do(everlog: Everlog, postgres_url: str):
    assert "run `everlog db upgrade`" in refused(everlog, *UPSTREAM, EVERLOG_DB=postgres_url).err
    away = "postgresql://ada:s3cret@127.0.0.1:1/chats?connect_timeout=2"
    assert "s3cret" not in refused(everlog, *UPSTREAM, EVERLOG_DB=away).err


@pytest.mark.parametrize("content", [b"not a database, but a text of some length" * 99, b"\0" * 9000])
def test_a_file_that_is_no_database_is_left_as_it_is(everlog: Everlog, content: bytes):
    path = everlog.home / "notes.txt"
    path.write_bytes(content)
    assert "notes.txt" in refused(everlog, *UPSTREAM, EVERLOG_DB="notes.txt").err
    assert path.read_bytes() == content


def test_a_sealed_database_without_its_key_and_a_file_of_settings_that_is_not_there_are_said(everlog: Everlog):
    sealed = everlog.at(everlog.home, EVERLOG_MASTER_KEY="AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
    sealed.good("keys", "create", "k", "--json")
    assert "EVERLOG_MASTER_KEY" in refused(everlog, *UPSTREAM).err
    assert "elsewhere.yaml" in refused(everlog, *UPSTREAM, EVERLOG_CONFIG="elsewhere.yaml").err
