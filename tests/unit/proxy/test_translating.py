"""A client of one protocol on an upstream of another: what is said comes through, both ways, however it is cut."""

import json
from datetime import UTC, datetime
from itertools import permutations

import pytest
from anthropic.types import RawMessageStreamEvent
from hypothesis import given
from hypothesis import strategies as st

from everlog.errors import Mistake
from everlog.messages import JSON, Message
from everlog.protocols import FORMATS
from everlog.protocols.answering import Stamp
from everlog.protocols.exchange import Settings, said
from everlog.protocols.shapes import encoded
from everlog.protocols.sse import Frames, render_event
from everlog.registry import Model
from everlog.surfaces.proxy.translation.translating import Translation, estimated_tokens
from everlog.testing.upstream.answers import Answer, body_of
from everlog.testing.upstream.failures import error_body, error_event
from everlog.testing.upstream.streams import Manner, events_of
from tests.unit.protocols.answers import CASES, bodies
from tests.unit.protocols.histories import BODIES, talks
from tests.unit.protocols.sdk_types import adapter_of, lawful
from tests.unit.protocols.test_answers import THINKING, TYPES, essence, events, heard, in_order, put_together
from tests.unit.protocols.test_history import flat
from tests.unit.protocols.test_streams import answers, manners, split

STAMP = Stamp(id="7", at=datetime(2026, 1, 5, 8, tzinfo=UTC))
MODEL = Model(id="up-1", provider="any")
WAYS = sorted(permutations(FORMATS, 2))
each_way = pytest.mark.parametrize(("client", "upstream"), WAYS)
WAYS_OF_CASES = [(client, upstream, case) for client, upstream in WAYS for name, case in CASES if name == upstream]
FIELDS = {"chat_completions": "messages", "responses": "input", "anthropic": "messages"}


def translation(client, upstream, model=MODEL):
    return Translation(client=FORMATS[client], upstream=FORMATS[upstream], model=model)


def asked(client, upstream, *, model=MODEL, **fields):
    body = {"model": "m", "max_tokens": 50, FIELDS[client]: [{"role": "user", "content": "go"}], **THINKING[client]}
    if client == "responses":
        del body["max_tokens"]
    return translation(client, upstream, model).request({**body, **fields})


def heard_of(client, out):
    reader = FORMATS[client].stream()
    for event in Frames().feed(out):
        reader.feed(event)
    return reader


def passed(request, chunks):
    """Return the bytes that a client gets for those of an upstream."""
    stream = request.stream(STAMP)
    out = b"".join([*map(stream.feed, chunks), stream.end()])
    assert stream.is_over
    return out


@each_way
@given(talk=talks())
def test_a_talk_goes_through_with_words_calls_results_and_images(client, upstream, talk):
    sent = translation(client, upstream).request(FORMATS[client].render_request(talk, Settings(model="m")))
    lawful(upstream, sent.body)
    assert flat(FORMATS[upstream].parse_history(sent.body)) == flat(talk)
    assert sent.dropped == ()
    assert sent.body["model"] == "up-1"


@each_way
@given(data=st.data())
def test_any_body_goes_through_or_is_refused_as_a_mistake(client, upstream, data):
    body = data.draw(BODIES[client])
    try:
        sent = translation(client, upstream).request(body)
    except Mistake:
        return
    encoded(sent.body)
    assert FORMATS[upstream].repair(sent.body) is sent.body


@each_way
@given(talk=talks(), more=talks())
def test_what_was_sent_is_the_beginning_of_what_is_sent_next(client, upstream, talk, more):
    """So that the upstream's cache holds: also with a system message in the middle."""
    reminder = {"role": "system", "content": "Mind the tools."}
    first = FORMATS[client].render_request(talk, Settings(model="m"))
    field = FIELDS[client]
    asks = [{"role": "user", "content": "more"}]
    later = FORMATS[client].render_request(
        tuple(one for one in more if one.messages[0].kind != "system"), Settings(model="m")
    )
    sent = translation(client, upstream).request(first).body
    longer = {**first, field: [*first[field], reminder, *asks, *later[field]]}
    assert (
        translation(client, upstream).request(longer).body[FIELDS[upstream]][: len(sent[FIELDS[upstream]])]
        == sent[FIELDS[upstream]]
    )


