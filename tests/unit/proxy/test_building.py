"""Who builds the lines of trees that are looked at over HTTP: the proxy, unless a model is set to do that."""

from pathlib import Path

import pytest

from everlog.surfaces import config
from everlog.surfaces.proxy.running import builder_of


def test_lines_are_built_here_unless_a_model_or_a_program_is_set_to_do_that(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    settings = config.settings(database=str(tmp_path / "talks.db"), environment={})
    assert getattr(builder_of(settings), "inline", False)
    file = tmp_path / "everlog.toml"
    file.write_text('[compactor]\nmodel = "m"\napi_key_env = "NOT_SET_ANYWHERE"\n')
    assert not getattr(builder_of(settings), "inline", False)
    file.write_text('[compactor]\nmodel = "extractive"\n')
    assert getattr(builder_of(settings), "inline", False)
    monkeypatch.setenv("EVERLOG_COMPACTOR", "anthropic/claude-haiku-4-5")
    assert not getattr(builder_of(settings), "inline", False)
