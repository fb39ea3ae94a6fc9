"""The prompts that the benchmark of caches compares, and their marks on the wire."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest

from benchmarks._caches import policies
from benchmarks._caches.blocks import Block, Prompt
from benchmarks._caches.ours import ours
from benchmarks._caches.plans import PLANS, requests
from benchmarks._caches.policies import BUDGET_BYTES, Policy
from benchmarks._caches.providers import Wire, wires
from benchmarks._caches.runs import run
from benchmarks._caches.talks import Talk, agent, plain, with_tools
from benchmarks._caches.use import Use

ANTHROPIC, EXACT, NONE = wires()

Move = Callable[[tuple[Block, ...]], tuple[Block, ...]]


@cache
def talks() -> tuple[Talk, ...]:
    return plain(45), with_tools(6), agent(1)


@cache
def prompts(wire: Wire, which: int) -> tuple[Prompt, ...]:
    return tuple(wire.parse(request.body) for request in ours(talks()[which], wire))


def marks(prompt: Prompt) -> list[int]:
    return [place for place, block in enumerate(prompt.blocks) if block.mark]


def follows(before: Prompt, after: Prompt) -> bool:
    return len(before.blocks) <= len(after.blocks) and before.blocks[-1].key == after.blocks[len(before.blocks) - 1].key


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("wire", [ANTHROPIC, EXACT, NONE], ids=["anthropic", "exact", "none"])
def test_requests_only_grow_at_their_end_until_the_epoch_turns(wire: Wire, which: int):
    asked = prompts(wire, which)
    turned = [n for n in range(1, len(asked)) if not follows(asked[n - 1], asked[n])]
    assert len(turned) <= 2 + len(asked) // 10
    assert all(asked[n].tokens < asked[n - 1].tokens for n in turned)


def test_marks_of_anthropic_stand_behind_the_instructions_where_the_last_request_ended_and_at_the_end():
    asked = prompts(ANTHROPIC, 2)
    for before, after in pairwise(asked):
        places = marks(after)
        roles = [block.role for block in after.blocks]
        assert len(places) <= 4
        assert places[0] == roles.index("system")
        assert places[-1] == len(after.blocks) - 1
        assert not follows(before, after) or len(before.blocks) - 1 in places


def test_marks_of_openai_stand_behind_the_instructions_and_in_the_view_only():
    for prompt in prompts(EXACT, 0):
        assert prompt.is_implicit
        assert {prompt.blocks[place].role for place in marks(prompt)} <= {"system", "user"}
        assert len(marks(prompt)) in {1, 3}


def test_who_takes_no_marks_gets_none():
    assert not any(map(marks, prompts(NONE, 1)))


@pytest.mark.parametrize("policy", list(PLANS), ids=lambda policy: policy.__name__)
def test_every_policy_makes_lawful_requests_on_every_wire(policy: Policy):
    """The parser refuses what Anthropic refuses; a run counts every token once."""
    for wire in (ANTHROPIC, EXACT, NONE):
        for found in run(wire, requests(policy, talks()[1], wire)).values():
            assert len(found.spent_usd) == len(talks()[1].exchanges)
            assert 0 <= found.new <= found.use.tokens


@pytest.mark.parametrize("talk", talks(), ids=lambda talk: talk.name)
def test_memory_and_words_of_an_epoch_stay_within_the_budget(talk: Talk):
    for _, sent in policies.epochs(talk):
        assert policies.weight(sent.words) + policies.weight_of(sent.memory) <= BUDGET_BYTES


def moved(blocks: tuple[Block, ...], places: Sequence[int]) -> tuple[Block, ...]:
    """Return blocks with the marks at some places one block earlier."""
    out = list(blocks)
    for place in places:
        out[place - 1] = replace(out[place - 1], mark=out[place].mark)
        out[place] = replace(out[place], mark=None)
    return tuple(out)


def used(wire: Wire, which: int, move: Move) -> Use:
    made = wire.providers[0].cache()
    total = Use()
    for at_s, prompt in enumerate(prompts(wire, which)):
        total += made.ask(at_s, replace(prompt, blocks=move(prompt.blocks)))
    return total


def last(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    return moved(blocks, [len(blocks) - 1])


def where_the_last_ended(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    places = [place for place, block in enumerate(blocks) if block.mark]
    return moved(blocks, places[-2:-1]) if len(places) > 3 else blocks


@pytest.mark.parametrize("move", [last, where_the_last_ended])
def test_a_mark_that_is_moved_by_one_block_changes_the_result(move: Move):
    kept = used(ANTHROPIC, 2, tuple)
    elsewhere = used(ANTHROPIC, 2, move)
    assert elsewhere != kept
    assert elsewhere.read < kept.read


def test_an_exact_mark_that_stood_one_block_later_leaves_nothing_to_read_once_the_epoch_turns():
    asked = prompts(EXACT, 0)
    turn = next(n for n in range(1, len(asked)) if not follows(asked[n - 1], asked[n]))

    def read(move: Move) -> int:
        made = EXACT.providers[0].cache()
        uses = [made.ask(n, replace(one, blocks=move(one.blocks))) for n, one in enumerate(asked[:turn])]
        assert uses[-1].read > 1500
        return made.ask(turn, asked[turn]).read

    assert read(tuple) == asked[turn].blocks[0].upto == 1500
    assert read(later) == 0


def later(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    return (replace(blocks[0], mark=None), replace(blocks[1], mark=blocks[0].mark), *blocks[2:])
