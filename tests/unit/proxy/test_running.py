"""The proxy on the database that its settings name."""

from pathlib import Path

import msgspec
import pytest

from everlog.surfaces.cli.session import Session
from everlog.surfaces.proxy.running import placed
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
