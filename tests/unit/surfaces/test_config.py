"""What options, environment and defaults come to."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from everlog.errors import Mistake
from everlog.surfaces.config import Settings, debugging, settings
from everlog.surfaces.models import CompactorSettings, chat_settings, compactor_settings, required_protocol


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


@pytest.fixture
def placing(tmp_path: Path) -> dict[str, str]:
    """Return variables that lead to a file that names a database and a tenant."""
    file = tmp_path / "place.toml"
    file.write_text('[memory]\ndatabase_path = "own.db"\ntenant = "acme"\n[compactor]\nmodel = "m"\n')
    return {"EVERLOG_CONFIG": str(file)}


def test_the_file_names_database_and_tenant_where_nobody_else_does(placing: dict[str, str]):
    found = settings(environment=placing)
    assert (found.path, found.tenant) == (Path("own.db"), "acme")
    assert {found.named_by, found.tenant_named_by} == {placing["EVERLOG_CONFIG"]}


def test_options_and_the_environment_win_over_the_file_each_by_itself(placing: dict[str, str]):
    theirs = settings(environment={**placing, "EVERLOG_DB": "theirs.db", "EVERLOG_TENANT": "they"})
    assert (theirs.path, theirs.named_by) == (Path("theirs.db"), "EVERLOG_DB")
    assert (theirs.tenant, theirs.tenant_named_by) == ("they", "EVERLOG_TENANT")
    mine = settings(database="mine.db", environment=placing)
    assert (mine.path, mine.named_by, mine.tenant) == (Path("mine.db"), "--db", "acme")
    me = settings(tenant="me", environment=placing)
    assert (me.path, me.tenant, me.tenant_named_by) == (Path("own.db"), "me", "--tenant")


def test_a_file_that_names_a_database_elsewhere_is_still_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("far").mkdir()
    Path("everlog.toml").write_text('[memory]\ndatabase_path = "far/own.db"\n[compactor]\nmodel = "m"\n')
    found = settings(environment={})
    assert (found.path, found.named_by) == (Path("far/own.db"), "everlog.toml")
    assert compactor_settings(found, environment={}).name == "m"


def test_a_file_that_says_nothing_of_a_place_leaves_the_usual_one(tmp_path: Path):
    (tmp_path / "c.toml").write_text('[memory]\ndatabase_path = ""\n')
    found = settings(environment={"EVERLOG_CONFIG": str(tmp_path / "c.toml")})
    assert (found.database, found.named_by, found.tenant, found.tenant_named_by) == (
        *("everlog.db", "the default"),
        *("default", "the default"),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[memory]\ndatabase_path = 3", "database_path is a text"),
        ('[memory]\ndatabase_path = ":memory:"', "gone when the command ends"),
        ("memory = 3", "memory is a section"),
    ],
)
def test_a_file_that_names_a_place_that_is_none_is_refused(tmp_path: Path, text: str, said: str):
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(Mistake, match=said):
        settings(environment={"EVERLOG_CONFIG": str(tmp_path / "c.toml")})


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


FILE = """
required_protocol = "chat_completions"

