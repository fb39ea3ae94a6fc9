"""What upstreams do beside the plain way: each of it reaches the client as it would without rounds of ours."""

import json

import pytest

from everlog.messages import JSON
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Fault, TextDelta
from everlog.protocols.shapes import dumps
from everlog.protocols.sse import Event, Frames, render_event
from everlog.surfaces.proxy.hidden.rounds import Rounds
from everlog.testing.upstream.answers import Answer, body_of
from everlog.testing.upstream.failures import error_body, error_event
from everlog.testing.upstream.streams import PLAIN, Manner, events_of
from tests.hidden_rounds import CASES, SAYS, zoom
from tests.unit.protocols.answers import CASES as BODIES
from tests.unit.protocols.answers import bodies
from tests.unit.protocols.test_answers import events, put_together
from tests.unit.proxy.test_hidden_rounds import STAMP, begun, driven, each_case, each_protocol, folded, shown

LOOKS = Answer(text="I look.", calls=(zoom("our_1"),))


def fed(rounds: Rounds, protocol: str, *, answer: Answer | None = None, body=None, events=(), number: int = 1) -> bytes:
    """Return what a client gets for the events of a round: of an answer, of a body, or these."""
    told = [Event(dumps(one) if isinstance(one, dict) else one, name_of(one)) for one in events]
    if answer is not None:
        body = body_of(answer, protocol, "m", number)
    if body is not None:
        told = Frames().feed(b"".join(events_of(body, protocol)))
    return b"".join(map(rounds.feed, told))


def faulted(rounds: Rounds) -> Fault:
    """Return why a round is no answer."""
    ended = rounds.ended()
    assert ended.is_final
    assert ended.fault is not None
    return ended.fault


def name_of(event):
    return event.get("type", "") if isinstance(event, dict) else ""


def looked(protocol: str, **more) -> tuple[Rounds, bytes]:
    """Return rounds whose first one was ours, and what the client has."""
    rounds = begun(protocol, CASES["ours only"], stream=True, **more)
    out = fed(rounds, protocol, answer=LOOKS)
    rounds.ended()
    rounds.answer({"our_1": "found"})
    return rounds, out


@pytest.mark.parametrize(("protocol", "name"), BODIES)
def test_an_answer_without_calls_of_ours_is_the_upstreams_byte_for_byte_but_for_an_id_of_ours(protocol, name):
    body = bodies(protocol)[name]
    data = b"".join(events_of(body, protocol, Manner(piece=3)))
    rounds = begun(protocol, CASES["only words"], stream=True)
    out = b"".join(map(rounds.feed, Frames().feed(data)))
    assert rounds.ended().is_final
    out += rounds.finish()
    whole = begun(protocol, CASES["only words"], stream=False)
    whole.take(body)
    assert whole.ended().is_final
    if protocol == "responses":
        data = data.replace(f'"id":"{body["id"]}"'.encode(), b'"id":"resp_evl_7"')
        body = {**body, "id": "resp_evl_7"}
    assert out == data
    assert whole.body() == body
    assert rounds.held == whole.held == ()


@each_protocol
@each_case
def test_what_keeps_a_connection_alive_may_stand_between_any_two_events(protocol, case):
    out = driven(protocol, case)
    alive = out.rounds.keep_alive
    frames = [render_event(event.data, event.name) for event in Frames().feed(out.stream)]
    told = alive + alive.join(frames)
    assert folded(protocol, told).body() == folded(protocol, out.stream).body()
    if protocol != "anthropic":
        assert Frames().feed(told) == Frames().feed(out.stream)


@each_protocol
def test_an_error_event_of_a_later_round_ends_the_answer_as_the_upstream_told_it(protocol):
    rounds, out = looked(protocol)
    out += fed(rounds, protocol, events=[error_event("Busy.", protocol)])
    fault = faulted(rounds)
    assert fault.message == "Busy."
    assert rounds.ended().status >= 400
    out += rounds.fail(fault, 503)
    last = events(out)[-1]
    assert {**last, "sequence_number": 0} == {**error_event("Busy.", protocol), "sequence_number": 0}
    if protocol == "responses":
        assert [one["sequence_number"] for one in events(out)] == list(range(len(events(out))))


