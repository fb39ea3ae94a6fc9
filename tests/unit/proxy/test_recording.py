"""The recorder's ear: what it hears of an exchange is kept, the same streamed or not, and never in the way."""

import asyncio
import gzip
import json
import threading
import tracemalloc
import weakref
import zlib
from concurrent.futures import wait
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlog import access, log
from everlog.access import asked_by, used
from everlog.conversation.alignment.values import Caller
from everlog.errors import Busy, StoreUnavailable
from everlog.log import TurnState
from everlog.messages import Message
from everlog.protocols import FORMATS
from everlog.store import open_store
from everlog.surfaces.proxy.incoming import Incoming
from everlog.surfaces.proxy.recording.ear import Exchange
from everlog.surfaces.proxy.recording.pruning import Pruning
from everlog.surfaces.proxy.recording.recorder import Recorder
from everlog.surfaces.proxy.recording.room import MOST_SAID, STEP
from everlog.surfaces.proxy.recording.telling import DEBUG
from everlog.surfaces.proxy.recording.threads import LARGE, THREADS
from everlog.surfaces.proxy.settings.options import Target
from everlog.testing.upstream.answers import Answer, body_of
from everlog.testing.upstream.streams import Manner, events_of

STREAM = ((b"content-type", b"text/event-stream; charset=utf-8"),)
JSON = ((b"content-type", b"application/json"),)
PLACES = {"chat_completions": "messages", "responses": "input", "anthropic": "messages"}


@pytest.fixture
def store():
    with open_store(":memory:") as store:
        yield store


@pytest.fixture
def recorder(store):
    recorder = recorder_of(store)
    yield recorder
    recorder.close()


def recorder_of(store, **wishes) -> Recorder:
    return Recorder(store, tenant="t", caller=Caller(key="k"), redact=lambda message: message, **wishes)


def asked(protocol: str, *texts: str, headers=(), **fields) -> Incoming:
    said = [{"role": "user" if n % 2 == 0 else "assistant", "content": text} for n, text in enumerate(texts)]
    body = json.dumps({"model": "m", PLACES[protocol]: said, **fields}).encode()
    return Incoming(method="POST", path="/v1/x", query=b"", headers=headers, body=body)


def listen(recorder: Recorder, incoming: Incoming) -> Exchange:
    ear = recorder.listen(incoming, "anthropic")
    assert ear is not None
    return ear


def hear(recorder, incoming, protocol, pieces, *, status=200, headers=STREAM, leave=None) -> list[int]:
    """Let an ear hear an exchange with Anthropic, and return how many bytes of each piece were let out."""
    target = Target(base_url="https://api.anthropic.com")

    async def exchange() -> list[int]:
        ear = recorder.listen_for(incoming, protocol, tenant="t", caller=recorder._caller, target=target)
        if status is not None:
            ear.head(status, headers)
        free = [ear.piece(piece) for piece in pieces]
        await (ear.commit() if leave is None else ear.leave(leave))
        return free

    return asyncio.run(exchange())


def entries(store) -> list[list[str]]:
    return [
        [f"{one.kind}: {one.text}" for one in store.read("t", lambda unit, thread=thread: log.read(unit, thread))]
        for thread in store.read("t", log.listed)
    ]


def states(store) -> list[TurnState]:
    return [TurnState(row[4]) for row in turn_rows(store)]


def turn_rows(store) -> list:
    from everlog.log import rows  # noqa: PLC0415 -- what no surface shows yet

    return [
        row
        for thread in store.read("t", log.listed)
        for row in store.read("t", lambda unit, thread=thread: unit.rows(rows.TURNS, thread=thread.id, start=0, stop=9))
    ]


def test_a_history_is_let_go_in_a_thread_and_not_on_the_event_loop(recorder):
    threads: list[str] = []

    async def exchange() -> None:
        ear = recorder.listen(asked("anthropic", "Hello"), "anthropic")

        def name() -> None:
            threads.append(threading.current_thread().name)

        ear._heard.add_done_callback(lambda done: weakref.finalize(done.result().presence, name))
        await asyncio.to_thread(wait, (ear._heard,))  # and nothing on the event loop has it
        ear.head(200, JSON)
        ear.piece(json.dumps(body_of(Answer(text="Hi"), "anthropic", "m")).encode())
        await ear.commit()

    asyncio.run(exchange())
    [name] = threads
    assert name.startswith("everlog-record")


