"""The page of the proxy says what its settings are, and its files of settings are taken."""

import re
import tomllib
from typing import Any

import yaml  # type: ignore[import-untyped]

from everlog.surfaces.proxy.recording.controls import Controls
from everlog.surfaces.proxy.recording.telling import DEBUG
from everlog.surfaces.proxy.settings.configured import configured
from tests.docs.test_examples import ROOT, blocks

PAGE = ROOT / "docs" / "proxy.md"
ROW = re.compile(r"^\| `([a-z_]+(?:\.[a-z_]+)?)` \| (?:`([^`]*)`)? *\| .+ \|$", re.MULTILINE)


def shown(value: Any) -> str:
    """Return a default as the page writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None or value == {} else str(value)


def test_the_table_of_settings_has_each_key_that_acts_with_its_default():
    said = dict(ROW.findall(PAGE.read_text()))
    assert said == {one.key: shown(one.value) for one in configured(environment={}).values() if not one.is_waiting}


def test_the_files_of_settings_on_the_page_are_taken():
    (ours,) = [yaml.safe_load(block.body) for block in blocks(PAGE) if block.info == "yaml"]
    options = configured(file=ours, environment={}).options()
    assert [target.name for target in options.targets] == ["default", "anthropic", "here"]
    (codex,) = [tomllib.loads(block.body) for block in blocks(PAGE) if block.info == "toml"]
    assert codex["model_providers"][codex["model_provider"]]["wire_api"] == "responses"


def test_the_headers_on_the_page_are_those_that_count():
    text = PAGE.read_text().lower()
    for name in DEBUG:
        assert name in text or f"`-{name.removeprefix('x-everlog-')}`" in text, name
    off = re.findall(r"`(x-everlog-(?:memory|learning|debug)): (\w+)`", text)
    headers = tuple((name.encode(), value.encode()) for name, value in off)
    assert Controls.of(headers) == Controls(keeps=False, learns=False, tells=True)