@each_way
@given(answer=answers, manner=manners, piece=st.integers(1, 300))
def test_any_answer_comes_back_the_same_streamed_in_any_manner_or_not(client, upstream, answer, manner, piece):
    body = body_of(answer, upstream, "m")
    request = asked(client, upstream, stream_options={"include_usage": True})
    status, data = request.whole(200, encoded(body), STAMP)
    whole = FORMATS[client].parse_reply(json.loads(data))
    assert status == 200
    assert essence(whole) == essence(FORMATS[upstream].parse_reply(body))
    data = b"".join(events_of(body, upstream, manner))
    stream = passed(request, split(data, piece))
    assert stream == passed(request, [data])
    in_order(client, stream)
    reply = heard(client, stream).reply()
    assert essence(reply) == essence(whole)
    assert reply.thinking == whole.thinking == answer.thinking


@pytest.mark.parametrize(("client", "upstream", "case"), WAYS_OF_CASES)
def test_an_answer_may_be_cut_at_every_byte_and_each_of_its_events_is_lawful(client, upstream, case):
    body = bodies(upstream)[case]
    request = asked(client, upstream, stream=True)
    data = b"".join(events_of(body, upstream, Manner(piece=3)))
    whole = passed(request, [data])
    assert passed(request, split(data, 1)) == whole
    for cut in range(0, len(data), 29):
        assert passed(request, [data[:cut], data[cut:]]) == whole
    put_together(client, whole)
    TYPES[client].model_validate(json.loads(asked(client, upstream).whole(200, encoded(body), STAMP)[1]), strict=True)


@each_way
def test_each_piece_goes_out_as_it_comes(client, upstream):
    """Fault 11: granularity is the upstream's."""
    request = asked(client, upstream, stream=True)
    stream = request.stream(STAMP)
    pieces = events_of(body_of(Answer(text="one two three four"), upstream, "m"), upstream, Manner(piece=4))
    told = []
    for piece in pieces:
        out = stream.feed(piece)
        if b"delta" in out and any(word in out for word in (b"one ", b"two ", b"thre", b"e fo", b"ur")):
            told.append(out)
    assert len(told) >= 5


@each_way
@given(answer=answers, data=st.data())
def test_events_in_any_order_are_an_answer_or_an_error_that_the_sdk_can_read(client, upstream, answer, data):
    """Whatever an upstream sends, and leaves out, and sends twice."""
    pieces = list(events_of(body_of(answer, upstream, "m"), upstream, Manner(piece=4)))
    order = data.draw(st.lists(st.integers(0, len(pieces) - 1), max_size=2 * len(pieces)))
    out = passed(asked(client, upstream), [pieces[place] for place in order])
    told = [event for event in Frames().feed(out) if '"error":{' not in event.data or client == "responses"]
    if client == "anthropic":  # its SDK puts together only arguments that miss no piece
        for event in told:
            adapter_of(RawMessageStreamEvent).validate_python(json.loads(event.data))
    elif told:
        put_together(client, b"".join(render_event(event.data, event.name) for event in told))


def calls_of(client, stream):
    return [one.call for one in heard(client, stream).reply().said.messages if one.call]


