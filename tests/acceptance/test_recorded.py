"""The official clients through a proxy that records: afterwards the log holds each message once."""

import json
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
from everlog.testing.upstream import Answer, Cut, Refused
from tests.acceptance.proxies import Stage
from tests.acceptance.talks import (
    async_chat_talk,
    chained_talk,
    chat_talk,
    claude,
    claude_talk,
    held_talk,
    open_ai,
    responses_talk,
    talking,
    told,
)


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
    options = Options(targets=(Target(base_url=stage.upstream.url),), mode="record")
    server = Server(App(options, ears=Keeping(recorder, options), door=door))
    socket = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, args=([socket],))
    thread.start()
    assert server.is_ready.wait(20)
    yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    server.should_exit = True
    thread.join(20)


def threads(store: Store) -> list[list[tuple[str, Any]]]:
    return [
        [
            (one.kind, json.loads(one.message.call.arguments) if one.message.call is not None else one.text)
            for one in store.read("t", partial(log.read, thread=thread))
        ]
        for thread in store.read("t", log.listed)
    ]


TALKS = [chat_talk, async_chat_talk, responses_talk, chained_talk, held_talk, claude_talk]


@pytest.mark.parametrize("talk", TALKS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("turns", [4, pytest.param(60, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def test_a_talk_with_tools_is_as_without_a_proxy_and_the_log_holds_each_message_once(
    stage: Stage, proxy: str, store: Store, recorder: Recorder, talk: Any, stream: bool, turns: int
):
    """The limit of time is for `responses_talk`: the client goes through all types for each item, 20 s of CPU in 60 turns."""
    came = talk(stage.play(talking).url.removesuffix("/v1"), turns, stream=stream)
    asked = [one.raw for one in stage.upstream.requests]
    upstream = stage.play(talking)
    assert talk(proxy, turns, stream=stream) == came
    assert [one.raw for one in upstream.requests] == asked
    assert len(asked) == 2 * turns
    recorder.close()
    assert threads(store) == [told(turns)]
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
    assert first[0] == second[0] == ("user", "The sea?")
    assert second[1] == ("assistant", "The sea is cold")


def test_what_was_refused_and_is_tried_again_is_there_once(stage: Stage, proxy: str, store: Store, recorder: Recorder):
    stage.play([Refused(status=529, message="busy"), Answer(text="Good day")])
    client = claude(proxy).with_options(max_retries=2)
    client.messages.create(model="m-1", max_tokens=99, messages=[{"role": "user", "content": "Hello"}])
    recorder.close()
    assert threads(store) == [[("user", "Hello"), ("assistant", "Good day")]]
    assert recorder.counts == {"nothing": 1, "new": 1}
