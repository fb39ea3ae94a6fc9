"""Where the prefix of a request broke, and who broke it."""

import copy
import threading
from array import array
from itertools import count
from time import process_time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from everlog.protocols.shapes import Record, dumps
from everlog.surfaces.proxy.remembering.prefixes import Laid, Prefix, Prefixes, laid
from everlog.surfaces.proxy.remembering.totals import Totals
from everlog.surfaces.proxy.remembering.watching import Watch
from tests.unit.protocols.histories import anthropic_bodies, chat_bodies, responses_bodies

MARK = {"cache_control": {"type": "ephemeral"}}
WHOSE = ("tenant", "thread", "model")
HI = {"role": "user", "content": "hi"}
CHAT: Record = {
    "messages": [
        {"role": "system", "content": "A"},
        HI,
        {"role": "assistant", "content": "yes"},
        {**HI, "content": "go"},
    ],
    "tools": [{"type": "function", "function": {"name": "read"}}],
}
CLAUDE: Record = {
    "tools": [{"name": "read", "input_schema": {}}],
    "system": [{"type": "text", "text": "A"}, {"type": "text", "text": "B", **MARK}],
    "messages": [
        HI,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "read", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "1", **MARK}]},
    ],
}
RESPONSES: Record = {
    "instructions": "A",
    "input": [
        {"type": "message", "role": "user", "id": "msg_1", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "1"},
    ],
}
BODIES = {"chat_completions": CHAT, "anthropic": CLAUDE, "responses": RESPONSES}
SAID = {"chat_completions": "messages", "anthropic": "messages", "responses": "input"}


def numbered(numbers):
    return lambda _: str(next(numbers))


def after(protocol, first, second, **more):
    prefixes = Prefixes()
    assert prefixes.judge(WHOSE, laid(protocol, first)) is None
    found = prefixes.judge(WHOSE, laid(protocol, second), **more)
    assert found is not None
    return found


def changed(protocol, act):
    body = copy.deepcopy(BODIES[protocol])
    act(body)
    return body


@pytest.mark.parametrize("protocol", sorted(BODIES))
def test_a_request_that_only_grows_keeps_its_prefix(protocol):
    body = BODIES[protocol]
    grown = changed(protocol, lambda one: one[SAID[protocol]].append({"role": "user", "content": "more"}))
    found = after(protocol, body, grown)
    assert (found.by, found.at_byte) == (None, laid(protocol, body).size)
    assert after(protocol, body, body).by is None
    assert after(protocol, grown, body).by is None


@pytest.mark.parametrize(
    ("protocol", "act", "by"),
    [
        ("chat_completions", lambda one: one["tools"].append({"type": "function"}), "caller:tools"),
        ("chat_completions", lambda one: one["tools"].clear(), "caller:tools"),
        ("chat_completions", lambda one: one["tools"][0].update(x=1), "caller:tools"),
        ("chat_completions", lambda one: one.update(response_format={"type": "json_object"}), "caller:settings"),
        ("chat_completions", lambda one: one["messages"][0].update(content="B"), "caller:message 0"),
        ("chat_completions", lambda one: one["messages"][1].update(content="ho"), "caller:message 1"),
        ("chat_completions", lambda one: one["messages"].pop(2), "caller:message 2"),
        ("anthropic", lambda one: one["system"][1].update(text="C"), "caller:instructions"),
        ("anthropic", lambda one: one["system"].pop(), "caller:instructions"),
        ("anthropic", lambda one: one.update(thinking={"type": "disabled"}), "caller:settings"),
        ("anthropic", lambda one: one["messages"][2]["content"][0].update(content="[cleared]"), "caller:message 2"),
        ("responses", lambda one: one.update(instructions="B"), "caller:instructions"),
        ("responses", lambda one: one["input"][1].update(arguments="{ }"), "caller:message 1"),
    ],
    ids=numbered(count()),
)
def test_who_broke_a_prefix_is_told_with_the_place(protocol, act, by):
    found = after(protocol, BODIES[protocol], changed(protocol, act))
    assert found.by == by
    assert found.lost_bytes == laid(protocol, BODIES[protocol]).size - found.at_byte > 0


