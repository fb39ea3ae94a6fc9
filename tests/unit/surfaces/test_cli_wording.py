"""What is wrong with a command line is said in our words: the option, what it takes, and what was given."""

import re
from pathlib import Path

import pytest

from everlog.errors import Mistake, UnknownModel
from everlog.surfaces.cli import compactors, entry
from everlog.surfaces.cli.console import in_options
from everlog.surfaces.cli.program import run


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("view h --bytes abc", "--bytes takes a whole number, not 'abc' (see `everlog view --help`)"),
        ("show h --from -3", "--from takes a whole number, at least 0, not '-3' (see `everlog show --help`)"),
        ("show h --last 1.5", "--last takes a whole number, at least 1, not '1.5' (see `everlog show --help`)"),
        ("pump --at-once 0", "--at-once takes a whole number, at least 1, not '0' (see `everlog pump --help`)"),
        ("fork h x y", "AT takes a whole number, at least 0, not 'x' (see `everlog fork --help`)"),
        ("zoom h 3 x", "N takes a whole number, not 'x' (see `everlog zoom --help`)"),
        (
            "zoom h x",
            "'x' is neither a position, such as 24, nor the label of a line, such as 24+8 (see `everlog zoom --help`)",
        ),
        ("view h --bytes", "--bytes needs a value (see `everlog view --help`)"),
        ("--db", "--db needs a value (see `everlog --help`)"),
        ("threads --json=3", "--json takes no value (see `everlog threads --help`)"),
        ("threads --jso", "there is no option --jso; did you mean --json? (see `everlog threads --help`)"),
        ("threads --nope", "there is no option --nope (see `everlog threads --help`)"),
        ("nope", "there is no command 'nope' (see `everlog --help`)"),
        ("veiw", "there is no command 'veiw'; did you mean view or verify? (see `everlog --help`)"),
        (
            "keys",
            "name one of its commands: new, join, rotate, retire, create, list, revoke (see `everlog keys --help`)",
        ),
        ("keys nope", "there is no command 'nope' (see `everlog keys --help`)"),
        ("view", "everlog view needs THREAD (see `everlog view --help`)"),
        ("search h", "everlog search needs WORDS (see `everlog search --help`)"),
        ("threads a b", "everlog threads takes no arguments; 'a b' is too much (see `everlog threads --help`)"),
        ("chat a b", "everlog chat takes THREAD and nothing more; 'b' is too much (see `everlog chat --help`)"),
        ("chat --modle m", "there is no option --modle; did you mean --model? (see `everlog chat --help`)"),
    ],
)
def test_a_mistake_names_the_option_and_what_it_takes(line: str, said: str):
    with pytest.raises(Mistake, match=f"^{re.escape(said)}$"):
        run(line.split(" "))


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "For a new one give provider= and assume_model_exists=True",
            "For a new one give --provider and --assume-model-exists",
        ),
        ("set M_KEY, or give api_key=", "set M_KEY, or name another variable by api_key_env in everlog.toml"),
        (
            "build its chat with protocol='responses'",
            'give --protocol responses, or protocol = "responses" in everlog.toml',
        ),
    ],
)
def test_what_the_library_tells_programs_to_do_is_said_in_options(said: str, shown: str):
    assert in_options(said) == shown


def test_errors_of_a_model_that_is_named_speak_of_options(monkeypatch: pytest.MonkeyPatch, capsys, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    for line in ("chat --model nope", "chat --model anthropic/claude-haiku-5-5"):
        assert entry.run(line.split(" ")) == 2
        said = capsys.readouterr().err
        assert "=" not in said.replace('= "', "")


def test_a_compactor_of_a_module_that_is_not_there_is_told_where_python_looks():
    with pytest.raises(UnknownModel, match=r"nor does Python find a module nowhere: is its folder on PYTHONPATH\?"):
        compactors.named("nowhere:Thing")
    with pytest.raises(UnknownModel) as unknown:
        compactors.named("nowhere")
    assert "PYTHONPATH" not in str(unknown.value)
