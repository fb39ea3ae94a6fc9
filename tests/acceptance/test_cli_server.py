"""The command line with a database on a PostgreSQL server."""

import base64

import pytest

from tests.acceptance.cli import HARBOUR, Everlog

KEY = base64.b64encode(bytes(range(32))).decode()


@pytest.fixture
def served(everlog: Everlog, postgres_url: str) -> Everlog:
    """The command, with an empty database on a server."""
    return everlog.at(everlog.home, EVERLOG_DB=postgres_url, EVERLOG_MASTER_KEY=KEY)


def test_the_tables_of_a_server_are_made_by_db_upgrade_and_then_all_commands_work(served: Everlog):
    refused = served("import", HARBOUR)
    assert (refused.status, refused.err.count("\n")) == (1, 1)
    assert "everlog db upgrade" in refused.err
    made = served.good("db", "upgrade", "--partitions", 4, "--json").json
    assert made["schema"]
    assert served.good("db", "upgrade", "--json").json == made
    served.good("import", HARBOUR)
    assert served.good("export", "harbour").out == HARBOUR.read_bytes()
    assert len(served.good("view", "harbour", "--bytes", 1000).out) <= 1000
    assert served.good("verify", "--json").json["faults"] == []
    assert served.good("stats", "--json").json["encryption"] == "on"
    assert "PostgreSQL" in served.good("doctor").text
    assert served("threads", EVERLOG_MASTER_KEY="").status == 2


def test_an_erasure_on_a_server_is_settled_when_the_old_master_key_is_retired(served: Everlog):
    new = base64.b64encode(bytes(32)).decode()
    served.good("db", "upgrade")
    served.good("import", HARBOUR)
    receipt = served.good("erase", "--thread", "harbour", "--yes", "--json").json
    assert receipt["state"] == "pending"
    assert "retired" in served.good("doctor").text
    assert served("keys", "rotate", EVERLOG_MASTER_KEY=f"{new} {KEY}").status == 0
    assert "1 erasure settled" in served.good("keys", "retire", EVERLOG_MASTER_KEY=new).text
    assert "1, all done" in served.good("doctor", EVERLOG_MASTER_KEY=new).text


def test_a_server_that_does_not_answer_is_named_without_its_password(everlog: Everlog):
    url = "postgresql://ada:s3cret@127.0.0.1:1/chats?connect_timeout=2"
    for command in (["threads"], ["import", HARBOUR], ["db", "upgrade"], ["stats", "--json"]):
        done = everlog(*command, EVERLOG_DB=url)
        assert (done.status, done.out, done.err.count("\n")) == (1, b"", 1), done
        assert "s3cret" not in done.err
    checks = everlog("doctor", "--db", url)
    assert checks.status == 1
    assert "s3cret" not in checks.text + checks.err


def test_partitions_are_for_servers(everlog: Everlog):
    everlog.good("import", HARBOUR)
    assert everlog("db", "upgrade", "--partitions", 4).status == 2
    assert everlog("db", "upgrade", "--partitions", 0).status == 2