answers = st.builds(
    Answer,
    text=st.text(st.characters(exclude_categories=["Cs"]), max_size=50),
    calls=st.lists(
        st.tuples(st.sampled_from(["c1", "c2"]), st.just("look"), st.dictionaries(st.text(max_size=3), st.integers())),
        max_size=2,
        unique_by=lambda call: call[0],
    ).map(tuple),
    thinking=st.sampled_from(["", "hm"]),
)


@pytest.mark.parametrize("protocol", FORMATS)
@settings(max_examples=25)
@given(answer=answers, piece=st.integers(1, 20), places=st.lists(st.integers(0, 9999), max_size=9))
def test_streamed_or_not_the_log_is_the_same_wherever_the_stream_is_cut(protocol, answer, piece, places):
    body = body_of(answer, protocol, "m")
    data = b"".join(events_of(body, protocol, Manner(piece=piece)))
    ends = sorted({place % len(data) for place in places} | {0, len(data)})
    kept = []
    for pieces, headers in (([data[a:b] for a, b in pairwise(ends)], STREAM), ([json.dumps(body).encode()], JSON)):
        with open_store(":memory:") as store:
            recorder = recorder_of(store)
            hear(recorder, asked(protocol, "Hello"), protocol, pieces, headers=headers)
            recorder.close()
            kept.append((entries(store), states(store)))
    assert kept[0] == kept[1]
    assert kept[0][0][0][0] == "user: Hello"


@pytest.mark.parametrize("protocol", FORMATS)
def test_only_the_last_frame_of_a_stream_and_all_of_a_body_wait(recorder, protocol):
    events = list(events_of(body_of(Answer(text="Good day"), protocol, "m"), protocol))
    free = hear(recorder, asked(protocol, "Hello"), protocol, events)
    held = next(n for n, event in enumerate(events) if free[n] < len(event))
    assert held >= len(events) - 3
    body = json.dumps(body_of(Answer(text="Good day"), protocol, "m")).encode()
    assert hear(recorder, asked(protocol, "Hello"), protocol, [body[:9], body[9:]], headers=JSON) == [0, 0]


def test_an_answer_that_breaks_off_is_kept_as_far_as_it_came(recorder, store):
    events = list(events_of(body_of(Answer(text="Good day to you"), "anthropic", "m"), "anthropic", Manner(piece=4)))
    hear(recorder, asked("anthropic", "Hello"), "anthropic", events[:4], leave="client")
    assert entries(store) == [["user: Hello", "assistant: Good"]]
    assert states(store) == [TurnState.PARTIAL]


def test_where_the_upstream_breaks_off_before_a_word_what_was_asked_is_kept(recorder, store):
    hear(recorder, asked("anthropic", "Hello"), "anthropic", [], leave="upstream")
    assert entries(store) == [["user: Hello"]]
    assert states(store) == [TurnState.ABORTED]


@pytest.mark.parametrize("kind", [JSON, ()])
def test_a_stream_under_another_type_or_none_is_heard_as_a_stream(recorder, store, kind):
    events = list(events_of(body_of(Answer(text="Good day"), "chat_completions", "m"), "chat_completions"))
    hear(recorder, asked("chat_completions", "Hello"), "chat_completions", events, headers=kind)
    assert entries(store) == [["user: Hello", "assistant: Good day"]]


@pytest.mark.parametrize("body", [b"", b"(\xb5/\xfd", b"<html>", b"[1]"])
def test_of_an_answer_that_nobody_can_read_the_question_is_kept_and_it_is_counted(recorder, store, body):
    hear(recorder, asked("anthropic", "Hello"), "anthropic", [body] if body else [], headers=JSON)
    assert entries(store) == [["user: Hello"]]
    assert states(store) == [TurnState.ABORTED]
    assert recorder.counts == {"new": 1, "unread": 1}


def test_an_error_in_the_middle_of_a_stream_ends_the_turn_as_partial(recorder, store):
    events = list(events_of(body_of(Answer(text="Good day"), "anthropic", "m"), "anthropic"))[:4]
    fault = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"x"}}\n\n'
    hear(recorder, asked("anthropic", "Hello"), "anthropic", [*events, fault])
    assert states(store) == [TurnState.PARTIAL]


@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
def test_an_answer_that_was_refused_leaves_no_trace_and_is_not_held(recorder, store, status):
    assert hear(recorder, asked("anthropic", "Hello"), "anthropic", [b"{}"], status=status, headers=JSON) == [2]
    assert entries(store) == []
    assert recorder.counts == {"nothing": 1}


