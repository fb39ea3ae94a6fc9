"""Whatever a model says in however many rounds, and whatever a server sends: laws of rounds of ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.protocols import FORMATS
from everlog.protocols.exchange import Fault
from everlog.protocols.shapes import dumps, encoded, loads
from everlog.protocols.sse import Event, Frames
from everlog.testing.upstream.answers import Answer, body_of
from everlog.testing.upstream.streams import events_of
from tests.hidden_rounds import CASES, PROTOCOLS, Calls, Case, zoom
from tests.unit.protocols import rules
from tests.unit.protocols.test_streams import manners
from tests.unit.proxy.test_hidden_rounds import begun, driven, folded, shown

each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
WORDS = st.sampled_from(["", "Herons.", "I look.", "ü\n\nb"])


@st.composite
def cases(draw):
    """Return an answer of up to six rounds, and what of it a client is shown, by the rules of the caps alone."""
    rounds: list[Answer] = []
    run: list[tuple[str, ...]] = []
    told: list[str] = []
    thoughts: list[str] = []
    calls: Calls = ()
    done = 0
    while True:
        number, is_limited = len(rounds), len(run) > 4 or done > 12
        words, thinking = draw(WORDS), draw(WORDS)
        kinds = draw(st.lists(st.sampled_from(["ours", "ours", "theirs"]), max_size=6)) if number < 6 else []
        made: Calls = tuple(
            zoom(f"our_{number}_{place}") if kind == "ours" else (f"call_{number}_{place}", "read", {"n": place})
            for place, kind in enumerate(kinds)
        )
        ours = tuple(one[0] for one in made if one[1] != "read")
        rounds.append(Answer(text=words, thinking=thinking, calls=made))
        told += [words] if words else []
        thoughts += [thinking] if thinking else []
        calls = tuple(one for one in made if one[1] == "read")
        if ours and not is_limited:
            run.append(() if len(run) >= 4 else ours[: max(0, 12 - done)])
            done += len(ours)
        if calls or not ours or is_limited:
            break
    return Case(
        rounds=tuple(rounds),
        text="\n".join(told),
        thinking="\n".join(thoughts),
        calls=calls,
        finish="tool_calls" if calls else "stop",
        run=tuple(run),
    )


ODD = st.sampled_from([None, True, 7, -1, 1.5, "x", "", [], {}, [7], {"index": "x"}, [{"index": 0}], 10**40])


@st.composite
def spoilt(draw, value):
    """Return a value with something odd at some place in it, or without that."""
    if isinstance(value, dict | list) and value and draw(st.integers(0, 5)):
        places = [*value] if isinstance(value, dict) else [*range(len(value))]
        place = draw(st.sampled_from(places))
        if draw(st.integers(0, 9)) == 0:
            return {name: one for name, one in value.items() if name != place} if isinstance(value, dict) else []
        inner = draw(spoilt(value[place]))
        if isinstance(value, dict):
            return {**value, place: inner}
        return [*value[:place], inner, *value[place + 1 :]]
    return draw(ODD)


@st.composite
def odd_events(draw, events):
    """Return events of which some are odd, missing, or there twice."""
    out = []
    for event in events:
        match draw(st.integers(0, 9)):
            case 0:
                value = loads(event.data)
                out.append(Event("{" if value is None else dumps(draw(spoilt(value))), event.name))
            case 1:
                out += [event, event]
            case 2:
                pass
            case _:
                out.append(event)
    return out


@each_protocol
@given(case=cases(), manner=manners)
def test_any_rounds_are_one_answer_the_same_streamed_or_not_and_each_request_is_lawful(protocol, case, manner):
    whole = driven(protocol, case, stream=False)
    assert shown(protocol, whole.body) == (case.text, case.thinking, case.calls, case.finish)
    streamed = driven(protocol, case, manner=manner)
    body = folded(protocol, streamed.stream).body()
    assert shown(protocol, body) == shown(protocol, whole.body)
    assert b"everlog_" not in streamed.stream + encoded(whole.body)
    assert streamed.rounds.held == whole.rounds.held
    ran = [tuple(call.call_id for call in ended.calls) for ended in whole.ends]
    assert ran == [*case.run, *[()] * (len(ran) - len(case.run))]
    for request in whole.requests:
        assert getattr(rules, protocol)(request) == []
        assert FORMATS[protocol].repair(request) is request


@each_protocol
@given(data=st.data(), name=st.sampled_from(["ours only", "mixed, two and two", "text before", "thinking before"]))
def test_whatever_a_server_sends_nothing_is_raised(protocol, data, name):
    case = CASES[name]
    rounds = begun(protocol, case, stream=data.draw(st.booleans()))
    for number, answer in enumerate(case.rounds, 1):
        body = body_of(answer, protocol, "m", number)
        if rounds.request().get("stream"):
            for event in data.draw(odd_events(Frames().feed(b"".join(events_of(body, protocol))))):
                rounds.feed(event)
        else:
            odd = data.draw(st.just(body) | spoilt(body))
            rounds.take(odd if isinstance(odd, dict) else {})
        ended = rounds.ended()
        if ended.fault is not None:
            rounds.fail(ended.fault, ended.status)
            return
        if ended.is_final:
            break
        rounds.answer({call.call_id: "found" for call in ended.calls})
        encoded(rounds.request())
    rounds.finish()
    if not rounds.request().get("stream"):
        encoded(rounds.body())
    rounds.answer({})
    rounds.fail(Fault(type="error", message="Busy."), 500)
