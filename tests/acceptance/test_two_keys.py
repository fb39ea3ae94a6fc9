"""Two keys on one proxy, whatever they do and in whatever order: neither meets a row, or the existence, of the other's."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

import everlog
from everlog import access
from everlog.conversation.alignment.values import Caller
from everlog.surfaces.api.operations import OPERATIONS
from everlog.surfaces.proxy.admission import Door
from everlog.surfaces.proxy.application import App
from everlog.surfaces.proxy.front import Front
from everlog.surfaces.proxy.metrics import Metrics
from everlog.surfaces.proxy.pages import Site
from everlog.surfaces.proxy.recording.recorder import Recorder
from everlog.surfaces.proxy.running import Keeping
from everlog.surfaces.proxy.serving import listen
from everlog.surfaces.proxy.settings.options import Options, Target
from everlog.testing.upstream import Answer, Received
from tests.acceptance.proxies import Stage

WHO = ("ann", "bob")
SESSIONS = ("s1", "s2")
QUERIES = {"zoom": "?id=0", "search": "?q=word"}


class Server(uvicorn.Server):
    def __init__(self, app: Any) -> None:
        super().__init__(uvicorn.Config(app, log_config=None, lifespan="on"))
        self.is_ready = threading.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.is_ready.set()


class Proxy:
    """A proxy that asks for keys, over real HTTP."""

    def __init__(self, path: Path, stage: Stage) -> None:
        self.stage = stage
        self.home = everlog.open(path)
        store = self.home.store
        self.recorder = Recorder(store, tenant="default", caller=Caller(), redact=self.home.redact)
        door = Door(store, local=None)
        self.app = App(
            Options(targets=(Target(base_url=self.stage.upstream.url),), mode="record"),
            ears=Keeping(self.recorder),
            door=door,
        )
        site = Site(app=self.app, metrics=Metrics(), store=store, recorder=self.recorder)
        self.server = Server(Front(self.app, door=door, site=site))
        self.socket = listen("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],))
        self.thread.start()
        assert self.server.is_ready.wait(20)

    def key(self) -> str:
        made = self.home.store.write("default", partial(access.create), name="test")
        return made.token

    def ask(self, path: str, token: str, body: Any = None, method: str = "", **headers: str) -> tuple[int, bytes]:
        given = {"x-everlog-key": token, "content-type": "application/json"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(self.url + path, data, given, method=method or None)
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read()

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join(20)
        self.recorder.close()
        self.home.close()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    stage = Stage()
    with stage.upstream:
        proxy = Proxy(tmp_path_factory.mktemp("two") / "everlog.db", stage)
        yield proxy
        proxy.close()


def echo(received: Received) -> Answer:
    """Answer with the number of messages, the same to everybody who says the same."""
    return Answer(text=f"Answer {len(received.raw)}.")


class TwoKeys(RuleBasedStateMachine):
    proxy: Proxy

    @initialize()
    def begin(self) -> None:
        self.proxy.stage.play(echo)
        self.tokens = {who: self.proxy.key() for who in WHO}
        self.said: dict[str, list[Any]] = {who: [] for who in WHO}
        self.threads: dict[str, set[str]] = {who: set() for who in WHO}
        self.requests: dict[str, set[str]] = {who: set() for who in WHO}

    def ask(self, who: str, path: str, body: Any = None, **more: Any) -> tuple[int, bytes]:
        return self.proxy.ask(path, self.tokens[who], body, **more)

    @rule(who=st.sampled_from(WHO), session=st.sampled_from(SESSIONS), anew=st.booleans(), n=st.integers(0, 2))
    def chat(self, who: str, session: str, anew: bool, n: int) -> None:
        """Both say the same words in sessions of the same names; what tells them apart is their key."""
        if anew:
            self.said[who] = []
        self.said[who].append({"role": "user", "content": f"word {n}"})
        body = {"model": "m", "messages": self.said[who]}
        status, answer = self.ask(who, "/v1/chat/completions", body, x_session_id=session)
        assert status == 200
        self.said[who].append({"role": "assistant", "content": json.loads(answer)["choices"][0]["message"]["content"]})
        self.look(who)

    @rule(who=st.sampled_from(WHO))
    def look(self, who: str) -> None:
        """What somebody is shown is theirs, and nobody else was ever shown it."""
        threads = {one["key"] for one in json.loads(self.ask(who, "/everlog/v1/threads")[1])["threads"]}
        requests = {one["id"] for one in json.loads(self.ask(who, "/everlog/v1/requests")[1])["requests"]}
        self.threads[who] |= threads
        self.requests[who] |= requests
        assert not self.threads["ann"] & self.threads["bob"]
        assert not self.requests["ann"] & self.requests["bob"]
        for key in threads:
            assert self.ask(who, f"/everlog/v1/threads/{key}")[0] == 200

    @precondition(lambda self: any(self.threads.values()))
    @rule(operation=st.sampled_from(OPERATIONS), query=st.booleans())
    def pry(self, operation: Any, query: bool) -> None:
        """Of what is the other's, each route says what it says of what is not there."""
        for who, other in (WHO, WHO[::-1]):
            field = "id" if "{id}" in operation.path else "key"
            theirs = self.requests[other] if field == "id" else self.threads[other]
            if "{" not in operation.path:
                told = self.ask(who, f"/everlog/v1{operation.path}?limit=1000", method=operation.method)[1]
                assert not [one for one in (*self.threads[other], *self.requests[other]) if one.encode() in told]
                continue
            for name in sorted(theirs)[:2]:
                found = []
                unknown = "f" * len(name)
                for one in (name, unknown):
                    path = f"/everlog/v1{operation.path.format(**{field: one})}"
                    suffix = QUERIES.get(operation.name, "") if query else ""
                    status, body = self.ask(who, path + suffix, method=operation.method)
                    found.append((status, body.replace(one.encode(), b"")))
                assert found[0] == found[1]
                assert found[0][0] in {400, 403, 404}

    @rule(
        who=st.sampled_from(WHO),
        path=st.sampled_from(["/events", "/metrics", "/everlog/v1/stats", "/everlog/v1/events"]),
    )
    def pages(self, who: str, path: str) -> None:
        """What is about everybody is not for keys that may only chat."""
        assert self.ask(who, path)[0] == 403


def test_two_keys_never_meet(proxy: Proxy):
    machine = type("Machine", (TwoKeys,), {"proxy": proxy})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=8, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
