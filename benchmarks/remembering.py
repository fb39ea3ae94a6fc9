"""What memory costs a request of the proxy whose history outgrew its budget, without any HTTP: parsing, placing, keeping what
is new, compiling the prompt, making and encoding the body; and keeping the answer.

CPU of the whole process. A megabyte of history is sent again and again, with one more turn each time.
"""

import json

from benchmarks._sheet import Sheet, Times, fill
from benchmarks._stock import engine, folder, words
from everlog.conversation.alignment.exchanges import record
from everlog.conversation.alignment.presence import Presence
from everlog.conversation.alignment.values import Answer, Caller
from everlog.conversation.database import Everlog
from everlog.messages import Message
from everlog.protocols import FORMATS
from everlog.protocols.shapes import encoded
from everlog.pump import compactor_of
from everlog.store import open_store
from everlog.surfaces.proxy.recording.ear import Heard
from everlog.surfaces.proxy.recording.exchanges import body_of, parse_request
from everlog.surfaces.proxy.recording.profiles import profile_of
from everlog.surfaces.proxy.recording.profiles.rules import Facts
from everlog.surfaces.proxy.remembering.building import Builder
from everlog.surfaces.proxy.remembering.learned import Learned
from everlog.surfaces.proxy.remembering.prefixes import laid
from everlog.surfaces.proxy.remembering.preparing import Asking, Prepared, Preparing
from everlog.surfaces.proxy.remembering.totals import Totals
from everlog.surfaces.proxy.settings.options import Target

CHAT = FORMATS["chat_completions"]
MB = 1_000_000
BUDGET = 20_000
RESENT = "1 MB, 500 messages, 20,000 tokens"


class Server:
    """Does what the proxy's threads do for a request in mode tree."""

    def __init__(self, home: Everlog) -> None:
        self.home = home
        builder = Builder(home.store, compactor_of("extractive"), Totals())
        self.preparing = Preparing(home.store, builder, Learned(), redact=home.redact)
        target = Target(base_url="http://localhost/v1")
        self.asking = Asking(tenant=home.name, protocol=CHAT, target=target, mode="tree", budget_tokens=BUDGET)

    def hear(self, raw: bytes) -> Heard:
        """Parse and place a request."""
        body = body_of(raw) or {}
        request, history = parse_request(CHAT, (), body, caller=Caller(is_one_person=True), request="0" * 32)
        presence = Presence(request, self.home.redact)
        self.home.store.read(self.home.name, presence.place)
        return Heard(
            request=request,
            presence=presence,
            is_stored=False,
            body=body,
            came=body,
            profile=profile_of(Facts((), body, ())),
            history=history,
        )

    def keep(self, heard: Heard, answer: str) -> None:
        """Keep an answer with its request."""
        said = Answer(messages=(Message(kind="assistant", text=answer, model="m"),))
        record(self.home.store, self.home.name, heard.request, said, redact=self.home.redact, presence=heard.presence)

    def exchange(self, raw: bytes, answer: str) -> int:
        """Do all of it; return the bytes that go up."""
        heard = self.hear(raw)
        found = self.preparing.prepare(heard, self.asking, lambda: None)
        assert isinstance(found, Prepared), found
        laid(CHAT.name, found.body)
        sent = encoded(found.body)
        self.keep(heard, answer)
        return len(sent)

    def recorded(self, raw: bytes, answer: str) -> None:
        """Do what mode record does of it."""
        self.keep(self.hear(raw), answer)


def measure(sheet: Sheet) -> None:
    """Measure it on SQLite."""
    took = []
    for name in ("recorded", "exchange"):
        with folder() as place, Everlog(open_store(place / "everlog.db")) as home:
            took.append(_resent(home, name, sheet.pick(24, 3)))
    kept, all_of_it = took
    sheet.row("a resent history in mode record", RESENT, engine(), kept, "ms/MB", at_most=15)
    sheet.row("what mode tree adds", RESENT, engine(), all_of_it - kept, "ms/MB", at_most=15)
    with folder() as place, Everlog(open_store(place / "everlog.db")) as home:
        _talk(sheet, home)


def _asked(history: list[dict[str, str]]) -> bytes:
    return json.dumps({"model": "m", "messages": history}).encode()


def _resent(home: Everlog, act: str, turns: int) -> float:
    """Return the milliseconds that a megabyte takes."""
    server, times = Server(home), Times()
    history = [{"role": ("user", "assistant")[n % 2], "content": words(9000 + n, 2000)} for n in range(500)]
    for n in range(turns):
        history.append({"role": "user", "content": words(n, 100)})
        answer = words(20_000 + n, 100)
        if n:
            times.take(getattr(server, act), _asked(history), answer)
        else:
            getattr(server, act)(_asked(history), answer)
            _build(home)
        history.append({"role": "assistant", "content": answer})
    return times.cpu_ms(0.25) * MB / len(_asked(history))


def _build(home: Everlog) -> None:
    for thread in home.threads():
        home.thread(str(thread.key)).pump()


def _talk(sheet: Sheet, home: Everlog) -> None:
    """Go on with a talk a bit longer than its budget."""
    server, times = Server(home), Times()
    history = [{"role": ("user", "assistant")[n % 2], "content": words(9000 + n, 500)} for n in range(200)]
    for n in range(sheet.pick(60, 3)):
        history.append({"role": "user", "content": words(n, 400)})
        answer = words(20_000 + n, 400)
        times.take(server.exchange, _asked(history), answer)
        history.append({"role": "assistant", "content": answer})
        if n % 10 == 0:
            _build(home)
    sheet.row("a request in mode tree", "100 KB of history, 20,000 tokens", engine(), times.cpu_ms(0.5), "ms")


if __name__ == "__main__":
    raise SystemExit(fill("remembering", measure))