[compactor]
model = "glm-5p3-flash"
provider = "openai"
protocol = "chat_completions"
base_url = "http://127.0.0.1:9/v1"
assume_model_exists = true
api_key_env = "GLM_KEY"
at_once = 3
"""


@pytest.fixture
def beside(tmp_path: Path) -> Callable[..., Settings]:
    """Write the file of settings beside a database that there need not be."""

    def write(text: str, name: str = "everlog.toml") -> Settings:
        (tmp_path / name).write_text(text)
        return settings(database=str(tmp_path / "chats.db"), environment={})

    return write


def test_without_a_word_the_compactor_is_the_built_in_one():
    assert compactor_settings(settings(environment={}), environment={}) == CompactorSettings()


@pytest.mark.covers("A38")
def test_the_file_beside_the_database_says_what_answers_and_how_it_is_reached(beside: Callable[..., Settings]):
    found = compactor_settings(beside(FILE), environment={"GLM_KEY": " secret "})
    assert (found.name, found.at_once, found.required_protocol) == ("glm-5p3-flash", 3, "chat_completions")
    assert found.named_by.endswith("everlog.toml")
    assert found.options == {
        "provider": "openai",
        "protocol": "chat_completions",
        "base_url": "http://127.0.0.1:9/v1",
        "assume_model_exists": True,
        "api_key": "secret",
    }
    assert "secret" not in repr(found)


def test_options_win_over_the_environment_and_that_over_the_file_each_key_by_itself(beside: Callable[..., Settings]):
    file = beside(FILE)
    environment = {"GLM_KEY": "k", "EVERLOG_COMPACTOR": "other", "EVERLOG_REQUIRED_PROTOCOL": "responses"}
    found = compactor_settings(file, environment=environment)
    assert (found.name, found.named_by, found.required_protocol) == ("other", "EVERLOG_COMPACTOR", "responses")
    given = compactor_settings(file, name="third", provider=None, protocol="responses", environment=environment)
    assert (given.name, given.named_by) == ("third", "--compactor")
    assert (given.options["protocol"], given.options["base_url"]) == ("responses", "http://127.0.0.1:9/v1")


def test_another_file_can_be_named_and_must_then_be_there(beside: Callable[..., Settings], tmp_path: Path):
    server = settings(database="postgresql://host/chats", environment={})
    assert compactor_settings(server, environment={}).name == "extractive"
    beside("[compactor]\nmodel = 'm'\n", "other.toml")
    environment = {"EVERLOG_CONFIG": str(tmp_path / "other.toml")}
    assert compactor_settings(server, environment=environment).name == "m"
    assert required_protocol(server, environment) is None
    with pytest.raises(Mistake, match=r"gone\.toml cannot be read"):
        compactor_settings(server, environment={"EVERLOG_CONFIG": str(tmp_path / "gone.toml")})


def test_whom_to_talk_with_is_said_in_the_same_ways_and_apart_from_the_compactor(beside: Callable[..., Settings]):
    file = beside(f'{FILE}\n[chat]\nmodel = "m"\nprovider = "ollama"\napi_key_env = "M_KEY"\n')
    environment = {"GLM_KEY": "g", "M_KEY": "secret"}
    found = chat_settings(file, environment=environment)
    assert (found.model, found.options) == ("m", {"provider": "ollama", "api_key": "secret"})
    assert "secret" not in repr(found)
    assert compactor_settings(file, environment=environment).name == "glm-5p3-flash"
    assert chat_settings(file, environment=environment | {"EVERLOG_MODEL": "n"}).model == "n"
    given = chat_settings(file, model="o", provider="openai", environment=environment | {"EVERLOG_MODEL": "n"})
    assert (given.model, given.options["provider"]) == ("o", "openai")
    assert chat_settings(settings(environment={}), environment={}).model is None
    with pytest.raises(Mistake, match="the key of the model is in M_KEY"):
        chat_settings(file, environment={"GLM_KEY": "g"})


def test_what_a_conversation_is_shown_of_before_is_said_by_options_else_the_file(tmp_path: Path):
    (tmp_path / "everlog.toml").write_text('[chat]\ntokens = 500\npast = "none"\nsearch = true\n')
    file = settings(database=str(tmp_path / "e.db"), environment={})
    found = chat_settings(file, environment={})
    assert (found.tokens, found.past, found.search) == (500, "none", True)
    given = chat_settings(file, tokens=900, past="tree", search=False, environment={})
    assert (given.tokens, given.past, given.search) == (900, "tree", False)
    nobody = chat_settings(settings(environment={}), environment={})
    assert (nobody.tokens, nobody.past, nobody.search) == (None, "tree", False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[chat]\nat_once = 3", "[chat] of"),
        ("[chat]\ntoken = 3", "did you mean tokens"),
        ('[chat]\npast = "roling"', "everlog.toml: past is one of tree, rolling, none, not 'roling'"),
        ("[chat]\nsearch = 1", "search is true or false"),
        ("[compacter]", "did you mean compactor"),
        ("[compactor]\nprotcol = 'responses'", "did you mean protocol"),
        ("[compactor]\napi_key = 'sk-1'", "did you mean api_key_env"),
        ("[compactor]\nmodel = 3", "model is a text"),
        ("[compactor]\nat_once = true", "at_once is a whole number"),
        ("[compactor]\nat_once = 0", "at_once is at least 1"),
        ("compactor = 'm'", "compactor is a section"),
        ("[compactor", "no TOML"),
        ("[compactor]\nmodel = 'm'\napi_key_env = 'GLM_KEY'", "in GLM_KEY, and that is not set"),
    ],
)
def test_a_file_with_anything_unknown_is_refused_with_the_nearest_name(
    beside: Callable[..., Settings], text: str, said: str
):
    with pytest.raises(Mistake, match=re.escape(said)) as caught:
        compactor_settings(beside(text), environment={})
    assert "sk-1" not in str(caught.value)
