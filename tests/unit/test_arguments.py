"""Arguments of a wrong kind are mistakes, with a message."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import everlog
from everlog import Message, Mistake, Origin

WRONG: list[Callable[[Any], object]] = [
    lambda thread: thread.append("user", None),
    lambda thread: thread.append("robot", "x"),
    lambda thread: thread.append("user", "x", author=5),
    lambda thread: thread.append("user", "x", client_key=5),
    lambda thread: thread.entries(1.5),
    lambda thread: thread.fork("1", "g"),
    lambda thread: thread.tree.view("1000"),
    lambda thread: thread.tree.view(1000.5),
    lambda thread: thread.turn([Message(kind="user", text="x", meta={"a": object()})]),  # type: ignore[dict-item]
    lambda thread: everlog.open(":memory:", keys="secret"),  # type: ignore[arg-type]
    lambda thread: everlog.open(":memory:", redactor="x"),  # type: ignore[arg-type]
    lambda thread: Origin(user=5),  # type: ignore[arg-type]
    lambda thread: Message(kind="user", at=datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))),
    lambda thread: Message(kind="user", at=datetime.max.replace(tzinfo=UTC, microsecond=0).replace(tzinfo=None)),
]


@pytest.mark.parametrize("wrong", WRONG, ids=map(str, range(len(WRONG))))
def test_an_argument_of_a_wrong_kind_is_a_mistake_and_stores_nothing(wrong: Callable[[Any], object]):
    with everlog.open(":memory:") as memory:
        thread = memory.thread("t")
        thread.append("user", "x")
        with pytest.raises(Mistake):
            wrong(thread)
        assert len(list(thread.entries())) == 1
