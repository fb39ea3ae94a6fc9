"""`everlog doctor THREAD` and its twin over HTTP: why a thread has no memory yet, or what its next epoch waits for."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from inline_snapshot import snapshot

from everlog.surfaces.examining import Usual, checks
from everlog.testing import FrozenClock
from tests.unit.proxy.test_front import Proxy
from tests.unit.proxy.wire import PLAIN

TREE = replace(PLAIN, mode="tree", budget_tokens=1_000)
Lines = list[tuple[str, str, str]]


@contextmanager
def proxy_of(options: Any = TREE, **more: Any) -> Iterator[Proxy]:
    proxy = Proxy(options=options, **{"clock": FrozenClock(), **more})
    try:
        yield proxy
    finally:
        proxy.close()


def talk(proxy: Proxy, turns: int, *headers: tuple[bytes, bytes], start: int = 0, model: str = "m") -> None:
    """Have a talk of so many turns, each of which sends all that was said before."""
    for turn in range(start, start + turns):
        said = [{"role": "user", "content": f"Question {n}. {'So it is. ' * 20}"} for n in range(turn + 1)]
        answered = [{"role": "assistant", "content": "The xylophone is at home."} for _ in range(turn)]
        messages = [one for pair in zip(said, answered, strict=False) for one in pair] + said[-1:]
        body = json.dumps({"model": model, "messages": messages}).encode()
        client = proxy.ask("/v1/chat/completions", "POST", *headers, (b"x-everlog-session-id", b"s"), body=body)
        assert client.status == 200


def told(proxy: Proxy, *headers: tuple[bytes, bytes]) -> Lines:
    """Return what is told over HTTP of the only thread."""
    (thread,) = json.loads(proxy.ask("/everlog/v1/threads", "GET", *headers).body)["threads"]
    found = json.loads(proxy.ask(f"/everlog/v1/threads/{thread['key']}/doctor", "GET", *headers).body)["checks"]
    return [(one["name"], one["state"], one["said"]) for one in found]


def screen(lines: Lines) -> str:
    """Return what `everlog doctor THREAD` prints of it, unwrapped."""
    return "".join(f"{name:<13}{state:<5}{words}\n" for name, state, words in lines)


def said(lines: Lines, name: str) -> tuple[str, str]:
    return next((state, words) for found, state, words in lines if found == name)


def test_a_short_talk_says_how_far_it_is_from_its_threshold():
    with proxy_of(builds=False) as proxy:
        talk(proxy, 2)
        assert screen(told(proxy)) == snapshot("""\
thread       ok   4 messages in 2 turns
request      ok   the newest: 2026-01-05 09:00 UTC, m, append, answered with 200
mode         ok   tree at 1,000 tokens (the settings), unless a request says otherwise
size         ok   about 127 tokens were said; requests go up as they came until these are more than 1,000 (the budget), 873 from here
lines        todo 7 left to build; the proxy builds them beside requests, `everlog pump` at once
""")


def test_a_talk_that_outgrew_its_budget_says_what_its_next_epoch_waits_for():
    clock = FrozenClock()
    with proxy_of(clock=clock, builds=False) as proxy:
        talk(proxy, 12)
        (thread,) = proxy.home.threads()
        proxy.home.thread(thread.key).pump()
        talk(proxy, 12, start=12)
        clock.advance(timedelta(hours=1))
        talk(proxy, 1, start=24)
        assert screen(told(proxy)) == snapshot("""\
thread       ok   50 messages in 25 turns
request      ok   the newest: 2026-01-05 10:00 UTC, m, append, answered with 200
mode         ok   tree at 1,000 tokens (the settings), unless a request says otherwise
size         ok   about 1,591 tokens were said; memory stands for a part of them
epoch        ok   1, opened 2026-01-05 10:00 UTC because the one before was full (full): tree at 1,000 tokens for default/m; memory takes 2,050 of 4,000 bytes
next epoch   ok   when 1950 more bytes were said, or when half of the placeholders are built; or when instructions, tools or the model change
placeholders todo 18 of 20 lines in it had no words yet; the next epoch has those that are built
lines        todo 51 left to build; the proxy builds them beside requests, `everlog pump` at once
""")


def test_a_mode_without_memory_says_how_to_have_one():
    with proxy_of(replace(TREE, mode="record")) as proxy:
        talk(proxy, 1)
        lines = told(proxy)
        assert [name for name, _, _ in lines] == ["thread", "request", "mode", "size", "lines"]
        assert said(lines, "mode") == snapshot(
            (
                "skip",
                "record (the settings): it is kept, and goes up as the client sends it; --mode tree, a key's mode, or X-Everlog-Mode: tree of a request gives it memory",
            )
        )


def test_the_mode_and_budget_of_a_key_are_those_of_its_threads():
    with proxy_of(replace(TREE, mode="record"), needs_keys=True) as proxy:
        key = proxy.key(name="agent", mode="tree")
        talk(proxy, 1, key)
        assert said(told(proxy, key), "mode") == snapshot(
            ("ok", "tree at 1,000 tokens (key agent, the settings), unless a request says otherwise")
        )


def test_rolling_without_a_model_says_that_nobody_writes_summaries():
    with proxy_of(replace(TREE, mode="rolling")) as proxy:
        talk(proxy, 30)
        lines = told(proxy)
        assert said(lines, "summaries") == snapshot(
            ("fail", "without a model nobody writes them, so requests go up as they came: name one in [compactor]")
        )
        assert said(lines, "size")[0] == "todo"


def test_the_threshold_is_half_of_what_a_small_model_takes():
    with proxy_of(replace(TREE, budget_tokens=500_000)) as proxy:
        talk(proxy, 1, model="gpt-4o")
        assert "64,000 (half of what gpt-4o takes)" in said(told(proxy), "size")[1]


def test_a_request_that_went_up_as_it_came_though_others_had_memory_is_pointed_out():
    clock = FrozenClock()
    with proxy_of(clock=clock) as proxy:
        talk(proxy, 30)
        clock.advance(timedelta(minutes=1))
        talk(proxy, 1, (b"x-everlog-mode", b"record"), start=30)
        assert said(told(proxy), "degraded") == snapshot(
            (
                "todo",
                "the newest request went up as it came: its header X-Everlog-Mode or X-Everlog-Memory said so, or there was trouble (X-Everlog-Degraded, `everlog_degraded_total` of /metrics)",
            )
        )


def test_an_answer_says_why_its_request_went_up_as_it_came_to_a_client_that_asks():
    with proxy_of() as proxy:
        debug = (b"x-everlog-debug", b"on")
        assert proxy.chat(debug).header(b"x-everlog-memory-off") == [b"below"]
        assert proxy.chat().header(b"x-everlog-memory-off") == []
        assert proxy.chat(debug, (b"x-everlog-mode", b"record")).header(b"x-everlog-memory-off") == []


def test_a_thread_of_the_library_is_told_of_as_well():
    with proxy_of() as proxy:
        thread = proxy.home.thread("x")
        thread.append("user", "Hello")
        found = checks(proxy.home.store, proxy.home.name, thread.id, Usual(mode="tree", budget_tokens=1_000))
        assert [(one.name, one.state) for one in found] == [
            ("thread", "ok"),
            ("request", "skip"),
            ("mode", "ok"),
            ("size", "ok"),
            ("lines", "todo"),
        ]


def test_no_word_of_a_talk_is_told():
    with proxy_of() as proxy:
        talk(proxy, 30)
        assert not {"Question", "xylophone"} & set(json.dumps(told(proxy)).replace(".", " ").split())