def chunk(**delta):
    return render_event(json.dumps({"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta}]}))


LAST = render_event('{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}')
DONE = render_event("[DONE]")
CALLS: tuple[tuple[str, str, JSON], ...] = (("call_a", "read", {"path": "a"}), ("call_b", "list", {"n": 1}))


@pytest.mark.covers("fault 1")
@pytest.mark.parametrize("client", ["responses", "anthropic"])
def test_pieces_of_arguments_without_an_id_belong_to_the_call_of_their_number(client):
    """Fault 1: only the first piece of a call names it."""
    pieces = [
        {"index": 0, "id": "call_a", "type": "function", "function": {"name": "read", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"path"'}},
        {"index": 0, "function": {"arguments": ':"a"}'}},
    ]
    request = asked(client, "chat_completions", stream=True)
    stream = request.stream(STAMP)
    told = [stream.feed(chunk(tool_calls=[piece])) for piece in pieces]
    assert all(told)
    out = b"".join([*told, stream.feed(LAST), stream.feed(DONE)])
    assert [(one.call_id, one.name, one.arguments) for one in calls_of(client, out)] == [
        ("call_a", "read", '{"path":"a"}')
    ]
    pieces_told = [one.get("delta") for one in events(out) if "delta" in one]
    told_arguments = [one if isinstance(one, str) else one.get("partial_json") for one in pieces_told]
    assert [one for one in told_arguments if one] == ['{"path"', ':"a"}']


@pytest.mark.covers("fault 4")
@pytest.mark.parametrize("client", ["chat_completions", "anthropic"])
def test_arguments_and_words_that_come_only_when_they_are_done_are_told(client):
    """Fault 4: Responses without deltas."""
    body = body_of(Answer(text="I look.", calls=CALLS), "responses", "m")
    quiet = [one for one in events_of(body, "responses") if b".delta" not in one]
    request = asked(client, "responses", stream=True)
    out = passed(request, quiet)
    reply = heard(client, out).reply()
    assert essence(reply)[:2] == ("I look.", [("read", {"path": "a"}), ("list", {"n": 1})])


@pytest.mark.covers("fault 5", "fault 7")
@each_way
def test_calls_have_their_input_and_their_reason_streamed_or_not(client, upstream):
    """Faults 5 and 7."""
    body = body_of(Answer(calls=CALLS), upstream, "m")
    request = asked(client, upstream)
    whole = FORMATS[client].parse_reply(json.loads(request.whole(200, encoded(body), STAMP)[1]))
    out = passed(request, events_of(body, upstream))
    for reply in (whole, heard(client, out).reply()):
        assert [json.loads(one.call.arguments) for one in reply.said.messages if one.call] == [{"path": "a"}, {"n": 1}]
        assert reply.finish == "tool_calls"
        assert reply.stop == {"anthropic": "tool_use", "responses": "completed"}.get(client, "tool_calls")


@pytest.mark.covers("fault 9", "fault 10", "fault 14")
@pytest.mark.parametrize("upstream", ["responses", "anthropic"])
def test_a_chat_that_did_not_ask_for_tokens_gets_no_chunk_without_choices(upstream):
    """Fault 9; and what comes without choices, or is no JSON, does no harm (faults 10 and 14)."""
    out = passed(asked("chat_completions", upstream), events_of(body_of(Answer(text="ok"), upstream, "m"), upstream))
    assert all(event["choices"] for event in events(out))
    odd = [
        b'data: {"choices":[]}\n\n',
        b'data: {"id":"x"}\n\n',
        b"data: : keepalive\n\n",
        b'data: {"choices":null}\n\n',
    ]
    data = [*odd, *events_of(body_of(Answer(text="ok"), "chat_completions", "m"), "chat_completions"), *odd]
    assert heard(upstream, passed(asked(upstream, "chat_completions"), data)).reply().text == "ok"


@pytest.mark.covers("fault 13")
@each_way
def test_what_keeps_an_upstreams_connection_alive_is_no_event_for_the_client(client, upstream):
    """Fault 13: no comment with a blank line behind it, which one SDK takes for an event without data."""
    body = body_of(Answer(text="ok"), upstream, "m")
    out = passed(asked(client, upstream), events_of(body, upstream, Manner(comments="ping")))
    assert out == passed(asked(client, upstream), events_of(body, upstream))
    assert not [line for line in out.split(b"\n") if line.startswith(b":")]


@pytest.mark.covers("fault 15")
@each_way
def test_an_answer_that_said_why_it_stops_is_whole_without_a_last_word(client, upstream):
    """Fault 15: which event is the last depends on the protocol."""
    body = body_of(Answer(text="ok"), upstream, "m")
    pieces = list(events_of(body, upstream))
    last = pieces[-1:] if upstream == "responses" else []
    out = passed(asked(client, upstream), [*pieces[:-1], *last])
    assert essence(heard(client, out).reply())[0] == "ok"


@each_way
def test_an_answer_that_breaks_off_is_an_error_in_the_clients_words(client, upstream):
    pieces = list(events_of(body_of(Answer(text="one two three"), upstream, "m"), upstream))
    for end in range(len(pieces) - 4):
        out = passed(asked(client, upstream), pieces[:end])
        reader = heard_of(client, out)
        assert reader.fault
        assert reader.fault.message == "The upstream's answer broke off before its end."
        if client == "responses":
            assert events(out)[0]["type"] == "response.created"
        assert "one two three".startswith(reader.reply().text)


@each_way
def test_nothing_is_said_behind_the_last_word(client, upstream):
    pieces = list(events_of(body_of(Answer(text="one"), upstream, "m"), upstream))
    request = asked(client, upstream)
    assert (
        passed(request, [*pieces, *pieces])
        == passed(request, pieces)
        == passed(request, [b"".join([*pieces, *pieces])])
    )


@each_way
def test_an_error_in_mid_stream_is_the_clients_kind_of_error_and_the_last_thing_said(client, upstream):
    pieces = list(events_of(body_of(Answer(text="one two three"), upstream, "m"), upstream))
    event = error_event("Overloaded", upstream)
    broken = [*pieces[:5], render_event(json.dumps(event), str(event.get("type", ""))), *pieces[5:]]
    request = asked(client, upstream)
    out = passed(request, broken)
    assert out == passed(request, broken[:6])
    last = events(out)[-1]
    message = last["response"]["error"]["message"] if client == "responses" else last["error"]["message"]
    assert message == "Overloaded"
    if upstream == "anthropic" and client == "chat_completions":
        assert last["error"]["type"] == "overloaded_error"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 429, 500, 503, 529])
@each_way
def test_a_refusal_of_the_upstream_keeps_its_status_and_its_words(client, upstream, status):
    request = asked(client, upstream, stream=True)
    code, data = request.whole(status, encoded(error_body(status, "No such thing.", upstream)), STAMP)
    assert code == status
    fault = FORMATS[upstream].parse_fault(error_body(status, "No such thing.", upstream))
    assert fault
    assert json.loads(data) == FORMATS[client].render_fault(fault, status)


def test_a_conversation_that_is_too_long_is_known_to_the_client():
    said_so = error_body(400, "This model's maximum context length is 8192 tokens.", "chat_completions")
    _, data = asked("anthropic", "chat_completions").whole(400, encoded(said_so), STAMP)
    assert json.loads(data)["error"]["message"].startswith("prompt is too long: ")
    said_so = error_body(400, "prompt is too long: 210000 tokens > 200000 maximum", "anthropic")
    for client in ("chat_completions", "responses"):
        _, data = asked(client, "anthropic").whole(400, encoded(said_so), STAMP)
        assert json.loads(data)["error"]["code"] == "context_length_exceeded"


@each_way
@pytest.mark.parametrize("data", [b"", b"<html>", b"{}", b"[]", b'{"choices": [{"', b"\xff"])
def test_an_answer_that_cannot_be_read_is_a_bad_gateway(client, upstream, data):
    status, told = asked(client, upstream).whole(200, data, STAMP)
    assert status == 502
    assert FORMATS[client].parse_fault(json.loads(told))
    status, told = asked(client, upstream).whole(503, data, STAMP)
    assert status == 503
    assert FORMATS[client].parse_fault(json.loads(told))


@each_way
def test_an_answer_in_one_piece_is_a_stream_for_who_asked_for_one(client, upstream):
    body = body_of(Answer(text="one", calls=CALLS), upstream, "m")
    status, data = asked(client, upstream, stream=True).whole(200, encoded(body), STAMP)
    assert status == 200
    assert essence(heard(client, data).reply())[:2] == essence(FORMATS[upstream].parse_reply(body))[:2]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "item_reference"),
    ],
)
def test_a_conversation_that_is_not_in_the_request_is_refused(fields, name):
    with pytest.raises(Mistake, match=name):
        asked("responses", "anthropic", **fields)


