"""Rounds of Chat Completions as one answer: the head of the first in all chunks, calls of ours left out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from everlog.messages import JSON
from everlog.protocols.chat_completions import FORMAT
from everlog.protocols.exchange import CallDelta, Delta, TextDelta
from everlog.protocols.shapes import Record, array, dumps, loads, record, string
from everlog.protocols.sse import Event, render_event
from everlog.surfaces.proxy.hidden.telling import Ending, Failing, Ours, as_came

HEAD = ("id", "object", "created", "model", "system_fingerprint")
"""What tells an answer from others."""

TEXTS = ("content", "refusal", "reasoning_content", "reasoning")

_SIGNS = ('"tool_calls"', '"error"', '"role"')
"""What chunks have that need a look."""

_GOES_ON = ('"finish_reason":null', '"finish_reason": null')
"""What those have that do not end a round."""

_EMPTY: tuple[JSON, ...] = (None, "", [])


@dataclass(slots=True)
class _Seen:
    """A call of the round under way."""

    held: list[Record] = field(default_factory=list)
    """Pieces that came before its name was known."""
    is_ours: bool | None = None
    number: int = 0
    """The client's, if it is the client's."""


class ChunkTeller:
    """The one answer."""

    def __init__(self, ours: Ours, *, is_plural: bool) -> None:
        self._ours = ours
        self._is_plural = is_plural
        """Whether several answers were asked for: then there are no calls of ours, and only the very end is withheld."""
        self._head: Record = {}
        self._is_first = True
        self._is_moved = False
        """Whether calls of the client have other numbers than the upstream gave them."""
        self._calls_told = 0
        """How many calls the client has."""
        self._calls: dict[int, _Seen] = {}
        self._last: dict[str, str] = {}
        """The last letter of each text."""
        self._grown: set[str] = set()
        """Texts that have grown in this round."""
        self._items: dict[str, int] = {}
        """How many numbered items each list has."""
        self._shifts: dict[str, int] = {}
        """How many it had when the round began."""
        self._withheld: list[Event] = []

    def begin(self) -> None:
        self._is_first = False
        self._is_moved = True
        self._calls, self._grown, self._withheld = {}, set(), []
        self._shifts = dict(self._items)

    def feed(self, event: Event, deltas: Sequence[Delta]) -> bytes:
        if self._withheld or event.data == "[DONE]":
            self._withheld.append(event)
            return b""
        if self._is_plural or self._is_plain(event.data, deltas):
            return as_came(event)
        chunk = record(loads(event.data))
        if FORMAT.parse_fault(chunk) is not None:
            self._withheld.append(event)
            return b""
        if self._is_first:
            self._head |= {name: chunk[name] for name in HEAD if chunk.get(name) is not None}
        choices = array(chunk.get("choices"))
        if not choices:
            return self._beside(event, chunk)
        return self._chunk(event, chunk, record(choices[0]), [one for one in deltas if isinstance(one, CallDelta)])

    def _is_plain(self, data: str, deltas: Sequence[Delta]) -> bool:
        """Whether a chunk adds to the words of the first round and no more, as most do; these need not be parsed."""
        if not (self._is_first and self._head) or len(deltas) != 1 or any(sign in data for sign in _SIGNS):
            return False
        words = deltas[0]
        if not isinstance(words, TextDelta) or words.refusal or not any(sign in data for sign in _GOES_ON):
            return False
        self._last["content"] = words.text[-1:]
        return True

    def _beside(self, event: Event, chunk: Record) -> bytes:
        """Tell a chunk that adds nothing to the choices; in later rounds only if there is more than a head in it."""
        if self._is_first or not chunk:
            return as_came(event)
        return render_event(dumps(self._headed(chunk))) if chunk.keys() - {*HEAD, "choices", "usage"} else b""

    def _chunk(self, event: Event, chunk: Record, choice: Record, calls: list[CallDelta]) -> bytes:
        """Tell what a chunk adds, and withhold what it says of the end."""
        before = record(choice.get("delta"))
        is_last = bool(string(choice.get("finish_reason")))
        delta = self._delta(before, calls, is_last=is_last)
        is_same = self._is_first and delta == before
        says = any(value not in _EMPTY for name, value in delta.items() if name != "role")
        if not is_last:
            if is_same:
                return as_came(event)
            says = says or "role" in delta or (bool(choice.get("logprobs")) and "tool_calls" not in before)
            return self._told(chunk, {**choice, "delta": delta}) if says else b""
        if is_same and not says:
            self._withheld.append(event)
            return b""
        self._withheld.append(Event(dumps({**chunk, "choices": [{**_without(choice, "logprobs"), "delta": {}}]})))
        piece = {**choice, "delta": delta, "finish_reason": None}
        return self._told(_without(chunk, "usage"), piece) if says or "role" in delta else b""

    def _told(self, chunk: Record, choice: Record) -> bytes:
        return render_event(dumps(self._headed({**chunk, "choices": [choice]})))

    def _headed(self, chunk: Record) -> Record:
        """Return a chunk with the head of the first round."""
        if self._is_first:
            return chunk
        return self._head | {name: value for name, value in chunk.items() if name not in HEAD}

    def _delta(self, before: Record, calls: list[CallDelta], *, is_last: bool) -> Record:
        """Return what of a piece is for the client, joined to what it has."""
        delta: Record = {}
        for name, value in before.items():
            if name == "tool_calls" or (name == "role" and not self._is_first):
                continue
            if name in TEXTS:
                if text := string(value):
                    delta[name] = self._joined(name, text)
                elif self._is_first:
                    delta[name] = value
            else:
                delta[name] = self._listed(name, value) if isinstance(value, list) else value
        given = array(before.get("tool_calls"))
        if pieces := self._pieces(list(map(record, given)), calls, is_last=is_last):
            delta["tool_calls"] = pieces
        elif "tool_calls" in before and not given:
            delta["tool_calls"] = before["tool_calls"]
        return delta

    def _joined(self, name: str, text: str) -> str:
        """Return a piece of a text; that of another round is a line of its own."""
        last = self._last.get(name, "") if name not in self._grown and not self._is_first else ""
        self._grown.add(name)
        self._last[name] = text[-1]
        return text if not last or last.isspace() or text[0].isspace() else "\n" + text

    def _listed(self, name: str, items: list[JSON]) -> list[JSON]:
        """Return items of a list, those with numbers numbered behind those of the rounds before."""
        shift = self._shifts.get(name, 0)
        out: list[JSON] = []
        for item in items:
            index = record(item).get("index")
            if isinstance(index, int):
                self._items[name] = max(self._items.get(name, 0), shift + index + 1)
            out.append({**record(item), "index": shift + index} if isinstance(index, int) and shift else item)
        return out

    def _pieces(self, given: list[Record], calls: list[CallDelta], *, is_last: bool) -> list[JSON]:
        """Return the pieces of the client's calls."""
        out: list[JSON] = []
        for piece, call in zip(given, calls, strict=False):
            seen = self._calls.setdefault(call.index, _Seen())
            seen.held.append(piece)
            if seen.is_ours is None and call.name:
                self._decide(seen, is_ours=self._ours(call.name))
            out += self._let_go(seen)
        for seen in self._calls.values() if is_last else ():
            if seen.is_ours is None:
                self._decide(seen, is_ours=False)
                out += self._let_go(seen)
        return out

    def _decide(self, seen: _Seen, *, is_ours: bool) -> None:
        seen.is_ours = is_ours
        if is_ours:
            self._is_moved = True
        else:
            seen.number = self._calls_told
            self._calls_told += 1

    def _let_go(self, seen: _Seen) -> list[JSON]:
        """Return the pieces of a call that the client gets now."""
        if seen.is_ours is None:
            return []
        pieces: list[JSON] = [] if seen.is_ours else [*seen.held]
        seen.held = []
        return [{**record(piece), "index": seen.number} for piece in pieces] if self._is_moved else pieces

    def end(self, ending: Ending) -> bytes:
        out: list[bytes] = []
        usage = ending.usage
        for event in self._withheld:
            chunk = record(loads(event.data))
            if usage is not None and event.data == "[DONE]":
                out.append(self._told_usage(usage))
                usage = None
            if usage is not None and isinstance(chunk.get("usage"), dict):
                chunk["usage"], usage = usage, None
            if ending.stop and chunk:
                chunk["choices"] = [self._stopped(one, ending.stop) for one in array(chunk.get("choices"))]
            is_same = not chunk or (self._is_first and not ending.stop and ending.usage is None)
            out.append(as_came(event) if is_same else render_event(dumps(self._headed(chunk))))
        if usage is not None:
            out.append(self._told_usage(usage))
        return b"".join(out)

    def _told_usage(self, usage: Record) -> bytes:
        return render_event(dumps({**self._head, "choices": [], "usage": usage}))

    @staticmethod
    def _stopped(choice: JSON, stop: str) -> Record:
        shape = record(choice)
        return {**shape, "finish_reason": stop} if shape.get("finish_reason") else shape

    def fail(self, failing: Failing) -> bytes:
        return failing.told(self._withheld, FORMAT, "")

    def events(self, body: Record) -> Iterator[Event]:
        choices: list[JSON] = [
            {**_without(record(one), "message"), "delta": record(one).get("message")}
            for one in array(body.get("choices"))
        ]
        yield Event(data=dumps({**body, "choices": choices[:1]}))

    def alone(self, body: Record) -> Record:
        return body

    def without(self, items: Sequence[JSON]) -> tuple[JSON, ...]:
        kept: list[JSON] = []
        for message in map(record, items):
            calls = [call for call in array(message.get("tool_calls")) if not self._ours(_name(call))]
            rest = _without(message, "tool_calls")
            says = any(message.get(name) for name in (*TEXTS, "audio"))
            if calls or says:
                kept.append({**message, "tool_calls": calls} if calls else rest)
        return tuple(kept)


def _without(value: Record, name: str) -> Record:
    return {field: one for field, one in value.items() if field != name}


def _name(call: JSON) -> str:
    return string(record(record(call).get("function")).get("name"))


def identified(body: Record, ours: Ours, prefix: str) -> Record:
    """Return an answer in which each call of ours has an id of its own; some servers give them none, or one for all."""
    choices = array(body.get("choices"))
    message = record(record(next(iter(choices), None)).get("message"))
    seen: set[str] = set()
    calls: list[JSON] = []
    for number, call in enumerate(map(record, array(message.get("tool_calls")))):
        name = string(call.get("id"))
        is_lacking = (not name or name in seen) and ours(_name(call))
        calls.append({**call, "id": f"{prefix}_{number}"} if is_lacking else call)
        seen.add(name)
    if calls == array(message.get("tool_calls")):
        return body
    return {**body, "choices": [{**record(choices[0]), "message": {**message, "tool_calls": calls}}, *choices[1:]]}