def test_where_nobody_answers_there_is_no_trace_and_where_the_client_goes_there_is(recorder, store):
    hear(recorder, asked("anthropic", "Hello"), "anthropic", [], status=None, leave="upstream")
    assert entries(store) == []
    hear(recorder, asked("anthropic", "Hello"), "anthropic", [], status=None, leave="client")
    assert entries(store) == [["user: Hello"]]


@pytest.mark.parametrize("name", [b"x-everlog-memory", b"x-infinitum-memory", b"x-context-memory"])
@pytest.mark.parametrize("word", [b"off", b"False", b"0"])
def test_a_client_can_have_an_exchange_kept_nowhere(store, name, word):
    recorder = Recorder(store, tenant="t", caller=Caller(), redact=lambda message: message)
    assert recorder.listen(asked("anthropic", "Hello", headers=((name, word),)), "anthropic") is None
    recorder.close()


def test_what_is_kept_nowhere_still_counts_under_its_key_and_is_not_held(store, recorder):
    body = body_of(Answer(text="Good day."), "chat_completions", "m")
    said = json.dumps(body).encode()
    tokens = sum(body["usage"][name] for name in ("prompt_tokens", "completion_tokens"))
    incoming = asked("chat_completions", "Hello", headers=((b"x-everlog-memory", b"off"),))
    assert hear(recorder, incoming, "chat_completions", [said], headers=JSON) == [len(said)]
    assert store.read("t", log.listed) == []
    assert store.read("t", partial(asked_by, limit=9)) == []
    found = store.read("t", partial(used, key="k", since=store.clock.now()))
    assert (found.requests, found.tokens) == (1, tokens)


def test_each_request_leaves_a_row_that_says_what_became_of_it_and_what_it_took(store, recorder):
    events = list(events_of(body_of(Answer(text="Good day."), "chat_completions", "m"), "chat_completions"))
    heads = ((b"x-everlog-session-id", b"s1"), (b"x-everlog-user-id", b"ann"), (b"x-everlog-project-id", b"boat"))
    hear(recorder, asked("chat_completions", "Hello", headers=heads), "chat_completions", events)
    hear(
        recorder,
        asked("chat_completions", "Hello", headers=heads),
        "chat_completions",
        [b"{}"],
        status=503,
        headers=JSON,
    )
    hear(recorder, asked("chat_completions", "Hello"), "chat_completions", [], status=None, leave="upstream")
    unreached, refused, kept = store.read("t", partial(asked_by, limit=9))
    assert (kept.decision, kept.status, kept.session, kept.user, kept.project) == ("new", 200, "s1", "ann", "boat")
    assert (kept.model, kept.protocol, kept.key, kept.first, kept.stop) == ("m", "chat_completions", "k", 0, 2)
    assert kept.thread == store.read("t", log.listed)[0].id
    assert (refused.decision, refused.status, refused.thread, refused.first) == ("nothing", 503, "", None)
    assert (unreached.decision, unreached.status) == ("nothing", None)
    found = store.read("t", partial(used, key="k", since=store.clock.now()))
    assert found.requests == 3
    assert found.tokens > 0, "what no provider counted is estimated"


def test_what_old_requests_were_is_forgotten_beside_new_ones_and_their_words_and_use_are_not(store):
    recorder = recorder_of(store, pruning=Pruning(most=2, every=2, counted=1))
    body = [json.dumps(body_of(Answer(text="Good day."), "anthropic", "m")).encode()]
    left = []
    for n in range(6):
        hear(recorder, asked("anthropic", f"Hello {n}"), "anthropic", body, headers=JSON)
        left.append(len(store.read("t", partial(asked_by, limit=9))))
    recorder.close()
    assert left == [1, 2, 3, 2, 3, 2]
    assert len(entries(store)) == 6
    assert store.read("t", partial(used, key="k", since=store.clock.now())).requests == 6


def test_requests_that_cannot_be_forgotten_now_are_in_nobodys_way(store):
    pruning = Pruning(every=1)
    store.close()
    pruning.after(store, "t")


def said_of(recorder, *texts, headers=(), **fields) -> dict[bytes, bytes]:
    """Return what the answer to a request says of it, when it was placed."""

    async def exchange() -> dict[bytes, bytes]:
        ear = recorder.listen(asked("anthropic", *texts, headers=headers, **fields), "anthropic")
        await asyncio.to_thread(ear._heard.result)
        ear.head(200, JSON)
        found = dict(ear.said())
        await ear.leave("client")
        return found

    return asyncio.run(exchange())