def test_tools_that_take_a_text_or_have_a_namespace_come_back_as_the_client_declared_them():
    tools = [
        {"type": "custom", "name": "patch"},
        {
            "type": "namespace",
            "name": "agents",
            "description": "Agents.",
            "tools": [{"type": "function", "name": "spawn", "parameters": None, "strict": None}],
        },
    ]
    items = [
        {"role": "user", "content": "go"},
        {"type": "custom_tool_call", "call_id": "c0", "name": "patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "c0", "output": "ok"},
    ]
    request = asked("responses", "chat_completions", tools=tools, input=items)
    assert [one["function"]["name"] for one in request.body["tools"]] == ["patch", "spawn"]
    assert json.loads(request.body["messages"][1]["tool_calls"][0]["function"]["arguments"]) == {"input": "*** Begin"}
    answer = Answer(calls=(("c1", "patch", {"input": "*** End\n"}), ("c2", "spawn", {})))
    body = body_of(answer, "chat_completions", "m")
    whole = json.loads(request.whole(200, encoded(body), STAMP)[1])
    patch, spawn = whole["output"]
    assert (patch["type"], patch["input"], patch["call_id"]) == ("custom_tool_call", "*** End\n", "c1")
    assert (spawn["type"], spawn["namespace"], spawn["arguments"]) == ("function_call", "agents", "{}")
    stream = passed(request, events_of(body, "chat_completions"))
    assert put_together("responses", stream)["output"][1]["namespace"] == "agents"
    assert events(stream)[-1]["response"]["output"] == whole["output"]


def test_a_system_message_in_the_middle_stays_where_it_is():
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "system", "content": "Mind the tools."},
        {"role": "user", "content": "c"},
    ]
    sent = asked("anthropic", "chat_completions", system="Be brief.", messages=messages).body["messages"]
    assert [one["role"] for one in sent] == ["system", "user", "assistant", "user", "user"]
    assert "Mind the tools." in sent[3]["content"]


