"""What the upstream is asked in later rounds, and what the client is told that all of them took."""

import pytest

from everlog.protocols import FORMATS
from everlog.protocols.exchange import Raw, Said
from everlog.protocols.shapes import encoded
from everlog.surfaces.proxy.hidden.offering import tool_names
from everlog.surfaces.proxy.hidden.refusing import LIMIT, NOT_NOW, UNREADABLE_ARGUMENTS
from everlog.testing.upstream.answers import Answer, body_of
from tests.hidden_rounds import CASES, Case, zoom
from tests.unit.protocols import rules
from tests.unit.proxy.test_hidden_rounds import FIELDS, begun, driven, each_case, each_protocol, folded

NONE = {"chat_completions": "none", "responses": "none", "anthropic": {"type": "none"}}
LIMITS = {"chat_completions": "max_completion_tokens", "responses": "max_output_tokens", "anthropic": "max_tokens"}


def results(protocol, body):
    """Return the results in a request, by the ids of their calls."""
    messages = [message for one in FORMATS[protocol].parse_history(body) for message in one.messages]
    return {one.result.call_id: one.text for one in messages if one.result is not None}


@each_protocol
def test_the_first_request_is_the_object_that_was_given(protocol):
    rounds = begun(protocol, CASES["ours only"], stream=True)
    assert rounds.request() is rounds.request()
    assert [*tool_names(rounds.request())][2] == "everlog_zoom"


@each_protocol
def test_settings_and_tools_stay_while_there_is_no_limit_reached(protocol):
    """So that the prefix stays: also where a call is required, since the client still waits for its own."""
    for name in ("ours only", "two rounds with words between", "ours first where a call is required"):
        requests = driven(protocol, CASES[name]).requests
        for later in requests[1:]:
            left = {FIELDS[protocol], LIMITS[protocol]}
            assert {k: v for k, v in later.items() if k not in left} == {
                k: v for k, v in requests[0].items() if k not in left
            }


@each_protocol
def test_behind_four_rounds_the_model_is_told_to_answer_and_then_can_call_nothing(protocol):
    out = driven(protocol, CASES["the cap is reached"])
    assert results(protocol, out.requests[-1])["our_5"] == LIMIT
    assert "our_4 found" in results(protocol, out.requests[-1])["our_4"]
    assert out.requests[-1]["tool_choice"] == NONE[protocol]
    assert all(one.get("tool_choice") != NONE[protocol] for one in out.requests[:-1])
    assert out.requests[-1]["tools"] == out.requests[0]["tools"]


@each_protocol
def test_behind_twelve_calls_the_model_is_told_to_answer(protocol):
    out = driven(protocol, CASES["a thirteenth call"])
    found = results(protocol, out.requests[-1])
    assert [one for one, text in found.items() if text == LIMIT] == ["our_12"]
    assert out.requests[-1]["tool_choice"] == NONE[protocol]


@each_protocol
def test_where_a_call_is_required_ours_say_not_now_and_leave(protocol):
    out = driven(protocol, CASES["the cap is reached where a call is required"])
    assert results(protocol, out.requests[-1])["our_5"] == NOT_NOW
    assert out.requests[-1]["tool_choice"] == out.requests[0]["tool_choice"]
    assert [*tool_names(out.requests[-1])] == ["read", "list"]


@each_protocol
def test_what_cannot_be_run_is_answered_with_what_to_do(protocol):
    out = driven(protocol, CASES["arguments that are no object"])
    assert results(protocol, out.requests[-1])["our_1"] == UNREADABLE_ARGUMENTS
    found = results(protocol, driven(protocol, CASES["a tool of ours that is none"]).requests[-1])
    assert "everlog_zoom, everlog_read, everlog_date, everlog_search" in found["our_1"]


@each_protocol
def test_a_call_that_nobody_answers_has_failed(protocol):
    rounds = begun(protocol, CASES["ours only"], stream=False)
    rounds.take(body_of(CASES["ours only"].rounds[0], protocol, "m"))
    assert [(one.name, one.arguments) for one in rounds.ended().calls] == [("zoom", '{"id":7,"n":2}')]
    rounds.answer({})
    assert results(protocol, rounds.request())["our_1"] == "The tool failed."