def test_a_client_that_asks_is_told_what_was_decided_and_no_working_directory(recorder):
    heads = ((b"x-infinitum-debug", b"true"), (b"x-everlog-user-id", b"ann"), (b"x-everlog-cwd", b"/home/ann/boat"))
    found = said_of(recorder, "Hello", headers=heads)
    assert set(found) == {b"x-everlog-request-id", *(name.encode() for name in DEBUG)}
    assert found[b"x-everlog-decision"] == b"new"
    assert found[b"x-everlog-resolved-user-id"] == b"ann"
    assert found[b"x-everlog-project-derived-from-cwd"] == b"true"
    assert b"/home" not in b"".join(found.values())
    assert set(said_of(recorder, "Hello", headers=heads[1:])) == {b"x-everlog-request-id"}


def test_an_answer_says_at_which_byte_its_client_broke_the_prefix(recorder):
    debug = ((b"x-everlog-debug", b"on"),)
    body = [json.dumps(body_of(Answer(text="Good day."), "anthropic", "m")).encode()]
    hear(recorder, asked("anthropic", "Hello", system="A"), "anthropic", body, headers=JSON)
    hear(recorder, asked("anthropic", "Hello", "Good day.", "Who?", system="A"), "anthropic", body, headers=JSON)
    talk = ("Hello", "Good day.", "Who?", "Good day.", "Where?")
    kept = said_of(recorder, *talk, headers=debug, system="A")
    assert kept[b"x-everlog-prefix"].startswith(b"kept; bytes=")
    broke = said_of(recorder, *talk, system="It is noon.")
    assert broke[b"x-everlog-prefix"].startswith(b"broke; at=0; of=")
    assert broke[b"x-everlog-prefix"].endswith(b"; by=caller:instructions")
    assert b"x-everlog-prefix" not in said_of(recorder, *talk, system="It is noon.")
    assert b"x-everlog-prefix" not in said_of(recorder, "A title?", max_tokens=9, headers=debug)
    counted = recorder.watch.totals.of("t")
    assert counted.prefixes == {"caller:instructions": 1, "nobody": 2}
    assert counted.modes == {"record": 5}


@pytest.mark.parametrize("headers", [(), ((b"x-everlog-debug", b"on"),)])
def test_each_answer_says_that_its_request_is_no_message_of_a_conversation(recorder, headers):
    assert said_of(recorder, "Hello", headers=headers, max_tokens=16)[b"x-everlog-decision"] == b"side"
    found = said_of(recorder, "Hello", headers=headers, max_tokens=17)
    assert found.get(b"x-everlog-decision") == (b"new" if headers else None)


def test_the_thread_of_a_fork_that_is_not_made_yet_is_not_told_and_no_other_one(recorder):
    debug = ((b"x-everlog-debug", b"on"),)
    body = [json.dumps(body_of(Answer(text="Good day."), "anthropic", "m")).encode()]
    hear(recorder, asked("anthropic", "Hello"), "anthropic", body, headers=JSON)
    hear(recorder, asked("anthropic", "Hello", "Good day.", "Who?"), "anthropic", body, headers=JSON)
    forked = said_of(recorder, "Hello", "Good day.", "And where?", headers=debug)
    assert forked[b"x-everlog-decision"] == b"fork"
    assert b"x-everlog-thread" not in forked


def test_what_a_client_wants_unlearned_is_marked_so(store, recorder):
    events = list(events_of(body_of(Answer(text="Good day."), "anthropic", "m"), "anthropic"))
    for n, headers in enumerate(((), ((b"x-context-learning", b"off"),))):
        hear(recorder, asked("anthropic", f"Hello {n}", headers=headers), "anthropic", events)
    assert [row[5] for row in turn_rows(store)] == [1, 0]


@pytest.mark.parametrize("name", [b"x-everlog-memory", b"x-infinitum-memory", b"x-context-memory"])
def test_a_client_can_have_an_exchange_kept_nowhere_but_its_key_is_counted(recorder, store, name):
    incoming = asked("anthropic", "Hello", headers=((name, b"off"),))
    body = json.dumps(body_of(Answer(text="Good day"), "anthropic", "m")).encode()
    hear(recorder, incoming, "anthropic", [body], headers=JSON)
    recorder.close()
    assert entries(store) == []
    assert store.read("t", lambda unit: access.used(unit, "k", store.clock.now())).tokens == 120
    assert recorder.listen_for(incoming, "anthropic", tenant="t", caller=Caller()) is None


