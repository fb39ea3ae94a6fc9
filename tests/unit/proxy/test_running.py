"""The proxy on the database that its settings name."""

from pathlib import Path

import msgspec
import pytest

from everlog.surfaces.cli.session import Session
from everlog.surfaces.proxy.running import builds_lines, placed
from everlog.surfaces.proxy.settings.configured import Configured
from everlog.surfaces.proxy.settings.schema import Proxy

SAID = Configured(proxy=msgspec.convert({"memory": {"database_path": "own.db", "tenant": "acme"}}, Proxy))


def test_the_file_of_settings_names_the_database_where_nobody_else_does(monkeypatch: pytest.MonkeyPatch):
    found = placed(Session(), SAID).settings
    assert (found.path, found.tenant) == (Path("own.db"), "acme")
    silent = placed(Session(), Configured(proxy=Proxy())).settings
    assert (silent.path, silent.tenant) == (Path("everlog.db"), "default")


def test_an_option_and_the_environment_win_over_it(monkeypatch: pytest.MonkeyPatch):
    found = placed(Session(db="mine.db", tenant="me"), SAID).settings
    assert (found.path, found.tenant) == (Path("mine.db"), "me")
    monkeypatch.setenv("EVERLOG_DB", "theirs.db")
    assert placed(Session(), SAID).settings.path == Path("theirs.db")


def test_lines_are_built_here_unless_a_model_or_a_program_is_set_to_do_that(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("EVERLOG_DB", str(tmp_path / "talks.db"))
    assert builds_lines(Session())
    settings = tmp_path / "everlog.toml"
    settings.write_text('[compactor]\nmodel = "m"\napi_key_env = "NOT_SET_ANYWHERE"\n')
    assert not builds_lines(Session())
    settings.write_text('[compactor]\nmodel = "extractive"\n')
    assert builds_lines(Session())
    monkeypatch.setenv("EVERLOG_COMPACTOR", "anthropic/claude-haiku-4-5")
    assert not builds_lines(Session())
