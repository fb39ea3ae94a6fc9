"""Real talks: never over a budget, and every message back byte for byte by zooming from what is shown.

`EVERLOG_DATA` names the folder that holds locomo/locomo3.json.
"""

import os
from functools import partial
from pathlib import Path

import pytest

from everlog import log
from everlog.importers import read
from everlog.log import NewTurn
from everlog.memory.tree import Extractive, Tree, parse, show
from everlog.memory.tree.lines import source
from everlog.memory.tree.nodes import cover, start_of, stop_of
from everlog.messages import Conversation, Message
from everlog.pump import run
from everlog.store import Store, Unit
from everlog.tokens import size_bytes
from tests.conformance.test_tree_laws import opened

pytestmark = pytest.mark.long

TENANT = "ada"
BUDGETS = [256, 300, 512, 1_000, 2_000, 4_000, 8_000, 16_000, 24_000, 40_000, 80_000, 128_000, 200_000]


@pytest.fixture(scope="module")
def talks() -> list[Conversation]:
    if "EVERLOG_DATA" not in os.environ:
        pytest.skip("EVERLOG_DATA does not name the folder of public data")
    with read(Path(os.environ["EVERLOG_DATA"]) / "locomo" / "locomo3.json") as found:
        return [talk for talk in found if isinstance(talk, Conversation)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_real_talk_stays_within_every_budget_and_comes_back_byte_for_byte(
    store: Store, talks: list[Conversation], number: int
):
    assert len(talks) == 3
    talk = talks[number]
    thread = store.write(TENANT, partial(filled, messages=talk.messages), name="test.fill")
    for built in (False, True):
        if built:
            assert run(store, TENANT, thread, Tree(), Extractive()).done
        for budget in BUDGETS:
            check(store, thread, budget, talk)


def filled(unit: Unit, messages: tuple[Message, ...]) -> str:
    row = log.create(unit, f"talk-{unit.now_us}")
    log.append(unit, row, [NewTurn(messages=(message,)) for message in messages])
    return row.id


def check(store: Store, thread: str, budget: int, talk: Conversation) -> None:
    shown = show(store, TENANT, thread, budget)
    assert size_bytes(shown.text) <= budget
    assert parse(shown.text) == shown
    assert shown.count == len(talk.messages)
    blocks = [*cover(0, shown.hidden), *(nid for nid, _ in shown.lines)]
    assert [start_of(nid) for nid in blocks] == [0, *map(stop_of, blocks)][: len(blocks)]
    entries = store.read(TENANT, lambda unit: log.at(unit, log.load(unit, thread), range(shown.count)))
    words = [source(entry).text.partition(": ")[2] for _, entry in sorted(entries.items())]
    assert store.read(TENANT, partial(opened, thread=thread, blocks=blocks)) == words
    assert [text for text in words if not text.startswith("(")] == [
        message.text for message, text in zip(talk.messages, words, strict=True) if not text.startswith("(")
    ]