@pytest.mark.parametrize(("encoding", "pack"), [(b"gzip", gzip.compress), (b"deflate", zlib.compress)])
def test_a_compressed_request_is_read(recorder, store, encoding, pack):
    incoming = asked("anthropic", "Hello", headers=((b"content-encoding", encoding),))
    incoming = replace(incoming, body=pack(incoming.body))
    body = json.dumps(body_of(Answer(text="Good day"), "anthropic", "m")).encode()
    hear(recorder, incoming, "anthropic", [body], headers=JSON)
    assert entries(store) == [["user: Hello", "assistant: Good day"]]


def test_a_request_in_an_encoding_that_is_not_known_is_counted_as_unread(recorder, store):
    incoming = asked("anthropic", "Hello", headers=((b"content-encoding", b"zstd"),))
    hear(recorder, incoming, "anthropic", [b"{}"], headers=JSON)
    assert (entries(store), recorder.counts["unread"]) == ([], 1)


def test_who_leaves_before_an_answer_pays_for_the_question_and_who_gets_none_does_not(recorder, store):
    def tokens():
        return store.read("t", lambda unit: access.used(unit, "k", store.clock.now())).tokens

    hear(recorder, asked("anthropic", "Hello " * 400), "anthropic", [], status=None, leave="upstream")
    assert tokens() == 0
    hear(recorder, asked("anthropic", "Hello " * 400), "anthropic", [], status=None, leave="client")
    assert tokens() > 500


def test_an_exchange_whose_thread_is_erased_meanwhile_is_erased_with_it(recorder, store):
    body = json.dumps(body_of(Answer(text="Good day"), "anthropic", "m")).encode()
    hear(recorder, asked("anthropic", "Hello"), "anthropic", [body], headers=JSON)

    async def exchange() -> None:
        ear = recorder.listen(asked("anthropic", "Hello", "Good day", "And now?"), "anthropic")
        await asyncio.to_thread(ear._heard.result)
        [thread] = store.read("t", log.listed)
        await asyncio.to_thread(log.erase_thread, store, "t", thread.id)
        ear.head(200, JSON)
        ear.piece(body)
        await ear.commit()

    asyncio.run(exchange())
    assert entries(store) == []
    assert recorder.counts == {"new": 1, "nothing": 1}


def test_an_odd_id_of_an_answer_before_is_one_that_is_not_known(recorder, store):
    incoming = asked("responses", "Hello", previous_response_id="resp_\ud800")
    body = json.dumps(body_of(Answer(text="Good day"), "responses", "m")).encode()
    hear(recorder, incoming, "responses", [body], headers=JSON)
    assert entries(store) == [["user: Hello", "assistant: Good day"]]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 5000, b'{"messages": 7}', b'{"messages":[7]}'])
def test_a_body_that_is_no_request_is_passed_over(recorder, store, body):
    incoming = Incoming(method="POST", path="/v1/x", query=b"", headers=(), body=body)
    hear(recorder, incoming, "chat_completions", [b"{}"], headers=JSON)
    assert entries(store) == []


@pytest.mark.parametrize("body", [b"{", b"[" * 5000, b'{"messages":[{"role":"user","content":' + b"[" * 5000])
@pytest.mark.parametrize("status", [200, 400])
def test_who_is_answered_and_cannot_be_read_is_told_and_counted(recorder, body, status):
    async def exchange() -> bool:
        incoming = Incoming(method="POST", path="/v1/x", query=b"", headers=(), body=body)
        ear = listen(recorder, incoming)
        await asyncio.to_thread(ear._heard.result)
        ear.head(status, JSON)
        said = ear.said()
        await ear.commit()
        return (b"x-everlog-degraded", b"record") in said

    assert asyncio.run(exchange()) == (status == 200)
    assert recorder.counts == {"nothing": 1, **({"unread": 1} if status == 200 else {})}


def test_what_is_too_much_is_not_heard_and_counted(store, monkeypatch):
    read, go_on = store.read, threading.Event()
    monkeypatch.setattr(store, "read", lambda *args: (go_on.wait(20), read(*args))[1])
    recorder = recorder_of(store, waiting=1)
    first = listen(recorder, asked("anthropic", "Hello"))
    with pytest.raises(Busy):
        recorder.listen(asked("anthropic", "Hello"), "anthropic")
    go_on.set()
    first._heard.result()
    second = listen(recorder, asked("anthropic", "Hello"))
    for ear in (first, second):
        asyncio.run(ear.leave("upstream"))
    recorder.close()
    assert recorder.counts == {"refused": 1, "nothing": 2}