@each_protocol
def test_a_later_round_that_is_refused_or_breaks_off_ends_the_answer_with_an_error(protocol):
    rounds, out = looked(protocol)
    out += fed(rounds, protocol, answer=SAYS, number=2)
    told = events(out)
    error = events(rounds.fail(Fault(type="error", message="Busy."), 503))[0]
    if protocol == "responses":
        assert error["type"] == "response.failed"
        assert error["sequence_number"] == len(told)
        assert error["response"]["error"] == {"code": "server_error", "message": "Busy."}
        assert [one["content"][0]["text"] for one in error["response"]["output"]] == ["I look.", SAYS.text]
        assert error["response"]["id"] == told[0]["response"]["id"]
    else:
        assert error == error_body(503, "Busy.", protocol)


@each_protocol
@pytest.mark.parametrize("events_before", [0, 1, 3])
def test_a_round_that_broke_off_is_no_answer(protocol, events_before):
    rounds, _ = looked(protocol)
    body = body_of(SAYS, protocol, "m", 2)
    for event in Frames().feed(b"".join([*events_of(body, protocol)][:events_before])):
        rounds.feed(event)
    assert faulted(rounds).type == "upstream_broke_off"
    assert rounds.ended() is rounds.ended()


@each_protocol
def test_what_was_shown_of_a_broken_round_is_held(protocol):
    rounds, _ = looked(protocol)
    for event in Frames().feed(b"".join(events_of(body_of(SAYS, protocol, "m", 2), protocol)))[:4]:
        rounds.feed(event)
    rounds.ended()
    assert [message.kind for one in rounds.held for message in one.messages][:3] == [
        "assistant",
        "tool_call",
        "tool_result",
    ]
    assert "".join(message.text for message in rounds.held[-1].messages) in SAYS.text


@each_protocol
def test_an_error_where_nothing_is_streamed_is_a_body(protocol):
    rounds = begun(protocol, CASES["ours only"], stream=False)
    rounds.take(body_of(LOOKS, protocol, "m"))
    rounds.ended()
    rounds.answer({"our_1": "found"})
    assert json.loads(rounds.fail(Fault(type="error", message="Busy."), 503)) == error_body(503, "Busy.", protocol)
    rounds.take(error_body(429, "Slow.", protocol))
    assert faulted(rounds).message == "Slow."


@each_protocol
@pytest.mark.parametrize("body", [{}, {"choices": []}, {"output": 7}, {"content": "x"}])
def test_a_body_that_is_no_answer_cannot_be_read(protocol, body):
    rounds = begun(protocol, CASES["ours only"], stream=False)
    rounds.take(body)
    assert faulted(rounds).type == "upstream_unreadable"


@each_protocol
def test_events_that_nobody_knows_and_texts_that_are_no_json_pass_in_any_round(protocol):
    odd: JSON = {"type": "x.tomorrow", "payload": [1, None]}
    rounds, _ = looked(protocol)
    if protocol == "chat_completions":
        odd = {"choices": [{"index": 0, "delta": {"x_tomorrow": [1, None]}, "finish_reason": None}]}
    told = fed(rounds, protocol, events=[odd, "no json"])
    assert b"[1,null]" in told
    assert b"data: no json\n" in told


def test_fields_that_nobody_knows_survive_in_later_chunks():
    rounds, _ = looked("chat_completions")
    chunk = {"id": "other", "created": 9, "model": "n", "x": 1, "choices": [{"index": 0, "y": 2, "delta": {"z": 3}}]}
    told = events(fed(rounds, "chat_completions", events=[chunk]))[0]
    assert (told["id"], told["created"], told["model"]) == ("chatcmpl-1", 1767600001, "m")
    assert (told["x"], told["choices"][0]["y"], told["choices"][0]["delta"]) == (1, 2, {"z": 3})


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        ("I look.", "Herons.", "I look.\nHerons."),
        ("I look. ", "Herons.", "I look. Herons."),
        ("a", "\nb", "a\nb"),
        ("", "b", "b"),
    ],
)
def test_words_of_rounds_are_joined_by_a_line_break_where_there_is_no_white_space(first, second, joined):
    rounds = begun("chat_completions", CASES["ours only"], stream=True)
    out = fed(rounds, "chat_completions", answer=Answer(text=first, calls=LOOKS.calls))
    rounds.ended()
    rounds.answer({})
    out += fed(rounds, "chat_completions", answer=Answer(text=second))
    assert rounds.ended().is_final
    assert folded("chat_completions", out + rounds.finish()).reply().text == joined