def test_parts_and_fields_without_a_counterpart_are_named():
    part = {"type": "container_upload", "file_id": "f"}
    request = asked(
        "anthropic", "responses", messages=[{"role": "user", "content": [part]}], stop_sequences=["x"], top_k=3
    )
    assert request.dropped == ("top_k", "stop_sequences", "thinking", "content.container_upload")


def test_an_estimate_of_tokens_counts_an_image_as_one_and_not_as_its_letters():
    words = said([Message(kind="user", text="x" * 4000)])
    body = FORMATS["anthropic"].render_request(words, Settings(model="m"))
    plain = estimated_tokens(FORMATS["anthropic"], body)
    assert 1000 <= plain <= 1010
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 400_000}}
    body["messages"].append({"role": "user", "content": [image]})
    assert plain + 1000 <= estimated_tokens(FORMATS["anthropic"], body) <= plain + 1010
    more = {**body, "tools": [{"name": "read", "input_schema": {"type": "object"}}]}
    assert estimated_tokens(FORMATS["anthropic"], more) > estimated_tokens(FORMATS["anthropic"], body)


@pytest.mark.parametrize(
    ("client", "part"),
    [
        ("anthropic", {"type": "image", "source": {"type": "file", "file_id": "f"}}),
        ("responses", {"type": "input_file", "file_id": "f"}),
        ("chat_completions", {"type": "file", "file": {"file_id": "f"}}),
    ],
)
def test_a_file_that_only_another_server_has_is_refused_and_not_left_out(client, part):
    upstream = "chat_completions" if client == "anthropic" else "anthropic"
    with pytest.raises(Mistake, match=r"not by reference: content\."):
        asked(client, upstream, **{FIELDS[client]: [{"role": "user", "content": [part]}]})


@each_way
def test_an_error_under_a_good_status_has_the_status_that_it_means(client, upstream):
    body: JSON = {"type": "error", "error": {"type": "overloaded_error", "message": "Busy."}}
    status, data = asked(client, upstream).whole(200, encoded(body), STAMP)
    assert status == 529
    assert json.loads(data)["error"]["message"] == "Busy."


def test_a_client_of_responses_is_told_in_mid_stream_too_that_a_conversation_is_too_long():
    event = {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 3 > 2"}}
    out = passed(asked("responses", "anthropic"), [render_event(json.dumps(event), "error")])
    assert events(out)[-1]["response"]["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize("client", ["responses", "anthropic"])
def test_calls_that_come_whole_and_all_with_one_number_are_each_a_call(client):
    """As Ollama sends them."""
    body = body_of(Answer(calls=CALLS), "chat_completions", "m")
    pieces = events_of(body, "chat_completions", Manner(whole_calls=True))
    assert [one.call_id for one in calls_of(client, passed(asked(client, "chat_completions"), pieces))] == [
        "call_a",
        "call_b",
    ]