@pytest.mark.parametrize(
    ("protocol", "act"),
    [
        ("anthropic", lambda one: one["system"][1].pop("cache_control")),
        ("anthropic", lambda one: one["messages"][2]["content"][0].pop("cache_control")),
        ("anthropic", lambda one: one["messages"][0].update(content=[{"type": "text", "text": "hi", **MARK}])),
        ("anthropic", lambda one: one["tools"][0].update(MARK)),
        ("anthropic", lambda one: one["messages"][2]["content"].append({"type": "text", "text": "reminder"})),
        ("chat_completions", lambda one: one["messages"][1].update(content=[{"type": "text", "text": "hi"}])),
        ("chat_completions", lambda one: one.update(temperature=0.5, stream=True)),
        ("responses", lambda one: one["input"][0].update(id="msg_2", status="completed")),
        ("responses", lambda one: one["input"][0].pop("type")),
        ("responses", lambda one: one["input"][1].update(id="fc_2")),
    ],
    ids=numbered(count()),
)
def test_what_no_model_reads_breaks_nothing(protocol, act):
    assert after(protocol, BODIES[protocol], changed(protocol, act)).by is None


def test_an_epoch_that_turned_broke_it_but_for_what_the_caller_changed():
    other = changed("chat_completions", lambda one: one["messages"][1].update(content="[#0 x 100] hi"))
    assert after("chat_completions", CHAT, other, turned="full", compiled=3).by == "epoch:full"
    assert after("chat_completions", CHAT, other, turned="tools", compiled=3).by == "caller:tools"
    assert after("chat_completions", CHAT, CHAT, turned="full").by is None


def test_what_memory_wrote_and_nobody_turned_is_memorys_own_doing():
    other = changed("chat_completions", lambda one: one["messages"][1].update(content="ho"))
    assert after("chat_completions", CHAT, other, compiled=3).by == "memory:message 1"
    assert after("chat_completions", CHAT, other, compiled=1).by == "caller:message 1"


def test_the_header_tells_of_the_caller_always_and_of_all_else_if_asked():
    kept = Prefix(at_byte=5, of_bytes=9)
    ours = Prefix(at_byte=5, of_bytes=9, lost_bytes=2, by="epoch:full")
    theirs = Prefix(at_byte=5, of_bytes=9, lost_bytes=2, by="caller:message 12")
    assert kept.said(all_of_it=True) == ((b"x-everlog-prefix", b"kept; bytes=5"),)
    assert ours.said(all_of_it=True) == ((b"x-everlog-prefix", b"broke; at=5; of=9; by=epoch:full"),)
    assert kept.said(all_of_it=False) == ours.said(all_of_it=False) == ()
    for all_of_it in (True, False):
        assert theirs.said(all_of_it=all_of_it) == ((b"x-everlog-prefix", b"broke; at=5; of=9; by=caller:message 12"),)


def test_totals_are_by_whom_and_with_the_bytes_that_it_cost_for_each_tenant():
    totals = Totals()
    other = changed("chat_completions", lambda one: one["messages"][1].update(content="ho"))
    broke = after("chat_completions", CHAT, other)
    for found in (broke, broke, after("chat_completions", CHAT, CHAT)):
        totals.judged("a", found)
    totals.judged("b", broke)
    totals.asked("a", "tree")
    totals.hid("a", 2)
    totals.asked("a", "tree")
    totals.asked("b", "record")
    of_a = totals.of("a")
    assert of_a.modes == {"tree": 2}
    assert of_a.hidden_rounds == 2
    assert of_a.prefixes == {"caller:message": 2, "nobody": 1}
    assert of_a.lost_bytes == {"caller:message": 2 * broke.lost_bytes}
    assert totals.of(None).modes == {"record": 1, "tree": 2}
    assert totals.of(None).prefixes == {"caller:message": 3, "nobody": 1}
    assert totals.of("c").modes == {}


