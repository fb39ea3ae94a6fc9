"""Settings of the proxy as a user sees them."""

from pathlib import Path

from tests.acceptance.cli import ROOT, Everlog


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
