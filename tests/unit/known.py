"""Lists of what is known to go wrong, with the tests that show that it does not here: whether those tests are there."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]


def listed(table: Mapping[Any, str | tuple[str, ...]]) -> list[str]:
    """Return all tests that a table names, as `file::name`, each once."""
    named = [tests if isinstance(tests, tuple) else (tests,) for tests in table.values()]
    return list(dict.fromkeys(test for tests in named for test in tests))


def is_there(test: str) -> bool:
    """Return whether there is such a test."""
    file, _, name = test.partition("::")
    return re.search(rf"^(async )?def {name}\(", (TESTS / file).read_text("utf-8"), re.MULTILINE) is not None
