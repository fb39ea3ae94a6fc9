"""What rows can hold is read off the schema; each that holds something else is damage, said without what it holds."""

from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import select

from everlog import Damaged
from everlog.log import rows as log_rows
from everlog.memory.tree import rows as tree_rows
from everlog.pump import rows as pump_rows
from everlog.store import metadata
from everlog.store.shapes import MANY, shape_of
from everlog.store.statements import Statement

ENTRY = (3, 1, 0, 1_700_000_000_000_000, None, None, b"\x00[]")


def check(statement: Statement, *rows: tuple[Any, ...]) -> None:
    shape_of(statement).check(rows)


@pytest.mark.parametrize("times", [1, MANY])
@pytest.mark.parametrize(
    ("n", "value", "what"),
    [
        (0, -1, "'i' holds a number that is out of its range"),
        (0, 1 << 40, "'i' holds a number that is out of its range"),
        (0, 3.0, "'i' holds a value of another type"),
        (0, True, "'i' holds a value of another type"),
        (1, 6, "'kind' holds a number that is out of its range"),
        (1, None, "'kind' holds nothing"),
        (2, 1 << 31, "'turn' holds a number that is out of its range"),
        (3, 1 << 60, "'at' holds a number that is out of its range"),
        (4, b"words", "'request' holds a value of another type"),
        (6, "words", "'body' holds a value of another type"),
    ],
)
def test_a_value_that_its_column_cannot_hold_is_damage_and_is_not_quoted(n: int, value: Any, what: str, times: int):
    check(log_rows.ENTRIES, *[ENTRY] * times)
    broken = (*ENTRY[:n], value, *ENTRY[n + 1 :])
    with pytest.raises(Damaged) as raised:
        check(log_rows.ENTRIES, *[ENTRY] * (times - 1), broken)
    assert f"the table 'entry' is damaged: {what}" in str(raised.value)
    assert "`everlog verify`" in str(raised.value)
    assert "words" not in str(raised.value)


def test_a_word_of_a_small_vocabulary_is_one_of_it():
    rows = metadata.tables["receipt"]
    whole = ("t", "1" * 32, "user", "done", 0, "", "{}")
    check(select(*rows.c), whole)
    with pytest.raises(Damaged, match="'state' holds a word that is none of its own"):
        check(select(*rows.c), (*whole[:3], "undone", *whole[4:]))


def test_what_can_be_made_anew_says_by_which_command():
    with pytest.raises(Damaged, match="`everlog rebuild` makes"):
        check(tree_rows.NODES, ("t", 0, "a size", b""))


def test_counts_sums_and_maxima_are_numbers_and_may_be_none():
    check(log_rows.TOTALS, (1, 7, 300), (2, 1, Decimal(5)))
    check(log_rows.HIGHEST, (None,), (4,))
    for statement, row in ((log_rows.TOTALS, (1, 7, 2.5)), (log_rows.HIGHEST, ("x",)), (log_rows.HIGHEST, (-1,))):
        with pytest.raises(Damaged):
            check(statement, row)


def test_the_columns_of_a_query_within_a_query_are_known():
    whole = ("t", "tree", "subject", 1, 1, 5, None, None, 1)
    check(pump_rows.WAITING, whole)
    with pytest.raises(Damaged, match="'live' holds a number"):
        check(pump_rows.WAITING, (*whole[:4], 2, *whole[5:]))


def test_a_statement_that_returns_no_rows_has_no_shape():
    assert shape_of(log_rows.PUT_ENTRY).fields == ()