def test_more_bytes_of_requests_than_there_is_room_for_are_not_heard_and_counted(store):
    recorder = recorder_of(store, held_bytes=250_000)
    large = asked("anthropic", "w" * 100_000)

    async def exchanges() -> None:
        first, second = listen(recorder, large), listen(recorder, large)
        with pytest.raises(Busy, match="too large"):
            listen(recorder, large)
        small = listen(recorder, asked("anthropic", "Hello"))
        for ear in (first, second, small):
            await ear.leave("upstream")

        third = listen(recorder, large)
        assert [ear.held_bytes for ear in (first, second)] == [0, 0]
        await third.leave("upstream")

    asyncio.run(exchanges())
    recorder.close()
    assert recorder.counts == {"refused": 1, "nothing": 4}


@pytest.mark.parametrize("headers", [STREAM, JSON])
def test_an_answer_for_which_there_is_no_room_is_let_go_said_to_be_not_kept_and_counted(store, headers):
    recorder = recorder_of(store, held_bytes=3 * STEP)

    async def exchange() -> None:
        ear = listen(recorder, asked("anthropic", "Hello"))
        ear.head(200, headers)
        ear.piece(b'{"a": "')
        for _ in range(5):
            ear.piece(b"a" * STEP)
        assert ear.held_bytes < STEP
        assert (b"x-everlog-degraded", b"record") in ear.said()
        await ear.commit()

    asyncio.run(exchange())
    recorder.close()
    assert (recorder.counts, entries(store)) == ({"nothing": 1, "unread": 1}, [])


@pytest.mark.parametrize("many", [{"said": MOST_SAID + 1}, {"parts": MOST_SAID}], ids=["messages", "parts"])
def test_a_request_of_more_messages_than_a_conversation_has_is_not_kept_and_counted(store, many):
    recorder = recorder_of(store)
    parts = [{"type": "text", "text": "a"}] * many.get("parts", 1)
    body = {"model": "m", "messages": [{"role": "user", "content": parts}] * many.get("said", 1)}
    incoming = replace(asked("anthropic"), body=json.dumps(body).encode())
    hear(
        recorder,
        incoming,
        "anthropic",
        events_of(body_of(Answer(text="4711"), "anthropic", "m"), "anthropic", Manner()),
    )
    recorder.close()
    assert (recorder.counts, entries(store)) == ({"nothing": 1, "unread": 1}, [])


def test_large_requests_are_worked_on_one_after_the_other_and_hold_up_no_small_ones(store):
    at_work, go_on = [], threading.Event()

    def redact(message: Message) -> Message:
        if len(message.text) >= LARGE:
            at_work.append(message)
            go_on.wait(20)
        return message

    recorder = Recorder(store, tenant="t", caller=Caller(), redact=redact)
    large = asked("anthropic", "w" * LARGE)
    ears = [listen(recorder, large) for _ in range(THREADS)]
    listen(recorder, asked("anthropic", "Hello"))._heard.result(10)
    assert len(at_work) <= 1
    go_on.set()
    for ear in ears:
        asyncio.run(ear.leave("upstream"))
    recorder.close()


def test_of_a_stream_of_many_events_no_more_is_held_than_its_bytes_and_its_words(store):
    recorder = recorder_of(store)
    told = [*events_of(body_of(Answer(text="a" * 10_000), "anthropic", "m"), "anthropic", Manner(piece=1))]
    pieces = [b"".join(told[at : at + 100]) for at in range(0, len(told), 100)]
    size = sum(map(len, pieces))

    async def exchange() -> int:
        ear = listen(recorder, asked("anthropic", "Hello"))
        ear.head(200, STREAM)
        while pieces:
            ear.piece(pieces.pop(0))
        tracemalloc.start()
        await ear.commit()
        return tracemalloc.get_traced_memory()[1]

    try:
        peak = asyncio.run(exchange())
    finally:
        tracemalloc.stop()
    recorder.close()
    assert entries(store) == [["user: Hello", "assistant: " + "a" * 10_000]]
    assert peak < size / 2


def test_what_was_left_out_of_a_message_is_redacted_too(store):
    def redact(message: Message) -> Message:
        return replace(message, text=message.text.replace("4711", "****"))

    recorder = Recorder(store, tenant="t", caller=Caller(key="k"), redact=redact)
    text = "<system-reminder>The PIN is 4711.</system-reminder>\nIs it 4711?"
    incoming = asked("anthropic", text, headers=((b"user-agent", b"claude-cli/2.1"),))
    hear(
        recorder,
        incoming,
        "anthropic",
        [json.dumps(body_of(Answer(text="4711"), "anthropic", "m")).encode()],
        headers=JSON,
    )
    recorder.close()
    (thread,) = store.read("t", log.listed)
    said = store.read("t", lambda unit: log.read(unit, thread))
    assert [one.text for one in said] == ["Is it ****?", "****"]
    assert said[0].message.meta == {"left_out": ["<system-reminder>The PIN is ****.</system-reminder>"]}


