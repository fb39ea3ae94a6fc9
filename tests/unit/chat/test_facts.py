"""No fact of the specification of the chat is without its test, through the drivers and protocols that it concerns.

A test says by `@pytest.mark.covers("chat A.1 36")` what it shows; what it goes through is told by its fixtures.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.unit.chat.facts import FACTS, REPORTS, SEED

TESTS = Path(__file__).parents[2]
TABLES = {"chat A.1 ": FACTS, "chat A.2 ": REPORTS, "D": SEED}
FACT_NUMBERS = {*range(1, 120)} - {5, 12, 30, 43, 61, 71, 79, 86, 97, 103, 113}
"""All there are; some numbers were never given out."""

NAMES = re.compile(r'"(chat A\.|D\d)')
"""What stands in a file that names statements of ours."""

DRIVERS = frozenset({"talk", "chatting", "calling", "kind", "is_async", "way"})
"""Arguments of tests by which they run through both drivers."""
PROTOCOLS = frozenset({"protocol", "name"})


def rows(prefix: str) -> dict[str, tuple[str, str]]:
    """Return letter and words of each statement of a table, by its id."""
    lines = [line.split(" ", 2) for line in TABLES[prefix].strip().splitlines()]
    found = {f"{prefix}{number}": (letter, words) for number, letter, words in lines}
    assert len(found) == len(lines), "a number stands twice"
    return found


STATEMENTS = {one: row for prefix in TABLES for one, row in rows(prefix).items()}


@cache
def reached() -> dict[str, set[str]]:
    """Return what the tests that name an id go through, in letters."""
    found: dict[str, set[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text("utf-8")
        for function in ast.walk(ast.parse(text)) if NAMES.search(text) else ():
            if isinstance(function, ast.FunctionDef) and function.name.startswith("test_"):
                for one in covered(function):
                    found.setdefault(one, set()).update(letters(function))
    return found


def covered(function: ast.FunctionDef) -> Iterator[str]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.covers":
            yield from (str(ast.literal_eval(one)) for one in decorator.args)


def letters(function: ast.FunctionDef) -> str:
    """Return P, D or nothing; P includes D."""
    given = {one.arg for one in function.args.args}
    decorators = " ".join(map(ast.unparse, function.decorator_list))
    if "talk" in given or ("calling" in given and given & PROTOCOLS):
        return "PD"
    return "D" if given & DRIVERS or "DRIVERS" in decorators else ""


def test_every_number_has_its_line():
    numbers = {prefix: {int(one.removeprefix(prefix)) for one in rows(prefix)} for prefix in TABLES}
    assert numbers["chat A.1 "] == FACT_NUMBERS
    assert numbers["D"] == {*range(1, 95)}
    assert len(numbers["chat A.2 "]) == 17
    assert {letter for letter, _ in STATEMENTS.values()} == {*"PDL"}


@pytest.mark.parametrize("one", [one for one, (letter, _) in STATEMENTS.items() if letter != "L"])
def test_a_statement_is_shown_by_a_test_through_all_that_it_concerns(one: str):
    assert STATEMENTS[one][0] in reached().get(one, set()), STATEMENTS[one][1]


def test_what_is_not_here_yet_has_a_reason_and_no_test():
    later = {one: words for one, (letter, words) in STATEMENTS.items() if letter == "L"}
    assert [one for one, words in later.items() if not ("yet" in words and len(words) > 20)] == []
    assert later.keys() & reached().keys() == set()


def test_no_test_names_what_there_is_not():
    ours = {one for one in reached() if one.startswith(("chat ", "D"))}
    assert ours - STATEMENTS.keys() == set()