@each_protocol
def test_later_rounds_may_put_out_what_is_left(protocol):
    case = Case(rounds=(*CASES["two rounds with words between"].rounds,), settings={"max_output_tokens": 100})
    out = driven(protocol, case)
    assert [one[LIMITS[protocol]] for one in out.requests] == [100, 80, 60]


def test_a_budget_of_thinking_stays_below_what_is_left():
    body = {"model": "m", "max_tokens": 3000, "thinking": {"type": "enabled", "budget_tokens": 2900}, "messages": []}
    said = Answer(calls=(zoom("our_1"),), output_tokens=500)
    assert later(body, said)["thinking"] == {"type": "enabled", "budget_tokens": 2499}
    assert (
        later({**body, "thinking": {"type": "enabled", "budget_tokens": 1024}}, said)["thinking"]["budget_tokens"]
        == 1024
    )
    assert later(body, Answer(calls=(zoom("our_1"),), output_tokens=2000)) is None


def later(body, answer):
    """Return the second request of Anthropic's; None where the answer ended."""
    rounds = begun("anthropic", CASES["ours only"], stream=False, over=body)
    rounds.take(body_of(answer, "anthropic", "m"))
    if rounds.ended().is_final:
        return None
    rounds.answer({"our_1": "found"})
    return rounds.request()


def test_input_that_is_a_text_is_a_message_in_later_rounds():
    rounds = begun("responses", CASES["ours only"], stream=False, over={"input": "Herons?"})
    rounds.take(body_of(CASES["ours only"].rounds[0], "responses", "m"))
    rounds.ended()
    rounds.answer({"our_1": "found"})
    kinds = [one.get("type", one.get("role")) for one in rounds.request()["input"]]
    assert kinds == ["user", "function_call", "function_call_output"]


@each_protocol
@each_case
def test_the_next_request_of_a_client_is_made_whole_from_what_is_held(protocol, case):
    """The held round stands for what the client shows; its own results come behind ours."""
    out = driven(protocol, case)
    if case.finish != "tool_calls" or not case.run:
        return
    shape = FORMATS[protocol]
    answered = {
        "chat_completions": lambda one: {"role": "tool", "tool_call_id": one, "content": "client"},
        "responses": lambda one: {"type": "function_call_output", "call_id": one, "output": "client"},
        "anthropic": lambda one: {"type": "tool_result", "tool_use_id": one, "content": "client"},
    }[protocol]
    items = [answered(one[0]) for one in case.calls]
    if protocol == "anthropic":
        items = [{"role": "user", "content": [*items, {"type": "text", "text": "Go on."}]}]
    theirs = Said(raw=Raw(protocol=protocol, items=tuple(items)))
    first = out.requests[0]
    body = shape.with_history(first, (*shape.parse_history(first), *out.rounds.held, theirs))
    body = shape.repair(body)
    assert getattr(rules, protocol)(body) == []
    last = [one.result.call_id for said in shape.parse_history(body) for one in said.messages if one.result]
    ours = [one for ran in case.run for one in ran]
    assert last[: len(ours)] == ours or case is CASES["the same ids in each round"]
    assert len(last) == len(ours) + len(case.calls) + sum(not ran for ran in case.run)


def test_signatures_and_blocks_stand_in_later_requests_as_the_upstream_wrote_them():
    out = driven("anthropic", CASES["thinking before"])
    said = next(one for one in out.requests[1]["messages"] if one["role"] == "assistant")["content"]
    assert said[0] == {"type": "thinking", "thinking": "Herons?", "signature": "signed-1"}
    out = driven("responses", CASES["thinking before"])
    assert out.requests[1]["input"][-3]["encrypted_content"] == "sealed-1"
    out = driven("chat_completions", CASES["thinking before"])
    assert out.requests[1]["messages"][-2]["reasoning_content"] == "Herons?"


TOKENS = {
    "chat_completions": ("prompt_tokens", "completion_tokens"),
    "responses": ("input_tokens", "output_tokens"),
    "anthropic": ("input_tokens", "output_tokens"),
}
ROUNDS = (
    Answer(calls=(zoom("our_1"),), input_tokens=1000, cached_tokens=900, output_tokens=30),
    Answer(calls=(zoom("our_2"),), input_tokens=1100, cached_tokens=1000, output_tokens=5),
    Answer(text="Herons.", input_tokens=1200, cached_tokens=1100, output_tokens=7),
)