def test_where_the_database_is_away_the_answer_says_so_and_the_failure_is_counted(recorder, store, monkeypatch):
    def away(*_, **__):
        raise StoreUnavailable("away")

    monkeypatch.setattr(store, "read", away)

    async def exchange() -> None:
        ear = listen(recorder, asked("anthropic", "Hello"))
        await asyncio.wait([asyncio.wrap_future(ear._heard)])
        ear.head(200, STREAM)
        assert (b"x-everlog-degraded", b"record") in ear.said()
        with pytest.raises(StoreUnavailable):
            await ear.commit()

    asyncio.run(exchange())
    assert recorder.counts == {"failed": 1}


def test_a_database_that_is_back_when_the_answer_is_there_has_all_of_it(recorder, store, monkeypatch):
    read = store.read
    tries = iter([StoreUnavailable("away")])

    def away_once(*args, **kwargs):
        for error in tries:
            raise error
        return read(*args, **kwargs)

    monkeypatch.setattr(store, "read", away_once)
    hear(
        recorder,
        asked("anthropic", "Hello"),
        "anthropic",
        [*events_of(body_of(Answer(text="Hi"), "anthropic", "m"), "anthropic")],
    )
    assert entries(store) == [["user: Hello", "assistant: Hi"]]


def test_each_answer_names_its_request_and_the_entries_name_it_too(recorder, store):
    async def exchange() -> bytes:
        ear = listen(recorder, asked("anthropic", "Hello"))
        request: bytes
        ear.head(200, JSON)
        ((_, request),) = ear.said()
        ear.piece(json.dumps(body_of(Answer(text="Hi"), "anthropic", "m")).encode())
        await ear.commit()
        return request

    request = asyncio.run(exchange())
    (thread,) = store.read("t", log.listed)
    said = store.read("t", lambda unit: log.read(unit, thread))
    assert {one.origin.request for one in said} == {request.decode()}
    assert [one.message.model for one in said] == [None, "m"]


def test_many_at_once_lose_and_double_nothing(store):
    recorder = recorder_of(store)

    async def exchange(n: int) -> None:
        headers = ((b"x-everlog-session-id", b"%d" % (n % 4)),)
        ear = listen(recorder, asked("anthropic", f"Hello {n}", headers=headers))
        ear.head(200, JSON)
        ear.piece(json.dumps(body_of(Answer(text=f"Hi {n}"), "anthropic", "m", n)).encode())
        await ear.commit()

    async def all_of_them() -> None:
        await asyncio.gather(*(exchange(n) for n in range(40)))

    asyncio.run(all_of_them())
    recorder.close()
    said = [line for thread in entries(store) for line in thread]
    assert sorted(said) == sorted(line for n in range(40) for line in (f"user: Hello {n}", f"assistant: Hi {n}"))


def test_the_name_of_a_thread_does_not_tell_that_somebody_else_has_a_session_of_that_name(store, recorder):
    headers = ((b"x-everlog-session-id", b"s1"),)
    events = list(events_of(body_of(Answer(text="Good day."), "anthropic", "m"), "anthropic"))
    hear(recorder, asked("anthropic", "Hello", headers=headers), "anthropic", events)
    other = recorder_of(store)
    other._caller = Caller(key="k2")
    hear(other, asked("anthropic", "Hello", headers=headers), "anthropic", events)
    other.close()
    names = [one.key for one in store.read("t", log.listed)]
    assert len(set(names)) == 2
    assert not any("~" in name for name in names)


def test_what_an_exchange_takes_is_added_to_its_thread_and_to_its_key(recorder, store):
    for _ in range(2):
        answer = Answer(text="Good day", input_tokens=100, cached_tokens=60, output_tokens=20)
        body = json.dumps(body_of(answer, "anthropic", "claude-sonnet-4-5")).encode()
        hear(
            recorder,
            asked("anthropic", "Hello", headers=((b"x-everlog-session-id", b"s"),)),
            "anthropic",
            [body],
            headers=JSON,
        )
    recorder.close()
    (thread,) = store.read("t", log.listed)
    spent = store.read("t", lambda unit: log.spent(unit, thread.id))[log.Purpose.TALK]
    assert (spent.requests, spent.tokens, spent.unpriced) == (2, 240, 0)
    used = store.read("t", lambda unit: access.used(unit, "k", store.clock.now()))
    assert (used.requests, used.tokens, used.nano_usd) == (2, 240, spent.nano_usd)
    assert spent.nano_usd > 0