def test_threads_tenants_and_models_are_compared_with_themselves_alone():
    prefixes = Prefixes()
    for whose in (WHOSE, ("other", *WHOSE[1:]), (*WHOSE[:2], "other")):
        assert prefixes.judge(whose, laid("chat_completions", CHAT)) is None


def test_a_request_is_compared_with_what_the_upstream_took_and_not_with_what_it_refused():
    watch, other = Watch(), changed("chat_completions", lambda one: one["messages"][0].update(content="B"))
    whose: Record = {"tenant": "a", "thread": "t", "consumer": "m"}
    watch.sent("chat_completions", CHAT, mode="tree", **whose)
    watch.mended("chat_completions", other, turned=None, **whose)
    kept = watch.sent("chat_completions", other, mode="tree", compiled=4, **whose)
    assert kept is not None
    assert kept.by is None
    watch.mended("chat_completions", CHAT, turned="estimate", **whose)
    assert watch.totals.of("a").prefixes == {"epoch:estimate": 1, "nobody": 1}
    assert watch.totals.of("a").modes == {"tree": 2}


def test_no_more_is_held_than_there_is_room_for():
    one = laid("chat_completions", CHAT)
    prefixes = Prefixes(most=2)
    for name in "abc":
        prefixes.hold((name,), one)
    assert [prefixes.judge((name,), one) is None for name in "cba"] == [False, False, True]
    narrow = Prefixes(most_segments=2 * len(one.ends))
    for name in "abc":
        narrow.hold((name,), one)
    assert narrow.judge(("c",), one) is not None
    assert narrow.judge(("a",), one) is None


bodies = st.one_of(
    st.tuples(st.just("chat_completions"), chat_bodies()),
    st.tuples(st.just("anthropic"), anthropic_bodies()),
    st.tuples(st.just("responses"), responses_bodies()),
)


@given(case=bodies, at=st.integers(0, 20))
def test_the_place_is_the_first_part_that_differs(case, at):
    protocol, body = case
    said = body.get(SAID[protocol])
    assume(isinstance(said, list) and said)
    at %= len(said)
    other = {**body, SAID[protocol]: [*said[:at], {"role": "user", "content": "never said before"}, *said[at + 1 :]]}
    shared = laid(protocol, {**body, SAID[protocol]: said[:at]}).size
    one, two = laid(protocol, body), laid(protocol, other)
    found = after(protocol, body, other)
    if one.hashes[: len(two.hashes)] == two.hashes or two.hashes[: len(one.hashes)] == one.hashes:
        assert found.by is None
    else:
        assert found.at_byte >= shared
        assert found.by is not None
        assert int(found.by.removeprefix("caller:message ")) >= at


@given(first=st.binary(max_size=64), second=st.binary(max_size=64))
def test_parts_that_are_shared_are_found_by_halves(first, second):
    def made(data):
        hashes = b"".join(bytes([one]) * 8 for one in data)
        return Laid(hashes, array("Q", range(1, len(data) + 1)), array("q", range(len(data))))

    count = 0
    for one, two in zip(first, second, strict=False):
        if one != two:
            break
        count += 1
    assert made(first).shared(made(second)) == count


def test_half_a_surrogate_pair_is_no_reason_to_fail():
    assert laid("chat_completions", {"messages": [{"role": "user", "content": "\ud83d"}]}).size > 0


def test_many_threads_judge_at_once():
    prefixes = Prefixes(most=8)
    one = laid("chat_completions", CHAT)

    def act():
        for n in range(500):
            prefixes.judge((str(n % 16),), one)

    threads = [threading.Thread(target=act) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert prefixes.judge(("0",), one) in {None, Prefix(at_byte=one.size, of_bytes=one.size)}


def test_a_megabyte_takes_few_milliseconds():
    words = "These are words that somebody said, and some of them are not in ASCII: é, 東京. " * 30
    body: Record = {"messages": [{"role": "user", "content": [{"type": "text", "text": words}]} for _ in range(400)]}
    size = len(dumps(body).encode())
    took = []
    for _ in range(3):
        begun = process_time()
        laid("chat_completions", body)
        took.append(process_time() - begun)
    assert min(took) / (size / 1e6) < 0.015
