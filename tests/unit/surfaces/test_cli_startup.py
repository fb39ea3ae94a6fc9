"""What `everlog serve` says first: where the data is, to whom words go, and who gets in."""

from pathlib import Path
from typing import get_args

from everlog.access import Mode
from everlog.memory.interface import Reply, Request
from everlog.memory.tree import Extractive
from everlog.surfaces import config
from everlog.surfaces.cli.startup import started
from everlog.surfaces.proxy.settings.configured import configured

FILE = {
    "upstream": {"base_url": "https://ann:secret@api.example:8443/v1", "api_key": "sk-secret"},
    "upstreams": [{"name": "claude", "base_url": "https://api.anthropic.com", "models": ["claude-*"]}],
}


class Model:
    model = "anthropic/claude-haiku-5-5"

    def __call__(self, request: Request) -> Reply:
        raise AssertionError("nobody asks it here")


def told(*, file=FILE, environment=None, path=Path("everlog.yaml"), database="talks.db", compactor=None):
    found = configured(file=file, environment=environment or {})
    settings = config.settings(database=database, environment={})
    return started("http://127.0.0.1:8788", found, path, settings, compactor=compactor or Extractive())


def test_it_names_hosts_mode_the_whole_path_of_the_database_the_settings_and_the_need_of_keys():
    assert list(told().lines()) == [
        "http://127.0.0.1:8788/v1 is the base URL for clients; http://127.0.0.1:8788 for those of Anthropic",
        "models    api.example:8443 (default); api.anthropic.com (claude) for claude-*",
        "mode      tree: each conversation is kept; of one that outgrows 20,000 tokens, a view goes up",
        "lines     by extractive@2",
        f"database  {Path.cwd() / 'talks.db'}",
        f"settings  {Path.cwd() / 'everlog.yaml'}",
        "keys      not needed on this machine",
        "look      http://127.0.0.1:8788/everlog/v1",
    ]


def test_the_same_is_there_for_programs_and_no_secret_is():
    found = told(database="postgresql://ada:s3cret@db.example/chats", path=None).document()
    assert found["base_url"] == "http://127.0.0.1:8788/v1"
    assert (found["mode"], found["budget_tokens"], found["settings"], found["needs_keys"]) == (
        "tree",
        20_000,
        None,
        False,
    )
    assert found["database"] == "postgresql://ada@db.example/chats"
    assert [one["host"] for one in found["upstreams"]] == ["api.example:8443", "api.anthropic.com"]
    assert "secret" not in str(found)
    assert "s3cret" not in str(found)


def test_each_mode_says_what_it_does():
    said = [told(environment={"EVERLOG_MODE": mode}).lines() for mode in get_args(Mode)]
    assert [next(line for line in lines if line.startswith("mode "))[10:] for lines in said] == [
        "off: nothing is kept",
        "record: each conversation is kept",
        "rolling: each conversation is kept; of one that outgrows 20,000 tokens, a summary goes up",
        "tree: each conversation is kept; of one that outgrows 20,000 tokens, a view goes up",
    ]


def test_it_says_who_makes_lines_or_summaries_or_that_nobody_does():
    model = Model()
    for mode, compactor, said in (
        ("tree", None, "lines     by extractive@2"),
        ("tree", model, "lines     by anthropic/claude-haiku-5-5"),
        ("rolling", model, "summaries by anthropic/claude-haiku-5-5"),
        ("rolling", None, "summaries by nobody here: name a model in [compactor]"),
    ):
        assert said in list(told(environment={"EVERLOG_MODE": mode}, compactor=compactor).lines())
    assert not [
        one for one in told(environment={"EVERLOG_MODE": "record"}).lines() if one.startswith(("lines", "summ"))
    ]


def test_with_nothing_kept_there_is_no_database_and_elsewhere_keys_are_needed():
    off = told(environment={"EVERLOG_MODE": "off"})
    assert "database  none" in list(off.lines())
    assert "look" not in " ".join(off.lines()).split()
    away = told(environment={"EVERLOG_MODE": "off", "EVERLOG_HOST": "0.0.0.0"})
    assert away.needs_keys
    assert away.database is not None