def test_a_model_without_a_price_is_counted_as_unpriced(recorder, store):
    body = json.dumps(body_of(Answer(text="Good day"), "anthropic", "nobody-knows-it")).encode()
    hear(recorder, asked("anthropic", "Hello"), "anthropic", [body], headers=JSON)
    recorder.close()
    used = store.read("t", lambda unit: access.used(unit, "k", store.clock.now()))
    assert (used.requests, used.unpriced, used.tokens) == (1, 1, 120)


def test_where_the_provider_does_not_count_tokens_they_are_estimated(recorder, store):
    """A stream of Chat Completions has no usage unless the client asks for it; a limit holds all the same."""
    incoming = asked("chat_completions", "Hello " * 200)
    events = events_of(
        body_of(Answer(text="Good day"), "chat_completions", "m"), "chat_completions", Manner(usage=False)
    )
    hear(recorder, incoming, "chat_completions", list(events))
    recorder.close()
    used = store.read("t", lambda unit: access.used(unit, "k", store.clock.now()))
    assert used.tokens == (len(incoming.body) + len("Good day")) // 4


def test_a_window_that_names_no_session_is_told_what_would_help(recorder):
    async def headers(*texts: str, **wishes) -> set[bytes]:
        ear = listen(recorder, asked("anthropic", *texts, **wishes))
        await asyncio.wait([asyncio.wrap_future(ear._heard)])
        ear.head(200, STREAM)
        said = ear.said()
        await ear.leave("upstream")
        return {name for name, _ in said}

    assert b"x-everlog-hint" in asyncio.run(headers("And?", "So", "Why?"))
    assert b"x-everlog-hint" not in asyncio.run(headers("And?"))
    named = ((b"x-everlog-session-id", b"s"),)
    assert b"x-everlog-hint" not in asyncio.run(headers("And?", "So", "Why?", headers=named))


@pytest.mark.parametrize("name", [b"x-everlog-learning", b"x-infinitum-learning", b"x-context-learning"])
def test_a_client_can_have_nothing_learned_from_a_turn(recorder, store, name):
    from everlog.log import rows  # noqa: PLC0415 -- what no surface shows yet

    body = json.dumps(body_of(Answer(text="Good day"), "anthropic", "m")).encode()
    for headers in (((name, b"off"),), ()):
        hear(recorder, asked("anthropic", "Hello", headers=headers), "anthropic", [body], headers=JSON)
    first, second = store.read("t", log.listed)
    turns = [
        store.read("t", lambda unit, thread=thread: unit.rows(rows.TURNS, thread=thread.id, start=0, stop=9))
        for thread in (first, second)
    ]
    assert [row[5] for (row,) in turns] == [0, 1]


def by_id(after: str) -> Incoming:
    body = {"model": "m", "input": "And then?", "previous_response_id": after}
    return Incoming(method="POST", path="/v1/responses", query=b"", headers=(), body=json.dumps(body).encode())


def answered(recorder: Recorder, incoming: Incoming, number: int) -> Exchange:
    """Return an ear that has placed a request, and heard all of an answer of this number."""
    ear = recorder.listen(incoming, "responses")
    assert ear is not None
    ear._heard.result()
    ear.head(200, JSON)
    ear.piece(json.dumps(body_of(Answer(text=f"Answer {number}."), "responses", "m", number)).encode())
    return ear


@pytest.mark.parametrize("next_one", [by_id("resp_1"), asked("responses", "Hello", "Answer 1.", "And then?")])
def test_a_request_behind_an_answer_that_is_still_being_kept_goes_on_there(store, next_one):
    """A client whose answer was not held long enough asks on before there is a thread."""
    may_go_on = threading.Event()

    def redact(message: Message) -> Message:
        assert message.text != "Answer 1." or message.model is None or may_go_on.wait(20)
        return message

    recorder = Recorder(store, tenant="t", caller=Caller(key="k"), redact=redact)

    async def talk() -> None:
        ears = answered(recorder, asked("responses", "Hello"), 1), answered(recorder, next_one, 2)
        tasks = [asyncio.create_task(ear.commit()) for ear in ears]
        done, _ = await asyncio.wait(tasks, timeout=0.2)
        assert not done
        may_go_on.set()
        await asyncio.gather(*tasks)

    asyncio.run(talk())
    recorder.close()
    assert entries(store) == [["user: Hello", "assistant: Answer 1.", "user: And then?", "assistant: Answer 2."]]
    assert recorder.counts == {"new": 1, "append": 1}
