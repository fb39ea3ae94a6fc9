"""Settings of the proxy as a user sees them."""

from pathlib import Path

from tests.acceptance.cli import HARBOUR, ROOT, Everlog


def test_the_example_is_taken_as_it_stands_and_secrets_are_not_shown(everlog: Everlog):
    example = (ROOT / "everlog.example.yaml").read_text()
    (everlog.home / "everlog.yaml").write_text(example)
    shown = everlog.good("config", "show", OPENAI_API_KEY="sk-abcdef")
    assert "sk-…" in shown.text
    assert "abcdef" not in shown.text
    said = {one["key"]: one for one in everlog.good("config", "show", "--json").json}
    assert said["server.port"]["value"] == 8788
    assert Path(said["server.port"]["named_by"]).name == "everlog.yaml"
    assert said["upstreams"]["value"][0]["models"] == ["claude-*"]


def test_an_unknown_key_is_one_line_that_names_the_nearest_and_other_commands_do_not_mind(everlog: Everlog):
    (everlog.home / "everlog.yaml").write_text("server: {prt: 1}\nchat: {model: x}\n")
    done = everlog("config", "show")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "server has no 'prt'; did you mean port?" in done.err
    everlog.good("keys", "create", "x", "--json")


def test_every_command_works_where_the_file_says_and_the_page_of_settings_says_who_said_it(everlog: Everlog):
    (everlog.home / "everlog.yaml").write_text("memory: {database_path: own.db, tenant: acme}\n")
    everlog.good("import", HARBOUR)
    assert sorted(path.name for path in everlog.home.glob("*.db")) == ["own.db"]
    assert [one["key"] for one in everlog.good("threads", "--json").json] == ["harbour"]
    assert everlog.good("threads", "--json", "--tenant", "default").json == []
    assert everlog.good("stats", "--json").json["named_by"] == "everlog.yaml"
    said = {one["key"]: one for one in everlog.good("config", "show", "--json").json}
    assert said["memory.database_path"] == {
        "key": "memory.database_path",
        "value": "own.db",
        "named_by": "everlog.yaml",
    }
    assert said["memory.tenant"] == {"key": "memory.tenant", "value": "acme", "named_by": "everlog.yaml"}


def test_a_database_that_an_option_or_a_variable_names_is_shown_as_such_without_its_password(everlog: Everlog):
    url = "postgresql://ada:s3cret@127.0.0.1:1/chats"
    for how, done in (
        ("--db", everlog.good("config", "show", "--json", "--db", url)),
        ("EVERLOG_DB", everlog.good("config", "show", "--json", EVERLOG_DB=url)),
    ):
        said = {one["key"]: one for one in done.json}["memory.database_path"]
        assert (said["value"], said["named_by"]) == ("postgresql://ada@127.0.0.1:1/chats", how)
        assert "s3cret" not in done.text
