"""Conversations out of bodies and back: what is replayed, what is made anew, what survives."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.errors import UnsupportedAttachment
from everlog.messages import JSON, Call, Media, Message, Result, Unknown
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Raw, Said, Settings, Step, said
from everlog.protocols.shapes import encoded
from tests.unit.protocols.answers import CASES, bodies
from tests.unit.protocols.histories import BODIES, called, talks

each_protocol = pytest.mark.parametrize("name", sorted(FORMATS))
SETTINGS = Settings(model="m")
FIELDS = {"chat_completions": "messages", "responses": "input", "anthropic": "messages"}


def requested(name, history):
    return FORMATS[name].render_request(history, SETTINGS)


def flat(history):
    """Return what was said, without what a wire does not carry: authors, and which of two texts a line break is of."""
    out = []
    for one in history:
        for message in one.messages:
            parts = tuple(part for part in message.parts if not isinstance(part, Result))
            answered = message.result.call_id if message.result else None
            kind = "user" if message.kind == "note" else message.kind
            out.append((kind, message.text, parts, answered))
    return out


@each_protocol
@given(data=st.data())
def test_a_body_with_its_own_history_is_the_same_bytes(name, data):
    body = data.draw(BODIES[name])
    assert encoded(FORMATS[name].with_history(body, FORMATS[name].parse_history(body))) == encoded(body)


@each_protocol
@given(talk=talks())
def test_a_talk_comes_back_from_each_protocol(name, talk):
    parsed = FORMATS[name].parse_history(requested(name, talk))
    assert flat(parsed) == flat(talk)


@pytest.mark.parametrize("first", sorted(FORMATS))
@pytest.mark.parametrize("second", sorted(FORMATS))
@given(talk=talks())
def test_a_talk_survives_a_change_of_protocol_and_back(first, second, talk):
    there = FORMATS[first].parse_history(requested(first, talk))
    back = FORMATS[second].parse_history(requested(second, there))
    assert flat(back) == flat(talk)


@pytest.mark.covers("chat A.1 90", "chat A.1 95", "chat A.1 102")
@pytest.mark.parametrize(("protocol", "name"), CASES)
def test_a_reply_is_replayed_as_it_came(protocol, name):
    """Facts 90, 95, 102: reasoning, signatures, steps, compaction and what nobody knows, in place."""
    body = bodies(protocol)[name]
    reply = FORMATS[protocol].parse_reply(body)
    calls = [one.call for one in reply.said.messages if one.call]
    answers = said(Message(kind="tool_result", text="ok", parts=(Result(call_id=call.call_id),)) for call in calls)
    asked = Said(messages=(Message(kind="user", text="go"),))
    history = (asked, reply.said, *answers, asked)
    sent = requested(protocol, history)[FIELDS[protocol]]
    match protocol:
        case "chat_completions" if name == "nothing":
            assert [one["role"] for one in sent] == ["user", "user"]
        case "chat_completions":
            assert encoded(sent[1]) == encoded(body["choices"][0]["message"])
        case "responses":
            assert encoded(sent[1 : 1 + len(body["output"])]) == encoded(body["output"])
        case "anthropic" if body["content"]:
            assert encoded(sent[1]) == encoded({"role": "assistant", "content": body["content"]})


@pytest.mark.parametrize(("protocol", "name"), CASES)
@pytest.mark.parametrize("other", sorted(FORMATS))
def test_a_reply_is_made_anew_for_another_protocol(protocol, name, other):
    reply = FORMATS[protocol].parse_reply(bodies(protocol)[name])
    if other != protocol:
        asked = Said(messages=(Message(kind="user", text="go"),))
        calls = [one.call for one in reply.said.messages if one.call]
        answers = said(Message(kind="tool_result", text="ok", parts=(Result(call_id=call.call_id),)) for call in calls)
        parsed = FORMATS[other].parse_history(requested(other, (asked, reply.said, *answers)))
        words = [one.text for item in parsed for one in item.messages if one.kind == "assistant" and one.text]
        assert "\n".join(words) == reply.text
        ids = [one.call.call_id for item in parsed for one in item.messages if one.call]
        assert ids == [call.call_id for call in calls]
        assert b"signature" not in encoded(requested(other, (asked, reply.said)))


@pytest.mark.covers("chat A.1 102", "D82")
def test_steps_of_the_providers_tools_are_told_apart_from_words():
    """Fact 102, D82."""
    content = bodies("anthropic")["search and citations"]["content"]
    reply = FORMATS["anthropic"].parse_reply({"content": content})
    step = Step(
        type="server_tool_use",
        name="web_search",
        id="srvtoolu_1",
        input={"query": "herons"},
        result=content[4]["content"],
        raw=(content[3], content[4]),
    )
    assert reply.steps == (step,)
    assert reply.text == "I search.\nHerons wade and fish."
    assert [one.url for one in reply.citations] == ["https://a.example"]
    output = bodies("responses")["search and an item of tomorrow"]["output"]
    step = Step(
        type="web_search_call",
        name="web_search",
        id="ws_1",
        input={"type": "search", "query": "q"},
        raw=(output[1],),
    )
    assert FORMATS["responses"].parse_reply({"output": output}).steps == (step,)


def test_messages_of_a_log_are_said_in_rounds():
    text = [Message(kind=kind, text="x") for kind in ("user", "assistant")]
    calls = [called("a", "read", "{}"), called("b", "read", "{}")]
    results = [Message(kind="tool_result", parts=(Result(call_id=one),)) for one in "ab"]
    history = [*text, *calls, *results, text[1], text[1], *calls, text[1], text[0]]
    assert [len(one.messages) for one in said(history)] == [1, 3, 2, 1, 4, 1]


@pytest.mark.covers("chat A.1 45")
@each_protocol
def test_a_system_message_goes_to_the_front_wherever_it_was_said(name):
    """Fact 45: instructions are appended, renderers move them."""
    system = Message(kind="system", text="Be brief.")
    body = requested(name, said([Message(kind="user", text="hi"), Message(kind="assistant", text="ho"), system]))
    first = {
        "chat_completions": lambda: body["messages"][0]["content"],
        "responses": lambda: body["instructions"],
        "anthropic": lambda: body["system"][0]["text"],
    }[name]
    assert first() == "Be brief."
    assert len(body[FIELDS[name]]) == (3 if name == "chat_completions" else 2)


@each_protocol
def test_a_system_message_of_the_client_stays_where_it_stands(name):
    items = [{"role": "user", "content": "hi"}, {"role": "system", "content": "now"}, {"role": "user", "content": "go"}]
    body = {FIELDS[name]: items}
    parsed = FORMATS[name].parse_history(body)
    assert [one.messages[0].kind for one in parsed] == ["user", "system", "user"]
    assert requested(name, parsed)[FIELDS[name]] == items


@each_protocol
def test_attachments_stand_at_their_place_in_the_words(name):
    image = Media(media_type="image/png", content=b"\x89PNG", offset=6)
    message = Message(kind="user", text="before\nafter", parts=(image,))
    body = requested(name, said([message]))
    content = body[FIELDS[name]][0]["content"]
    assert [part.get("text", "image") for part in content] == ["before", "image", "after"]
    assert flat(FORMATS[name].parse_history(body)) == flat(said([message]))


@pytest.mark.covers("chat A.1 55", "chat A.2 236")
def test_attachments_of_results_follow_the_round_where_results_are_words_only():
    image = Media(media_type="image/png", content=b"\x89PNG", offset=3)
    results = [
        Message(kind="tool_result", text="one", parts=(Result(call_id="a"), image)),
        Message(kind="tool_result", text="two", parts=(Result(call_id="b"),)),
    ]
    history = said([Message(kind="user", text="go"), called("a", "read", "{}"), called("b", "read", "{}"), *results])
    chat = requested("chat_completions", history)["messages"]
    assert [one["role"] for one in chat] == ["user", "assistant", "tool", "tool", "user"]
    assert chat[-1]["content"][0]["type"] == "image_url"
    assert [one.get("type", "user") for one in requested("responses", history)["input"]] == [
        "user",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "user",
    ]
    inside = requested("anthropic", history)["messages"][-1]["content"]
    assert [part["type"] for part in inside[0]["content"]] == ["text", "image"]
    assert len(inside) == 2


@pytest.mark.covers("chat A.1 53")
@each_protocol
def test_a_file_that_a_protocol_cannot_carry_is_refused_before_anything_is_sent(name):
    film = Media(media_type="video/mp4", content=b"x")
    with pytest.raises(UnsupportedAttachment, match="video/mp4"):
        requested(name, said([Message(kind="user", text="look", parts=(film,))]))


@each_protocol
def test_an_attachment_that_is_no_longer_kept_leaves_a_word_in_its_place(name):
    gone = Media(media_type="image/png", name="plan.png")
    body = requested(name, said([Message(kind="user", text="look", parts=(gone,))]))
    assert "image/png plan.png: no longer kept" in json.dumps(body)


@each_protocol
def test_parts_nobody_knows_are_kept_by_their_own_protocol_alone(name):
    part: JSON = {"type": "x_tomorrow", "value": 1}
    history = FORMATS[name].parse_history({FIELDS[name]: [{"role": "user", "content": [part]}]})
    assert history[0].messages[0].parts == (Unknown(source=name, value=part),)
    anew = (Said(messages=history[0].messages),)
    for other in FORMATS:
        assert ("x_tomorrow" in json.dumps(requested(other, anew))) == (other == name)


@each_protocol
def test_lone_halves_of_surrogate_pairs_are_sent_as_escapes(name):
    body = requested(name, said([Message(kind="user", text="a\ud83d")]))
    assert rb"a\ud83d" in encoded(body)
    assert json.loads(encoded(body)) == body


def test_a_failed_result_says_so_where_a_protocol_can():
    failed = Message(kind="tool_result", text="no", parts=(Result(call_id="a", failed=True),))
    body = requested("anthropic", said([Message(kind="user", text="go"), called("a", "read", "{}"), failed]))
    assert body["messages"][-1]["content"][0]["is_error"] is True
    assert FORMATS["anthropic"].parse_history(body)[-1].messages[0].result == Result(call_id="a", failed=True)


@each_protocol
@pytest.mark.parametrize("words", ["", '{"path": "a', "[1]"])
def test_arguments_that_are_no_object_are_sent_in_a_form_that_is_taken(name, words):
    asked = Message(kind="user", text="go")
    result = Message(kind="tool_result", text="what?", parts=(Result(call_id="a"),))
    body = requested(name, said([asked, called("a", "read", words), result]))
    call = next(one.call for item in FORMATS[name].parse_history(body) for one in item.messages if one.call)
    if name == "anthropic":
        assert json.loads(call.arguments) == ({"arguments": words} if words else {})
    else:
        assert call == Call(call_id="a", name="read", arguments=words or "{}")


def test_a_foreign_reply_that_is_only_raw_renders_nothing():
    reply = Said(raw=Raw(protocol="gemini", items=({"x": 1},)))
    for name in FORMATS:
        assert "gemini" not in json.dumps(requested(name, (Said(messages=(Message(kind="user", text="a"),)), reply)))


@pytest.mark.long
def test_requests_of_real_clients_keep_their_bytes_and_need_no_repair():
    if "EVERLOG_DATA" not in os.environ:
        pytest.skip("EVERLOG_DATA does not name the folder of recorded requests")
    folder = Path(os.environ["EVERLOG_DATA"]) / "clients"
    seen = 0
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            request = json.loads(line)
            body = request.get("body")
            name = {"messages": "anthropic", "responses": "responses", "completions": "chat_completions"}.get(
                request.get("path", "").partition("?")[0].rsplit("/", 1)[-1]
            )
            if name and isinstance(body, dict):
                form = FORMATS[name]
                assert encoded(form.with_history(body, form.parse_history(body))) == encoded(body)
                assert form.repair(body) is body, path.name
                seen += 1
    assert seen > 100