def test_what_ends_a_round_in_the_same_chunk_as_words_is_told_apart():
    """As Gemini's and Mistral's servers send their last chunk."""
    rounds = begun("chat_completions", CASES["ours only"], stream=True)
    last = {
        "id": "c",
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}],
    }
    out = fed(rounds, "chat_completions", events=[{**last, "usage": {"completion_tokens": 3}}, "[DONE]"])
    assert [one["choices"][0]["finish_reason"] for one in events(out)] == [None]
    assert "usage" not in events(out)[0]
    assert rounds.ended().is_final
    body = folded("chat_completions", out + rounds.finish()).body()
    assert body["choices"][0]["message"]["content"] == "x"
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"] == {"completion_tokens": 3}


def test_a_whole_call_of_ours_in_the_chunk_that_ends_the_round_leaves_the_role_to_the_client():
    rounds = begun("chat_completions", CASES["ours only"], stream=True)
    call = body_of(LOOKS, "chat_completions", "m")["choices"][0]["message"]["tool_calls"][0]
    delta = {"role": "assistant", "content": "", "tool_calls": [{"index": 0, **call}]}
    out = fed(
        rounds,
        "chat_completions",
        events=[{"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]}],
    )
    assert [one["choices"][0]["delta"] for one in events(out)] == [{"role": "assistant", "content": ""}]
    assert [one.call_id for one in rounds.ended().calls] == ["our_1"]


def test_a_call_is_held_until_its_name_is_known():
    rounds = begun("chat_completions", CASES["ours only"], stream=True)

    def piece(index, **call):
        return {
            "id": "c",
            "choices": [{"index": 0, "delta": {"tool_calls": [{"index": index, **call}]}, "finish_reason": None}],
        }

    assert fed(rounds, "chat_completions", events=[piece(0, id="our_1"), piece(1, id="a")]) == b""
    named = [
        piece(0, function={"name": "everlog_zoom"}),
        piece(1, function={"name": "read"}),
        piece(0, function={"arguments": "{}"}),
    ]
    told = events(fed(rounds, "chat_completions", events=named))
    assert [call for one in told for call in one["choices"][0]["delta"]["tool_calls"]] == [
        {"index": 0, "id": "a"},
        {"index": 0, "function": {"name": "read"}},
    ]
    rounds = begun("responses", CASES["ours only"], stream=True)

    def item(index, name, **more):
        return {"output_index": index, "item": {"type": "function_call", "id": f"fc_{index}", "name": name}, **more}

    added, done = "response.output_item.added", "response.output_item.done"
    assert fed(rounds, "responses", events=[{"type": added, **item(0, "")}, {"type": added, **item(1, "")}]) == b""
    told = events(
        fed(rounds, "responses", events=[{"type": done, **item(0, "everlog_zoom")}, {"type": done, **item(1, "read")}])
    )
    assert [(one["type"], one["output_index"]) for one in told] == [(added, 0), (done, 0)]


def test_a_call_without_a_name_is_the_clients():
    rounds = begun("chat_completions", CASES["ours only"], stream=True)
    nameless = {
        "id": "c",
        "choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "a"}]}, "finish_reason": None}],
    }
    end = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    out = fed(rounds, "chat_completions", events=[nameless, end, "[DONE]"])
    assert [one["choices"][0]["delta"] for one in events(out)] == [{"tool_calls": [{"index": 0, "id": "a"}]}]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_calls_of_ours_without_ids_are_answered_each_by_its_own_result(stream):
    """As some servers send them."""
    case = CASES["three of ours at once"]
    answer = Answer(calls=tuple(("", name, {"n": n}) for n, (_, name, _) in enumerate(case.rounds[0].calls)))
    rounds = begun("chat_completions", case, stream=stream)
    if stream:
        fed(rounds, "chat_completions", answer=answer)
    else:
        rounds.take(body_of(answer, "chat_completions", "m"))
    calls = rounds.ended().calls
    assert len({call.call_id for call in calls}) == 3
    rounds.answer({call.call_id: f"found {call.arguments}" for call in calls})
    reply, *found = rounds.request()["messages"][-4:]
    told = {call["id"]: call["function"]["arguments"] for call in reply["tool_calls"]}
    assert [one["content"] for one in found] == [f"found {told[one['tool_call_id']]}" for one in found]


def test_pieces_of_reasoning_with_numbers_go_on_counting():
    def chunk(index, text):
        details = [{"index": index, "type": "reasoning.text", "text": text, "signature": f"s{text}"}]
        return {"id": "c", "choices": [{"index": 0, "delta": {"reasoning_details": details}, "finish_reason": None}]}

    rounds = begun("chat_completions", CASES["ours only"], stream=True)
    out = fed(rounds, "chat_completions", events=[chunk(0, "a")])
    out += fed(rounds, "chat_completions", answer=LOOKS)
    rounds.ended()
    rounds.answer({})
    out += fed(rounds, "chat_completions", events=[chunk(0, "b")])
    out += fed(rounds, "chat_completions", answer=SAYS)
    assert rounds.ended().is_final
    message = folded("chat_completions", out + rounds.finish()).body()["choices"][0]["message"]
    assert [(one["index"], one["text"], one["signature"]) for one in message["reasoning_details"]] == [
        (0, "a", "sa"),
        (1, "b", "sb"),
    ]


def test_a_refusal_of_a_later_round_is_told():
    body = body_of(Answer(), "chat_completions", "m", 2)
    body["choices"][0]["message"] |= {"content": None, "refusal": "No."}
    rounds = begun("chat_completions", CASES["ours only"], stream=False)
    rounds.take(body_of(LOOKS, "chat_completions", "m"))
    rounds.ended()
    rounds.answer({})
    rounds.take(body)
    assert rounds.ended().is_final
    assert rounds.body()["choices"][0]["message"] == {"role": "assistant", "content": "I look.", "refusal": "No."}


@pytest.mark.parametrize(("stop", "finish"), [("refusal", "filtered"), ("pause_turn", "pause")])
def test_a_message_that_is_refused_or_pauses_is_passed_on(stop, finish):
    rounds, out = looked("anthropic")
    body = body_of(SAYS, "anthropic", "m", 2) | {"stop_reason": stop}
    out += fed(rounds, "anthropic", body=body)
    assert rounds.ended().is_final
    assert folded("anthropic", out + rounds.finish()).reply().finish == finish


def behind_ours(protocol, name):
    """Return the events of an answer that has this body in its second round, and the body."""
    rounds, out = looked(protocol)
    body = bodies(protocol)[name]
    out += fed(rounds, protocol, body=body)
    assert rounds.ended().is_final
    return out + rounds.finish(), body


def test_blocks_of_later_rounds_go_on_counting_whatever_they_are():
    out, body = behind_ours("anthropic", "search and citations")
    content = folded("anthropic", out).body()["content"]
    assert content == [{"type": "text", "text": "I look.", "citations": None}, *body["content"]]
    begun = [one["index"] for one in events(out) if one["type"] == "content_block_start"]
    assert begun == list(range(len(content)))


def test_items_of_later_rounds_go_on_counting_whatever_they_are():
    told = events(behind_ours("responses", "search and an item of tomorrow")[0])
    kinds = [one["type"] for one in told[-1]["response"]["output"]]
    assert kinds == ["message", "reasoning", "web_search_call", "x_tomorrow", "message"]
    assert [one["output_index"] for one in told if one["type"] == "response.output_item.added"] == [0, 1, 2, 3, 4]
    assert told[-1]["response"]["created_at"] == told[0]["response"]["created_at"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", ["only words", "ours only", "the cap is reached"])
def test_a_response_repeats_the_clients_request_and_not_what_went_up(name, stream):
    case = CASES[name]
    echoed: dict[str, JSON] = {
        "instructions": "<memory>",
        "tool_choice": "auto",
        "store": False,
        "previous_response_id": None,
        "tools": [{"type": "function", "name": one} for one in ("read", "everlog_zoom")],
    }
    answers = tuple(
        Answer(text=one.text, calls=one.calls, fields=echoed | ({"tool_choice": "none"} if number else {}))
        for number, one in enumerate(case.rounds)
    )
    client = {
        "model": "m",
        "input": "Herons?",
        "instructions": "Be brief.",
        "previous_response_id": "resp_evl_6",
        "stream": stream,
    }
    sent = {
        **client,
        "instructions": "<memory>",
        "store": False,
        "tools": [{"type": "function", "name": "everlog_zoom"}],
    }
    del sent["previous_response_id"]
    rounds = Rounds(FORMATS["responses"], sent, stamp=STAMP, client=client)
    out = b""
    for number, answer in enumerate(answers):
        if stream:
            out += fed(rounds, "responses", answer=answer, number=number)
        else:
            rounds.take(body_of(answer, "responses", "m", number))
        if rounds.ended().is_final:
            break
        rounds.answer({})
    told = (
        [one["response"] for one in events(out + rounds.finish()) if "response" in one] if stream else [rounds.body()]
    )
    for response in told:
        assert response["id"] == "resp_evl_7"
        assert response["instructions"] == "Be brief."
        assert response["previous_response_id"] == "resp_evl_6"
        assert response["store"] is True
        assert response["tool_choice"] == "auto"
        assert response["tools"] == [{"type": "function", "name": "read"}]


def test_tools_that_the_client_has_under_our_names_are_its_own():
    """Ours are then not offered, but an id of an answer of Responses is made all the same."""
    tools = [{"type": "function", "name": "everlog_zoom"}]
    body = {"model": "m", "input": "Herons?", "tools": tools}
    rounds = Rounds(FORMATS["responses"], body, stamp=STAMP, client=body)
    answer = body_of(Answer(calls=(zoom("call_1"),)), "responses", "m") | {"tools": tools}
    rounds.take(answer)
    assert rounds.ended().is_final
    assert rounds.body() == {**answer, "id": "resp_evl_7"}


@each_protocol
def test_comments_alone_are_no_answer(protocol):
    rounds = begun(protocol, CASES["only words"], stream=True)
    assert Frames().feed(b": OPENROUTER PROCESSING\n\n") == []
    assert rounds.ended().fault is not None


@each_protocol
@pytest.mark.parametrize("name", ["mixed", "mixed, two and two"])
def test_in_a_mixed_round_the_client_has_its_calls_before_ours_are_run(protocol, name):
    case = CASES[name]
    rounds = begun(protocol, case, stream=True)
    out = fed(rounds, protocol, answer=case.rounds[0])
    ended = rounds.ended()
    assert ended.is_final
    assert ended.calls
    out += rounds.finish()
    assert shown(protocol, folded(protocol, out).body()) == (case.text, case.thinking, case.calls, "tool_calls")
    assert put_together(protocol, out.replace(b'event: ping\ndata: {"type":"ping"}\n\n', b""))
    rounds.answer({call.call_id: "found" for call in ended.calls})
    assert [message.text for message in rounds.held[-1].messages] == ["found"] * len(ended.calls)


@each_protocol
@each_case
def test_text_goes_out_as_it_comes(protocol, case):
    """Nothing but what ends a round, and calls that may be ours, is ever held back."""
    rounds = begun(protocol, case, stream=True)
    for number, answer in enumerate(case.rounds, 1):
        body = body_of(answer, protocol, "m", number)
        for event in Frames().feed(b"".join(events_of(body, protocol, PLAIN))):
            words = "".join(one.text for one in FORMATS[protocol].stream().feed(event) if isinstance(one, TextDelta))
            assert words.encode() in rounds.feed(event).replace(b"\\n", b"")
        ended = rounds.ended()
        if ended.is_final:
            break
        rounds.answer({})


@each_protocol
def test_a_round_is_over_when_the_upstream_says_so_and_not_when_its_connection_ends(protocol):
    rounds = begun(protocol, CASES["only words"], stream=True)
    *before, last = Frames().feed(b"".join(events_of(body_of(SAYS, protocol, "m"), protocol)))
    for event in before:
        rounds.feed(event)
        assert not rounds.is_over
    rounds.feed(last)
    assert rounds.is_over


def test_an_error_of_null_is_none():
    """As some servers write it into each chunk."""
    rounds = begun("chat_completions", CASES["only words"], stream=True)
    chunk: JSON = {
        "id": "c",
        "error": None,
        "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": None}],
    }
    assert events(fed(rounds, "chat_completions", events=[chunk])) == [chunk]
    assert not rounds.is_over


def test_probabilities_of_a_call_of_ours_are_not_told():
    rounds = begun("chat_completions", CASES["ours only"], stream=True)
    call: JSON = {"index": 0, "id": "our_1", "function": {"name": "everlog_zoom", "arguments": ""}}
    choice: JSON = {"index": 0, "delta": {"tool_calls": [call]}, "logprobs": {"content": [{"token": "zoom"}]}}
    assert fed(rounds, "chat_completions", events=[{"id": "c", "choices": [choice]}]) == b""


def test_events_that_name_their_response_name_ours():
    rounds = begun("responses", CASES["only words"], stream=True)
    created = {"type": "response.created", "response": {"id": "resp_1"}, "sequence_number": 0}
    piece = {"type": "response.output_text.delta", "delta": "x", "output_index": 0, "sequence_number": 1}
    told = events(fed(rounds, "responses", events=[created, {**piece, "response_id": "resp_1"}]))
    assert [told[0]["response"]["id"], told[1]["response_id"]] == ["resp_evl_7", "resp_evl_7"]


@pytest.mark.parametrize("whole_calls", [False, True])
@each_case
def test_calls_of_the_client_are_numbered_as_if_there_were_no_others(case, whole_calls):
    out = driven("chat_completions", case, manner=Manner(whole_calls=whole_calls))
    pieces = [
        call
        for one in events(out.stream)
        for choice in one["choices"]
        for call in choice["delta"].get("tool_calls", ())
    ]
    numbers = list(dict.fromkeys(piece["index"] for piece in pieces))
    hides = any(one[1].startswith("everlog_") for answer in case.rounds for one in answer.calls)
    if hides or not whole_calls:  # else it is as the server numbered it
        assert numbers == list(range(len(case.calls)))


def test_a_chunk_that_ends_a_round_and_says_nothing_is_told_as_it_came():
    rounds = begun("chat_completions", CASES["only words"], stream=True)
    said: JSON = {"id": "c", "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": None}]}
    last: JSON = {"id": "c", "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}]}
    assert events(fed(rounds, "chat_completions", events=[said, last])) == [said]
    assert rounds.ended().is_final
    assert events(rounds.finish()) == [last]


def test_of_several_answers_each_is_told_as_it_comes():
    """No tools of ours are offered with them."""
    rounds = begun("chat_completions", CASES["only words"], stream=True, over={"n": 2})

    def chunk(*indexes, **more):
        return {
            "id": "c",
            "choices": [{"index": index, "delta": {"content": "x"}, "finish_reason": None} | more for index in indexes],
        }

    told = [chunk(0, 1), chunk(0, 1, finish_reason="stop"), chunk(1), chunk(1, finish_reason="stop")]
    assert events(fed(rounds, "chat_completions", events=[*told, "[DONE]"])) == told
    assert rounds.ended().is_final
    assert rounds.finish() == b"data: [DONE]\n\n"


def test_events_of_a_call_of_ours_without_number_or_id_are_known_by_their_place():
    rounds = begun("responses", CASES["ours only"], stream=True)
    call: JSON = {"type": "function_call", "name": "everlog_zoom", "call_id": "our_1", "arguments": ""}
    told: list[JSON] = [
        {"type": "response.output_item.added", "item": call},
        {"type": "response.function_call_arguments.delta", "item_id": "elsewhere", "delta": "{}"},
        {"type": "response.output_item.done", "item": call},
    ]
    assert fed(rounds, "responses", events=told) == b""
