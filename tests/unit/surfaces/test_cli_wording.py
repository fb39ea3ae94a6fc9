"""What is wrong with a command line is said in our words: the option, what it takes, and what was given."""

import re

import pytest

from everlog.errors import Mistake
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
        (
            "threads a b",
            "everlog threads takes no more than its arguments; 'a b' is too much (see `everlog threads --help`)",
        ),
    ],
)
def test_a_mistake_names_the_option_and_what_it_takes(line: str, said: str):
    with pytest.raises(Mistake, match=f"^{re.escape(said)}$"):
        run(line.split(" "))
