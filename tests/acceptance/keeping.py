"""A proxy with all its pages in this process, over real HTTP, on a database that a test can reach into."""

import json
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import uvicorn

import everlog
from everlog import access
from everlog.access import LOOPBACK, Principal
from everlog.conversation.alignment.values import Caller
from everlog.surfaces.proxy.admission import Door
from everlog.surfaces.proxy.application import App
from everlog.surfaces.proxy.front import Front
from everlog.surfaces.proxy.metrics import Metrics
from everlog.surfaces.proxy.pages import Site
from everlog.surfaces.proxy.recording.recorder import WAITING, Recorder
from everlog.surfaces.proxy.relay.hearing import HOLD_S
from everlog.surfaces.proxy.running import Keeping
from everlog.surfaces.proxy.serving import listen
from everlog.surfaces.proxy.settings.options import Options, Target
from everlog.testing.upstream import Upstream


@dataclass(frozen=True, slots=True)
class Said:
    """An answer."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    """By name, in lower case."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class _Server(uvicorn.Server):
    def __init__(self, app: Any) -> None:
        super().__init__(uvicorn.Config(app, log_config=None, lifespan="on"))
        self.is_ready = threading.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.is_ready.set()


class Keeper:
    """A proxy that keeps what goes through it."""

    def __init__(
        self,
        home: "everlog.Everlog",
        upstream: Upstream,
        *,
        local: Principal | None = LOOPBACK,
        waiting: int = WAITING,
        hold_s: float = HOLD_S,
    ) -> None:
        """Begin to serve; the database is closed at the end."""
        self.home = home
        self.upstream = upstream
        self.recorder = Recorder(home.store, tenant="default", caller=Caller(), redact=home.redact, waiting=waiting)
        self.door = door = Door(home.store, local=local)
        options = Options(targets=(Target(base_url=upstream.url),), mode="record")
        self.app = App(options, ears=Keeping(self.recorder, options), door=door, hold_s=hold_s)
        site = Site(app=self.app, metrics=Metrics(), store=home.store, recorder=self.recorder)
        self._server = _Server(Front(self.app, door=door, site=site))
        listening = listen("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._server.run, args=([listening],))
        self._thread.start()
        assert self._server.is_ready.wait(20)

    def key(self, tenant: str = "default", **wishes: Any) -> str:
        """Return a new key."""
        return self.home.store.write(tenant, partial(access.create, **wishes), name="test").token

    def ask(self, path: str, token: str | None, body: Any = None, method: str = "", **headers: str) -> Said:
        """Ask with a key, and return the answer, whatever it is."""
        given = {"content-type": "application/json"} | ({} if token is None else {"x-everlog-key": token})
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        asked = urllib.request.Request(self.url + path, data, given, method=method or None)
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                return _said(answer)
        except urllib.error.HTTPError as refused:
            with refused:
                return _said(refused)

    def close(self) -> None:
        """Stop, and close the database."""
        self._server.should_exit = True
        self._thread.join(60)
        self.recorder.close()
        self.home.close()


def _said(answer: Any) -> Said:
    return Said(answer.status, answer.read(), {name.lower(): value for name, value in answer.headers.items()})
