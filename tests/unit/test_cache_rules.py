"""The rules of providers' caches, as the benchmark applies them: each with the provider's own numbers, over wire bodies."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks._caches.blocks import Prompt, parse_anthropic, parse_openai
from benchmarks._caches.common import Common, Units
from benchmarks._caches.marked import Anthropic, Exact
from benchmarks._caches.providers import Cache
from benchmarks._caches.use import Use
from everlog import Chat, ChatConfig
from everlog.registry import Price, builtin

MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
POINT = {"prompt_cache_breakpoint": {"mode": "explicit"}}
EXPLICIT = {"prompt_cache_options": {"mode": "explicit"}}


def words(tokens: int, name: str = "a") -> str:
    """Return a text of exactly so many tokens; a name of three letters is seen in one."""
    return (f"{name} " * (4 * tokens))[: 4 * tokens]


def block(tokens: int, name: str = "a", mark: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "text", "text": words(tokens, name), **(mark or {})}


def claude(*blocks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": list(blocks)}], **fields}


def gpt(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "m", "input": list(messages), **fields}


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def answer(tokens: int, name: str = "r") -> dict[str, Any]:
    return {"role": "assistant", "content": words(tokens, name)}


def anthropic(*asked: tuple[float, dict[str, Any]], minimum: int = 512) -> Use:
    """Return what became of the last of several requests."""
    return _last(Anthropic(minimum), parse_anthropic, asked)


def exact(*asked: tuple[float, dict[str, Any]]) -> Use:
    return _last(Exact(), parse_openai, asked)


def _last(
    cache: Cache, parse: Callable[[dict[str, Any]], Prompt], asked: Iterable[tuple[float, dict[str, Any]]]
) -> Use:
    return [cache.ask(at_s, parse(body)) for at_s, body in asked][-1]


@pytest.mark.parametrize(("minimum", "tokens"), [(512, 512), (1024, 1024), (2048, 2048), (4096, 4096)])
def test_a_prompt_is_kept_from_the_minimum_of_its_model_on(minimum: int, tokens: int):
    kept = claude(block(tokens, mark=MARK))
    short = claude(block(tokens - 1, mark=MARK))
    assert anthropic((0, kept), (1, kept), minimum=minimum) == Use(read=tokens)
    assert anthropic((0, short), (1, short), minimum=minimum) == Use(uncached=tokens - 1)


@pytest.mark.parametrize(
    ("model", "minimum"),
    [
        ("claude-opus-5-5", 512),
        ("claude-sonnet-5-5", 512),
        ("claude-haiku-5-5", 512),
        ("claude-sonnet-5", 1024),
        ("claude-opus-4-7", 2048),
        ("claude-haiku-4-5", 4096),
    ],
)
def test_the_minimum_of_a_model_is_what_the_registry_says(model: str, minimum: int):
    assert builtin().find(model, provider="anthropic").cache_from_tokens == minimum


def test_the_first_request_writes_up_to_its_last_mark_and_reads_the_rest_anew():
    assert anthropic((0, claude(block(600, mark=MARK), block(50, "b")))) == Use(uncached=50, written=600)


@pytest.mark.parametrize(("added", "read"), [(19, 600), (20, 0)])
def test_a_mark_finds_an_entry_at_twenty_blocks_and_not_at_the_next(added: int, read: int):
    """The marked block is the first of the twenty."""
    before = claude(block(600, mark=MARK))
    more = [block(1, str(n)) for n in range(added - 1)]
    got = anthropic((0, before), (1, claude(block(600), *more, block(1, "end", MARK))))
    assert got == Use(read=read, written=600 + added - read)


def test_a_second_mark_where_the_last_request_ended_finds_it_however_much_was_added():
    more = [block(1, str(n)) for n in range(70)]
    body = claude(block(600, mark=MARK), *more, block(1, "end", MARK))
    assert anthropic((0, claude(block(600, mark=MARK))), (1, body)) == Use(read=600, written=71)


@pytest.mark.parametrize(("mark", "life"), [(MARK, 300), (HOUR, 3600)])
def test_an_entry_lives_five_minutes_or_an_hour_from_its_last_hit(mark: dict[str, Any], life: int):
    body = claude(block(600, mark=mark))
    assert anthropic((0, body), (life, body)).read == 600
    assert anthropic((0, body), (life + 1, body)).read == 0
    assert anthropic((0, body), (life, body), (2 * life, body)).read == 600


def test_what_is_kept_for_an_hour_is_counted_apart():
    got = anthropic((0, claude(block(600, mark=HOUR), block(70, "b", MARK), block(5, "c"))))
    assert got == Use(uncached=5, written=70, written_long=600)


def test_a_longer_life_behind_a_shorter_one_and_a_fifth_mark_are_refused():
    with pytest.raises(ValueError, match="refuses"):
        parse_anthropic(claude(block(600, mark=MARK), block(70, "b", HOUR)))
    with pytest.raises(ValueError, match="refuses"):
        parse_anthropic(claude(*(block(9, mark=MARK) for _ in range(5))))


def test_the_automatic_mark_of_a_body_stands_on_its_last_block_that_may_carry_one():
    thinking = {"type": "thinking", "thinking": words(9), "signature": "s"}
    body = claude(block(600), thinking, **MARK)
    assert [one.mark for one in parse_anthropic(body).blocks] == ["5m", None]


SYSTEM = [block(600, "s", MARK)]
TOOL = {"name": "t", "description": words(600, "d"), "input_schema": {"type": "object"}}


@pytest.mark.parametrize(
    ("changed", "read"),
    [
        ({"tools": [{**TOOL, "name": "u"}]}, "nothing"),
        ({"model": "n"}, "nothing"),
        ({"system": [block(600, "z", MARK)]}, "tools"),
        ({"tool_choice": {"type": "any"}}, "system"),
        ({"thinking": {"type": "adaptive"}}, "system"),
        ({"max_tokens": 10}, "messages"),
    ],
)
def test_a_change_invalidates_what_is_rendered_behind_it(changed: dict[str, Any], read: str):
    body = claude(block(600, "m", MARK), tools=[{**TOOL, **MARK}], system=SYSTEM)
    tools, system, messages = (one.upto for one in parse_anthropic(body).blocks)
    reach = {"nothing": 0, "tools": tools, "system": system, "messages": messages}
    assert anthropic((0, body), (1, {**body, **changed})).read == reach[read]


def test_marks_are_not_part_of_the_bytes_that_must_be_equal():
    marked, bare = parse_anthropic(claude(block(9, mark=MARK))), parse_anthropic(claude(block(9)))
    assert marked.blocks[0].key == bare.blocks[0].key


def test_prices_are_those_of_the_providers_pages():
    sonnet = builtin().find("claude-sonnet-5-5", provider="anthropic").prices[0]
    use = Use(read=1_000_000, uncached=1_000_000, written=1_000_000, written_long=1_000_000)
    assert use.usd(sonnet) == pytest.approx(0.10 + 2 + 2.50 + 4)
    terra = builtin().find("gpt-5.6-terra", provider="openai").prices[0]
    assert use.usd(terra) == pytest.approx(0.20 + 2 + 2.50 + 5)
    assert Use(read=1_000_000, written=1_000_000).usd(Price(input=3)) == 6


def test_haiku_costs_five_times_as_much_above_a_hundred_thousand_tokens():
    haiku = builtin().find("claude-haiku-5-5", provider="anthropic")
    near, above = haiku.price(100_000), haiku.price(100_001)
    assert near is not None
    assert above is not None
    assert Use(written=10).usd(above) == pytest.approx(5 * Use(written=10).usd(near))


def test_openai_reads_at_an_exact_end_and_falls_back_to_no_shorter_prefix():
    """Both share 2,000 tokens; nothing ends there."""
    first = gpt(user(block(2000), block(100, "b")))
    second = gpt(user(block(2000), block(100, "c")))
    assert exact((0, first), (1, second)) == Use(written=2100)
    marked = [gpt(user(block(2000, mark=POINT), block(100, name))) for name in "bc"]
    assert exact((0, marked[0]), (1, marked[1])) == Use(read=2000, written=100)


def test_openai_writes_from_1024_tokens_on():
    body, short = gpt(user(block(1024))), gpt(user(block(1023)))
    assert exact((0, body), (1, body)) == Use(read=1024)
    assert exact((0, short), (1, short)) == Use(uncached=1023)


def test_a_conversation_that_grows_reads_where_the_last_request_ended():
    first = gpt(user(block(2000)))
    second = gpt(user(block(2000)), answer(50), user(block(30)))
    got = exact((0, first), (1, second))
    assert got.read == 2000
    assert got.uncached == 0


def test_in_explicit_mode_only_marks_count_and_what_is_behind_the_last_costs_no_writing():
    body = gpt(user(block(2000, mark=POINT)), answer(50), user(block(30)), **EXPLICIT)
    first = exact((0, body))
    assert first == Use(written=2000, uncached=first.uncached)
    assert exact((0, body), (1, body)).read == 2000
    bare = gpt(user(block(2000)), **EXPLICIT)
    assert exact((0, bare), (1, bare)) == Use(uncached=2000)


def test_what_the_assistant_says_carries_no_mark_and_ends_nothing():
    said = {"role": "assistant", "content": [{**block(2000), **POINT}]}
    body = gpt(said, **EXPLICIT)
    assert exact((0, body), (1, body)).read == 0


@pytest.mark.parametrize(("messages", "read"), [(20, 2000), (21, 0)])
def test_twenty_earlier_ends_of_messages_are_looked_at(messages: int, read: int):
    more = [user(block(1, str(n))) for n in range(messages)]
    assert exact((0, gpt(user(block(2000)))), (1, gpt(user(block(2000)), *more))).read == read


@pytest.mark.parametrize(("marks", "read"), [(50, 2000), (51, 0)])
def test_the_first_two_and_the_latest_fifty_marks_are_looked_at(marks: int, read: int):
    """The entry is at the third of the marks."""
    first = [user(block(1, "x", POINT)), user(block(1, "y", POINT)), user(block(1998, mark=POINT))]
    more = [user(block(1, str(n), POINT)) for n in range(marks - 1)]
    assert exact((0, gpt(*first, **EXPLICIT)), (1, gpt(*first, *more, **EXPLICIT))).read == read


@pytest.mark.parametrize(("behind", "read"), [(3, 2000), (4, 0)])
def test_four_ends_are_written_the_providers_own_included(behind: int, read: int):
    """In implicit mode three marks are; of more, the first are not."""
    marked = [user(block(1, str(n), POINT)) for n in range(behind - 1)]
    body = gpt(user(block(2000, mark=POINT)), *marked, user(block(1, "end")))
    other = gpt(user(block(2000, mark=POINT)), user(block(1, "other")))
    assert exact((0, body), (1, other)).read == read


@pytest.mark.parametrize(("gap", "read"), [(1800, 2000), (1801, 0)])
def test_openai_keeps_an_entry_for_thirty_minutes(gap: int, read: int):
    body = gpt(user(block(2000)))
    assert exact((0, body), (gap, body)).read == read


def test_of_results_in_a_row_the_last_ends_something():
    results = [{"type": "function_call_output", "call_id": str(n), "output": words(1000)} for n in range(2)]
    calls = [{"type": "function_call", "call_id": str(n), "name": "t", "arguments": "{}"} for n in range(2)]
    first = gpt(user(block(9)), *calls, *results)
    assert exact((0, first), (1, gpt(user(block(9)), *calls, results[0], user(block(9))))).read == 0
    assert exact((0, first), (1, gpt(user(block(9)), *calls, *results, user(block(9))))).read > 2000


def test_openai_before_56_reads_in_steps_of_128_from_1024_on_and_pays_nothing_for_writing():
    cache = Common(minimum=1024, step=128, life_s=300)
    asked = [gpt(user(block(size), block(9, name))) for size, name in ((1400, "b"), (1400, "c"), (1020, "d"))]
    got = [cache.ask(at_s, parse_openai(body)) for at_s, body in enumerate(asked)]
    assert got == [Use(uncached=1409), Use(read=1280, uncached=129), Use(uncached=1029)]
    assert cache.ask(303, parse_openai(asked[0])).read == 0


def test_gemini_reads_the_longest_common_prefix_from_its_minimum_on():
    cache = Common(minimum=4096, step=1, life_s=3600)
    bodies = [gpt(user(block(size, "a"), block(9, name))) for size, name in ((4100, "b"), (4100, "c"), (4000, "d"))]
    got = [cache.ask(0, parse_openai(body)).read for body in bodies]
    assert got[0] == 0
    assert 4100 <= got[1] < 4109
    assert got[2] == 0


def test_deepseek_reads_whole_units_which_end_with_input_and_with_output():
    cache = Units()
    first, second = gpt(user(block(100))), gpt(user(block(100)), answer(40), user(block(10, "c")))
    assert cache.ask(0, parse_openai(first), reply_tokens=60).read == 0
    reply = parse_openai(second).blocks[1].tokens
    assert cache.ask(1, parse_openai(second), reply_tokens=9).read == 100 + reply


def test_deepseek_reads_what_requests_have_in_common_from_the_third_on():
    cache = Units()
    got = [cache.ask(at_s, parse_openai(gpt(user(block(100), block(9, name))))).read for at_s, name in enumerate("bcd")]
    assert got[:2] == [0, 0]
    assert got[2] >= 100


SIZES = st.lists(st.integers(1, 400), min_size=3, max_size=30)


@given(sizes=SIZES, place=st.integers(0, 29), shift=st.integers(-3, 3), added=st.integers(1, 30))
@settings(max_examples=30, deadline=None)
def test_a_mark_that_is_missing_or_elsewhere_in_the_second_request_never_reads_more(
    sizes: list[int], place: int, shift: int, added: int
):
    """More than what both requests mark at one place, which is the best there is, since nothing else was written."""
    place %= len(sizes)
    moved = min(len(sizes) - 1, max(0, place + shift))
    more = [block(1, f"n{n}") for n in range(added)]
    first = _marked_at(sizes, place)
    best = anthropic((0, claude(*first)), (1, claude(*first, *more))).read
    elsewhere = anthropic((0, claude(*first)), (1, claude(*_marked_at(sizes, moved), *more))).read
    nowhere = anthropic((0, claude(*first)), (1, claude(*_marked_at(sizes, None), *more))).read
    assert nowhere == 0
    assert elsewhere <= best
    assert elsewhere == (best if moved >= place else 0)


def _marked_at(sizes: list[int], place: int | None) -> list[dict[str, Any]]:
    return [block(size, f"b{n}", MARK if n == place else None) for n, size in enumerate(sizes)]


@given(sizes=SIZES, place=st.integers(0, 29), shift=st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_an_exact_mark_that_moved_by_a_block_reads_nothing(sizes: list[int], place: int, shift: int):
    place %= len(sizes)
    moved = (place + shift) % len(sizes)
    bodies = [
        gpt(*({"role": "user", "content": [one]} for one in _pointed(sizes, at)), **EXPLICIT) for at in (place, moved)
    ]
    same = exact((0, bodies[0]), (1, bodies[0])).read
    assert same == (upto if (upto := sum(sizes[: place + 1])) >= 1024 else 0)
    assert exact((0, bodies[0]), (1, bodies[1])).read == (same if moved == place else 0)


def _pointed(sizes: list[int], place: int) -> list[dict[str, Any]]:
    return [block(size, f"b{n}", POINT if n == place else None) for n, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("model", "protocol", "parse", "roles"),
    [
        ("claude-sonnet-5-5", "anthropic", parse_anthropic, ["system", "user", "assistant", "user"]),
        ("gpt-5.6-terra", "responses", parse_openai, ["system", "user", "assistant", "user"]),
        ("deepseek-flash", "chat_completions", parse_openai, ["system", "user", "assistant", "user"]),
    ],
)
def test_the_blocks_are_those_that_a_chat_renders_with_its_marks(
    model: str, protocol: str, parse: Any, roles: list[str]
):
    keys = {"anthropic": "none", "openai": "none", "deepseek": "none"}
    chat = Chat(model, protocol=protocol, config=ChatConfig(api_keys=keys))
    chat.with_instructions("Be brief.", cache_until_here=True)
    chat.messages = [*chat.messages, *({"role": role, "content": role} for role in ("user", "assistant", "user"))]
    chat.cache_until_here()
    blocks = parse(chat.render()).blocks
    assert [one.role for one in blocks] == roles
    assert [bool(one.mark) for one in blocks] == [True, False, False, True]
