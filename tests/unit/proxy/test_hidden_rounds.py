"""Calls of ours are answered within an answer, and the client never sees them."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.memory.tree.schemas import SCHEMAS
from everlog.protocols import FORMATS
from everlog.protocols.answering import Stamp
from everlog.protocols.shapes import encoded
from everlog.protocols.sse import Frames
from everlog.surfaces.proxy.hidden.offering import with_tools
from everlog.surfaces.proxy.hidden.rounds import Ended, Rounds
from everlog.testing.upstream.answers import body_of
from everlog.testing.upstream.streams import PLAIN, Manner, events_of
from tests.hidden_rounds import CASES, PROTOCOLS, Case, body_of_client, results_of
from tests.unit.protocols import rules
from tests.unit.protocols.test_answers import TYPES, in_order, put_together
from tests.unit.protocols.test_streams import manners, split

STAMP = Stamp(id="7", at=datetime(2026, 1, 5, 8, tzinfo=UTC))
FIELDS = {"chat_completions": "messages", "responses": "input", "anthropic": "messages"}
PING = b'event: ping\ndata: {"type":"ping"}\n\n'
each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@dataclass
class Driven:
    """What came of a case."""

    rounds: Rounds
    requests: list[dict[str, Any]] = field(default_factory=list)
    ends: list[Ended] = field(default_factory=list)
    stream: bytes = b""
    body: dict[str, Any] = field(default_factory=dict)


def begun(
    protocol: str, case: Case, *, stream: bool, over: dict[str, Any] | None = None, sums_usage: bool = False
) -> Rounds:
    """Return rounds that have begun; `over` is laid over the client's request."""
    client = body_of_client(protocol, case, stream=stream) | (over or {})
    body = with_tools(protocol, client, [*SCHEMAS.values()])
    return Rounds(FORMATS[protocol], body, stamp=STAMP, client=client, sums_usage=sums_usage)


def driven(
    protocol: str, case: Case, *, stream: bool = True, manner: Manner = PLAIN, piece: int = 1 << 30, **more: Any
) -> Driven:
    """Run a case to its end, as whoever drives rounds does."""
    out = Driven(begun(protocol, case, stream=stream, **more))
    rounds = out.rounds
    for number, answer in enumerate(case.rounds, 1):
        out.requests.append(json.loads(encoded(rounds.request())))
        body = body_of(answer, protocol, f"m-{number}", number)
        if stream:
            frames = Frames()
            for chunk in split(b"".join(events_of(body, protocol, manner)), piece):
                out.stream += b"".join(map(rounds.feed, frames.feed(chunk)))
        else:
            rounds.take(body)
        ended = rounds.ended()
        out.ends.append(ended)
        assert ended.fault is None
        if ended.is_final:
            break
        rounds.answer(results_of([call.call_id for call in ended.calls]))
    assert len(out.ends) == len(case.rounds)
    if stream:
        out.stream += rounds.finish()
    else:
        out.body = rounds.body()
    if last := out.ends[-1].calls:
        rounds.answer(results_of([call.call_id for call in last]))
    return out


def folded(protocol, stream):
    reader = FORMATS[protocol].stream()
    for event in Frames().feed(stream):
        reader.feed(event)
    assert reader.done
    return reader


def shown(protocol, body):
    """Return what a client reads in an answer."""
    reply = FORMATS[protocol].parse_reply(body)
    calls = tuple(
        (one.call.call_id, one.call.name, json.loads(one.call.arguments or "{}"))
        for one in reply.said.messages
        if one.call
    )
    return reply.text, reply.thinking, calls, reply.finish


@each_protocol
@each_case
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_client_is_shown_words_and_calls_of_its_own_only(protocol, case, stream):
    out = driven(protocol, case, stream=stream)
    body = folded(protocol, out.stream).body() if stream else out.body
    assert shown(protocol, body) == (case.text, case.thinking, case.calls, case.finish)
    told = out.stream if stream else encoded(out.body)
    assert b"everlog_" not in told
    assert b"our_" not in told
    ran = [tuple(call.call_id for call in ended.calls) for ended in out.ends]
    assert [*case.run, *[()] * (len(ran) - len(case.run))] == ran


@each_protocol
@each_case
def test_a_streamed_answer_is_the_one_that_is_not(protocol, case):
    streamed, whole = driven(protocol, case), driven(protocol, case, stream=False)
    assert folded(protocol, streamed.stream).body() == whole.body
    assert [{**one, "stream": 0, "stream_options": 0} for one in streamed.requests] == [
        {**one, "stream": 0, "stream_options": 0} for one in whole.requests
    ]
    assert streamed.rounds.held == whole.rounds.held
    assert streamed.rounds.usages == whole.rounds.usages


@each_protocol
@each_case
def test_an_sdk_takes_the_stream_and_the_body(protocol, case):
    out = driven(protocol, case)
    stream = out.stream.replace(PING, b"")  # which SDKs take away first
    in_order(protocol, stream)
    assert put_together(protocol, stream)
    TYPES[protocol].model_validate(driven(protocol, case, stream=False).body, strict=False)


@each_protocol
@given(case=st.sampled_from([*CASES.values()]), manner=manners, whole_calls=st.booleans(), piece=st.integers(1, 300))
def test_the_same_is_told_in_any_manner_and_cut_anywhere(protocol, case, manner, whole_calls, piece):
    if protocol == "chat_completions" and whole_calls:
        manner = Manner(piece=manner.piece, whole_calls=True)
    out = driven(protocol, case, manner=manner, piece=piece)
    assert out.stream == driven(protocol, case, manner=manner).stream
    body = folded(protocol, out.stream).body()
    assert shown(protocol, body) == (case.text, case.thinking, case.calls, case.finish)
    assert out.rounds.held == driven(protocol, case).rounds.held


@each_protocol
@each_case
def test_each_request_is_lawful_and_begins_as_the_one_before(protocol, case):
    out = driven(protocol, case)
    held, field_ = out.rounds.held, FIELDS[protocol]
    for before, after in zip(out.requests, out.requests[1:], strict=False):
        assert after[field_][: len(before[field_])] == before[field_]
        assert getattr(rules, protocol)(after) == []
        assert FORMATS[protocol].repair(after) is after
    if len(case.rounds) > 1:
        last = FORMATS[protocol].with_history({field_: []}, held)[field_]
        sent = out.requests[-1][field_][len(out.requests[0][field_]) :]
        if case is not CASES["the same ids in each round"] and case is not CASES["arguments that are no object"]:
            assert last[: len(sent)] == sent


@each_protocol
@each_case
def test_what_is_held_is_what_was_said_in_truth_with_our_results_behind_each_reply(protocol, case):
    out = driven(protocol, case)
    calls, results = [], []
    for one in out.rounds.held:
        for message in one.messages:
            if message.call is not None:
                calls.append(message.call.call_id)
            if message.result is not None:
                results.append((message.result.call_id, message.text))
    if not case.run:
        assert out.rounds.held == ()
        return
    ours = [one[0] for answer in case.rounds[: len(case.run)] for one in answer.calls if one[1].startswith("everlog_")]
    assert [one for one, _ in results] == ours
    assert set(calls) == {*(one for one, _ in results), *(one[0] for one in case.calls)}
    for ran in case.run:
        assert results_of(ran).items() <= set(results)
    assert [one for one in calls if one in ours] == [*ours, *[one[0] for one in case.calls if one[0] in ours]]
    assert [one[0] for one in case.calls] == [one for one in calls if one in {name for name, *_ in case.calls}][
        -len(case.calls) or len(calls) :
    ]
