"""What options, environment and defaults come to."""

from pathlib import Path

import pytest

from everlog.errors import Mistake
from everlog.surfaces.config import Settings, debugging, settings


def test_without_a_word_it_is_everlog_db_here_and_the_default_tenant():
    assert settings(environment={}) == Settings(database="everlog.db", named_by="the default", tenant="default")


def test_the_environment_says_what_options_do_not():
    found = settings(
        environment={
            "EVERLOG_DB": "/data/chats.db",
            "EVERLOG_TENANT": "acme",
            "EVERLOG_KEY_FILE": "k",
            "EVERLOG_MASTER_KEY": " words ",
        }
    )
    assert (found.database, found.named_by, found.tenant) == ("/data/chats.db", "EVERLOG_DB", "acme")
    assert (found.key_file, found.key_text, found.keys_named_by) == (Path("k"), "words", "EVERLOG_KEY_FILE")


def test_options_win_over_the_environment():
    environment = {"EVERLOG_DB": "a.db", "EVERLOG_TENANT": "acme", "EVERLOG_KEY_FILE": "k"}
    found = settings(database="b.db", tenant="other", key_file=Path("o"), environment=environment)
    assert (found.database, found.named_by, found.tenant) == ("b.db", "--db", "other")
    assert (found.key_file, found.keys_named_by) == (Path("o"), "--key-file")


def test_an_empty_variable_is_one_that_is_not_set():
    names = ("EVERLOG_DB", "EVERLOG_TENANT", "EVERLOG_KEY_FILE", "EVERLOG_MASTER_KEY")
    assert settings(environment=dict.fromkeys(names, "")) == settings(environment={})
    assert settings(environment={"EVERLOG_MASTER_KEY": "  "}).keys_named_by is None


@pytest.mark.parametrize("database", ["", ":memory:"])
def test_a_database_that_nothing_could_be_kept_in_is_refused(database: str):
    with pytest.raises(Mistake):
        settings(database=database, environment={})


@pytest.mark.parametrize(
    ("database", "path"),
    [
        ("chats.db", Path("chats.db")),
        ("sqlite:///chats.db", Path("chats.db")),
        ("sqlite:////data/chats.db", Path("/data/chats.db")),
        ("~/chats.db", Path.home() / "chats.db"),
        ("postgresql://host/chats", None),
    ],
)
def test_a_file_is_known_by_its_path_and_a_server_has_none(database: str, path: Path | None):
    assert settings(database=database, environment={}).path == path


@pytest.mark.parametrize(
    ("database", "shown"),
    [
        ("postgresql://ada:s3cret@host:5432/chats", "postgresql://ada@host:5432/chats"),
        ("postgresql://ada:p%40ss:w@host/chats?password=s3cret", "postgresql://ada@host/chats"),
        ("postgresql://host/chats", "postgresql://host/chats"),
        ("chats.db", "chats.db"),
    ],
)
def test_a_password_is_never_shown(database: str, shown: str):
    found = settings(database=database, environment={"EVERLOG_MASTER_KEY": "c2VjcmV0"})
    assert found.shown == shown
    assert "s3cret" not in repr(found)
    assert "c2VjcmV0" not in repr(found)


@pytest.mark.parametrize(("value", "on"), [("1", True), ("yes", True), ("", False), ("0", False), ("False", False)])
def test_debugging_is_asked_for_by_the_environment(value: str, on: bool):
    assert debugging({"EVERLOG_DEBUG": value}) is on
    assert not debugging({})
