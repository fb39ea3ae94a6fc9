"""The official clients through a proxy that records: afterwards the log holds each message once."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import openai
import pytest
import uvicorn

from everlog import log
from everlog.access import LOOPBACK
from everlog.conversation.alignment.values import Caller
from everlog.store import Store, open_store
from everlog.surfaces.proxy.admission import Door
from everlog.surfaces.proxy.application import App
from everlog.surfaces.proxy.recording.recorder import Recorder
from everlog.surfaces.proxy.running import Keeping
from everlog.surfaces.proxy.serving import listen
from everlog.surfaces.proxy.settings.options import Options, Target
from everlog.testing.upstream import Answer, Cut, Received, Refused
from tests.acceptance.proxies import Stage
from tests.acceptance.talks import chat_talk, claude, claude_talk, open_ai, responses_talk


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    with stage.upstream:
        yield stage


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "everlog.db") as store:
        yield store


@pytest.fixture
def recorder(store: Store) -> Iterator[Recorder]:
    recorder = Recorder(store, tenant="t", caller=Caller(key="k"), redact=lambda message: message)
    yield recorder
    recorder.close()


class Server(uvicorn.Server):
    def __init__(self, app: App) -> None:
        super().__init__(uvicorn.Config(app, log_config=None, lifespan="on"))
        self.is_ready = threading.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.is_ready.set()


@pytest.fixture
def proxy(stage: Stage, recorder: Recorder) -> Iterator[str]:
    """The address of a proxy that records, on a loop in a thread of its own."""
    door = Door(None, local=replace(LOOPBACK, tenant="t", one_person=False))
    server = Server(App(Options(targets=(Target(base_url=stage.upstream.url),)), ears=Keeping(recorder), door=door))
    socket = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, args=([socket],))
    thread.start()
    assert server.is_ready.wait(20)
    yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    server.should_exit = True
    thread.join(20)


def threads(store: Store) -> list[list[str]]:
    return [
        [f"{one.kind}: {one.text}" for one in store.read("t", partial(log.read, thread=thread))]
        for thread in store.read("t", log.listed)
    ]


def talking(received: Received) -> Answer:
    """Call a tool for a question, and say something to its result; each answer is another one."""
    number = received.raw.count(b'"role":"user"') + received.raw.count(b"tool_call_id")
    if b"What is in my notes?" in received.raw.rpartition(b'"role":"')[2]:
        calls: Any = ((f"call_{len(received.raw)}", "read", {"path": "notes.txt"}),)
        return Answer(text=f"Let me look, {number}.", thinking="Where?", calls=calls)
    return Answer(text=f"Milk, {number}. " * 12, cached_tokens=64)


@pytest.mark.parametrize("talk", [chat_talk, responses_talk, claude_talk])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("turns", [4, pytest.param(60, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def test_after_a_talk_with_tools_the_log_holds_each_message_once(
    stage: Stage, proxy: str, store: Store, recorder: Recorder, talk: Any, stream: bool, turns: int
):
    upstream = stage.play(talking)
    talk(proxy, turns, stream=stream)
    recorder.close()
    (thread,) = threads(store)
    kinds = [line.partition(":")[0] for line in thread]
    assert kinds == ["user", "assistant", "tool_call", "tool_result", "assistant"] * turns
    answers = [line for line in thread if line.startswith("assistant")]
    assert len(set(answers)) == len(answers) == len(upstream.requests)
    assert recorder.counts == {"new": 1, "append": 2 * turns - 1}


def test_an_answer_that_is_cut_is_kept_as_far_as_it_came_and_asked_again_it_is_another_branch(
    stage: Stage, proxy: str, store: Store, recorder: Recorder
):
    stage.play([Cut(answer=Answer(text="The sea is warm today"), events=5), Answer(text="The sea is cold")])
    body: Any = {"model": "m-1", "messages": [{"role": "user", "content": "The sea?"}]}
    client = open_ai(proxy, default_headers={"X-Everlog-Session-ID": "s"})
    with pytest.raises(openai.APIConnectionError), client.chat.completions.stream(**body) as events:
        events.get_final_completion()
    client.chat.completions.create(**body)
    recorder.close()
    first, second = threads(store)
    assert first[0] == second[0] == "user: The sea?"
    assert second[1] == "assistant: The sea is cold"


def test_what_was_refused_and_is_tried_again_is_there_once(stage: Stage, proxy: str, store: Store, recorder: Recorder):
    stage.play([Refused(status=529, message="busy"), Answer(text="Good day")])
    client = claude(proxy).with_options(max_retries=2)
    client.messages.create(model="m-1", max_tokens=99, messages=[{"role": "user", "content": "Hello"}])
    recorder.close()
    assert threads(store) == [["user: Hello", "assistant: Good day"]]
    assert recorder.counts == {"nothing": 1, "new": 1}