def counted(protocol, usage):
    """Return what was read, from a cache and in all, and what was put out."""
    parsed = FORMATS[protocol].parse_reply({"usage": usage}).usage
    assert parsed is not None
    return parsed.whole_input, parsed.cache_read, parsed.output


@each_protocol
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_client_is_told_input_of_the_last_round_and_output_of_all_and_the_bill_beside(protocol, stream):
    out = driven(protocol, Case(rounds=ROUNDS), stream=stream)
    usage = (folded(protocol, out.stream).body() if stream else out.body)["usage"]
    read, put_out = TOKENS[protocol]
    assert usage[read] == (100 if protocol == "anthropic" else 1200)
    assert usage[put_out] == 42
    assert usage.get("total_tokens", 1242) == 1242
    bill = {"rounds": 3, "input_tokens": 3300, "output_tokens": 42, "cached_tokens": 3000}
    assert usage["everlog"] == bill | ({} if protocol == "chat_completions" else {"cache_write_tokens": 0})
    assert counted(protocol, usage) == (1200, 1100, 42)
    assert [one and one.whole_input for one in out.rounds.usages] == [1000, 1100, 1200]
    assert out.rounds.rounds == 3


@each_protocol
def test_a_client_can_be_told_the_sum_of_all_rounds(protocol):
    usage = driven(protocol, Case(rounds=ROUNDS), stream=False, sums_usage=True).body["usage"]
    assert counted(protocol, usage) == (3300, 3000, 42)
    assert usage.get("total_tokens", 3342) == 3342


@each_protocol
@pytest.mark.parametrize("lacks", [0, 1, 2])
def test_a_round_without_usage_is_not_counted(protocol, lacks):
    rounds = tuple(
        Answer(text=one.text, calls=one.calls, fields={"usage": None}) if number == lacks else one
        for number, one in enumerate(ROUNDS)
    )
    out = driven(protocol, Case(rounds=rounds), stream=False)
    assert out.rounds.usages[lacks] is None
    assert out.body["usage"]["everlog"]["rounds"] == 3
    assert counted(protocol, out.body["usage"])[2] == 42 - (30, 5, 7)[lacks]


@each_protocol
def test_where_nothing_is_counted_nothing_is_told(protocol):
    rounds = tuple(Answer(text=one.text, calls=one.calls, fields={"usage": None}) for one in ROUNDS)
    assert b"everlog" not in encoded(driven(protocol, Case(rounds=rounds), stream=False).body)


@pytest.mark.parametrize("name", ["mixed", "none of ours", "only words"])
@each_protocol
def test_one_round_is_told_as_the_upstream_counted_it(protocol, name):
    case = CASES[name]
    usage = driven(protocol, case, stream=False).body["usage"]
    assert usage == body_of(case.rounds[0], protocol, "m")["usage"]


@each_protocol
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_what_only_some_rounds_counted_is_told(protocol, stream):
    """As where a tool of the provider ran in one of them."""
    first = body_of(ROUNDS[0], protocol, "m")["usage"] | {"cost": 0.25, "server_tool_use": {"searches": 2}}
    rounds = (Answer(calls=ROUNDS[0].calls, fields={"usage": first}), ROUNDS[2])
    out = driven(protocol, Case(rounds=rounds), stream=stream)
    usage = (folded(protocol, out.stream).body() if stream else out.body)["usage"]
    assert (usage["cost"], usage["server_tool_use"]) == (0.25, {"searches": 2})
    assert counted(protocol, usage) == (1200, 1100, 37)


@each_protocol
def test_what_only_the_first_round_counted_is_told_streamed_or_not(protocol):
    first = body_of(ROUNDS[0], protocol, "m")["usage"] | {"service_tier": "standard"}
    case = Case(rounds=(Answer(calls=ROUNDS[0].calls, fields={"usage": first}), ROUNDS[2]))
    usage = driven(protocol, case, stream=False).body["usage"]
    assert usage["service_tier"] == "standard"
    assert folded(protocol, driven(protocol, case).stream).body()["usage"] == usage
