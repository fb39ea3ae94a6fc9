"""Conversations of real clients, played to the recorder: what each request sends, and what becomes of it.

A story is one file of `tests/corpus/clients`. Its `protocol`, `headers` and `body` hold for all of its requests, each of
which may add to them. `send` is the history, in items of the wire; a text such as "user: Hello" is a plain message,
`{"sent": [a, b]}` repeats items of the request before (or of request `of`), and `{"answered": n}` is what the model
answered to request n, as the client sends it again. `answer` is what it answers now: a text, or a list of `{"text"}` and
`{"call"}`; `outcome` is `complete`, `partial`, `aborted`, or `refused` where there was no answer.

`expect` names what is decided and the thread, by the number in which it was made: `new`, `append`, `fork` (`as` what),
`regenerated`, `compacted`, `nothing`, `side`; `said` is how many messages of the request were new. `entries` is each
thread at the end: how many, or what it holds.
"""

import json
from pathlib import Path
from typing import Any

from everlog import log
from everlog.conversation.alignment.exchanges import record
from everlog.conversation.alignment.presence import Presence
from everlog.conversation.alignment.values import Answer, Caller, Recorded, Request
from everlog.conversation.remembering.asking import ask
from everlog.conversation.remembering.wire import Wire
from everlog.log import TurnState
from everlog.messages import Entry
from everlog.protocols import FORMATS
from everlog.protocols.exchange import said
from everlog.store import Store
from everlog.surfaces.proxy.recording.exchanges import parse_answer, parse_exchange
from everlog.testing.upstream.answers import Answer as Scripted
from everlog.testing.upstream.answers import body_of

CORPUS = sorted((Path(__file__).parents[2] / "corpus" / "clients").glob("*.json"))

MODEL = "model-1"


class Story:
    """A story as it goes on."""

    def __init__(self, path: Path, store: Store, tenant: str = "t", *, asks: bool = False) -> None:
        """Begin one; `asks` says whether requests are kept before they are answered, as where memory makes others of them."""
        self.asks = asks
        self.found = json.loads(path.read_text("utf-8"))
        self.protocol = self.found["protocol"]
        self.format = FORMATS[self.protocol]
        self.store, self.tenant = store, tenant
        self.sent: list[list[Any]] = []
        self.answers: list[dict[str, Any]] = []
        self.threads: list[str] = []

    def play(self) -> None:
        """Send each request, and make sure that what becomes of it is what is stated."""
        for number, step in enumerate(self.found["requests"]):
            request = self.request(number, step)
            answer = self.answer(number, step)
            presence = self.asked(request) if self.asks and answer is not None else None
            if answer is None:
                assert step["expect"] == {}
                continue
            done = record(self.store, self.tenant, request, answer, redact=lambda message: message, presence=presence)
            assert self.stated(step, done) == step["expect"], f"request {number} of {self.found['title']}"
        assert len(self.threads) == len(self.found["entries"])
        for thread, entries in zip(self.threads, self.found["entries"], strict=True):
            there = self.entries(thread)
            assert (len(there) if isinstance(entries, int) else [_line(one) for one in there]) == entries

    def asked(self, request: Request) -> Presence:
        """Keep a request before its answer, unless it is beside the conversation."""
        presence = Presence(request, lambda message: message)
        self.store.read(self.tenant, presence.place)
        if not request.is_side:
            wire = Wire.of(said(request.messages), lambda message: message)
            ask(self.store, self.tenant, request, presence, wire)
        return presence

    def request(self, number: int, step: dict[str, Any]) -> Request:
        items = [item for form in step["send"] for item in self._items(form)]
        self.sent.append(items)
        place = "input" if self.protocol == "responses" else "messages"
        body = {"model": MODEL, **self.found.get("body", {}), **step.get("body", {}), place: items}
        names = {**self.found.get("headers", {}), **step.get("headers", {})}
        headers = tuple((name.lower().encode(), value.encode()) for name, value in names.items() if value is not None)
        caller = Caller(key=step.get("key", "k"), is_one_person=self.found.get("one_person", False))
        return parse_exchange(
            self.format, headers, json.loads(json.dumps(body)), caller=caller, request=f"request-{number}"
        )

    def answer(self, number: int, step: dict[str, Any]) -> Answer | None:
        said = step.get("answer", "")
        pieces = [{"text": said}] if isinstance(said, str) else said
        scripted = Scripted(
            text="\n".join(piece["text"] for piece in pieces if "text" in piece),
            calls=tuple((c[0], c[1], c[2]) for piece in pieces if (c := piece.get("call"))),
        )
        body = body_of(scripted, self.protocol, MODEL, number)
        self.answers.append(body)
        outcome = step.get("outcome", "complete")
        if outcome == "refused":
            return None
        if outcome == "aborted":
            return Answer(state=TurnState.ABORTED)
        reply = self.format.parse_reply(body)
        is_stored = {**self.found.get("body", {}), **step.get("body", {})}.get("store") is not False
        return parse_answer(reply, is_whole=outcome == "complete", is_stored=is_stored and self.protocol == "responses")

    def stated(self, step: dict[str, Any], done: Recorded) -> dict[str, Any]:
        """Return what became of a request, in the words of the corpus."""
        if done.decision == "new":
            assert done.thread is not None
            self.threads.append(done.thread)
            return {"new": len(self.threads) - 1, "said": done.said}
        if done.thread is None or done.decision in ("nothing", "side"):
            return {done.decision: None if done.thread is None else self._number(done.thread)}
        if done.decision in ("fork", "regenerated"):
            parent = self.store.read(self.tenant, lambda unit: log.load(unit, done.thread or "").parent)
            self.threads.append(done.thread)
            made = {"as": len(self.threads) - 1}
            said = {"said": done.said} if done.decision == "fork" else {}
            return {done.decision: self._number(parent or ""), **made, **said}
        return {done.decision: self._number(done.thread), "said": done.said}

    def entries(self, thread: str) -> list[Entry]:
        return self.store.read(self.tenant, lambda unit: log.read(unit, log.load(unit, thread)))

    def _number(self, thread: str) -> int:
        return self.threads.index(thread)

    def _items(self, form: Any) -> list[Any]:
        if isinstance(form, str):
            role, text = form.split(": ", 1)
            return [self._message(role, text)]
        if "sent" in form:
            begin, *end = form["sent"]
            return self.sent[form.get("of", -1)][slice(begin, *(end or [None]))]
        if "answered" in form:
            return _again(self.protocol, self.answers[form["answered"]])
        return [form]

    def _message(self, role: str, text: str) -> dict[str, Any]:
        if self.protocol == "responses":
            kind = "output_text" if role == "assistant" else "input_text"
            return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
        return {"role": role, "content": text}


def _again(protocol: str, body: dict[str, Any]) -> list[Any]:
    match protocol:
        case "chat_completions":
            message = body["choices"][0]["message"]
            return [{name: value for name, value in message.items() if name != "refusal"}]
        case "responses":
            return list(body["output"])
        case _:
            return [{"role": "assistant", "content": body["content"]}]


def _line(entry: Entry) -> str:
    return f"{entry.kind}: {entry.text}"
