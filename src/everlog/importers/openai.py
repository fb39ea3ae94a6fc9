"""Messages in the form of OpenAI's chat API, as programs dump them.

Taken are a list of messages, an object with `messages`, a list of such objects, and JSON lines of either. A message has
`role` and `content`; what else it may have (`name`, `tool_calls`, `function_call`, parts, a time) is read where it is.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256

from everlog.clock import isoformat
from everlog.importers.blocks import Speaker, Speech
from everlog.importers.records import Value
from everlog.importers.report import Malformed, Problem, Tally, label
from everlog.importers.shapes import Record, array, record, string
from everlog.importers.source import Source
from everlog.importers.times import dated, moment
from everlog.importers.titles import titled
from everlog.jsonl import dumps, encoded
from everlog.messages import JSON, Conversation, Kind, Message, Origin

FORMAT = "openai"
KINDS_OF_ROLES: dict[str, Kind] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool_result",
    "function": "tool_result",
}
TIMES = ("created_at", "create_time", "timestamp", "time", "created")
IDENTITIES = ("id", "conversation_id", "thread_id", "session_id")
REASONING = ("reasoning_content", "reasoning", "reasoning_details", "thinking")


def knows(value: JSON) -> bool:
    """Whether value is a message, or holds a list of them."""
    shape = record(value)
    if isinstance(shape.get("role"), str):
        return not {"content", "tool_calls", "function_call"}.isdisjoint(shape)
    messages = shape.get("messages")
    return isinstance(messages, list) and (not messages or any(map(knows, messages[:8])))


def conversations(records: Iterable[Value | Problem], source: Source, tally: Tally) -> Iterator[Conversation | Problem]:
    """Yield the conversations; all messages that stand by themselves are one, after those that are given whole.

    One with a message in its midst that cannot be read is left out: the log could never take that message in later.
    """
    del source
    keys = _Keys()
    loose = _Talk(tally)
    first_lost: Problem | None = None
    has_hole = False
    for item in records:
        try:
            if isinstance(item, Problem):
                first_lost = first_lost or item
                yield item
            elif "messages" in record(item.value):
                whole = _whole(record(item.value), keys, tally)
                if whole.messages:
                    yield whole
                else:
                    tally.skipped["empty conversation"] += 1
            else:
                has_hole = has_hole or first_lost is not None
                loose.add(item.value)
        except Malformed as error:
            assert isinstance(item, Value)
            lost = Problem(where=item.where, reason=str(error), position=item.position)
            first_lost = first_lost or lost
            yield lost
    if loose.messages and has_hole and first_lost is not None:
        reason = "its messages go in together or not at all; mend the one that cannot be read, and import it again"
        yield Problem(where=first_lost.where, reason=reason, position=0)
    elif loose.messages:
        messages = tuple(loose.messages)
        yield Conversation(key=keys.named(loose), title=titled(messages), messages=dated(messages, tally))


def _whole(shape: Record, keys: "_Keys", tally: Tally) -> Conversation:
    """Return the conversation that an object with `messages` is."""
    if not isinstance(shape["messages"], list):
        raise Malformed("its messages are not a list")
    talk = _Talk(tally)
    for number, message in enumerate(shape["messages"], 1):
        try:
            talk.add(message)
        except Malformed as error:
            raise Malformed(f"its message {number}: {error}") from None
    identity = next(filter(None, (string(shape.get(name)) for name in IDENTITIES)), None)
    return Conversation(
        key=f"{FORMAT}:{identity}" if identity else keys.named(talk),
        title=string(shape.get("title")) or string(shape.get("name")) or titled(talk.messages),
        messages=dated(talk.messages, tally, stated=_stated(shape)),
        origin=Origin(session=identity, user=string(shape.get("user"))),
    )


def _stated(shape: Record) -> JSON:
    """Return the time of an object as it is written."""
    return next((shape[name] for name in TIMES if shape.get(name) is not None), None)


class _Keys:
    """Names for conversations without an id: a digest of what is said up to the first question, with authors and times.

    It stays when the conversation grows, and under whatever name a file is saved. The second of the same name in a file
    has `:2` behind it.
    """

    def __init__(self) -> None:
        self._met: Counter[str] = Counter()

    def named(self, talk: "_Talk") -> str:
        beginning: list[JSON] = [
            [message.kind, message.text, message.author, None if message.at is None else isoformat(message.at)]
            for message in talk.beginning
        ]
        digest = sha256(encoded(dumps(beginning))).hexdigest()[:16]
        self._met[digest] += 1
        name = f"{FORMAT}:{digest}"
        return name if self._met[digest] == 1 else f"{name}:{self._met[digest]}"


class _Talk:
    """The messages of one conversation, with the calls that still wait for an answer."""

    def __init__(self, tally: Tally) -> None:
        self.messages: list[Message] = []
        self._tally = tally
        self._open: dict[str, str] = {}

    @property
    def beginning(self) -> list[Message]:
        """The messages up to the first question."""
        end = next((place for place, message in enumerate(self.messages) if message.kind == "user"), 0)
        return self.messages[: end + 1]

    def add(self, value: JSON) -> None:
        """Take in one message.

        Raises:
            Malformed: it is not an object with a role.
        """
        shape = record(value)
        role = string(shape.get("role"))
        if role is None:
            raise Malformed("it is not an object with a role")
        kind = KINDS_OF_ROLES.get(role)
        if kind is None:
            self._tally.unknown[f"role {label(role)}"] += 1
        speaker = Speaker(
            kind=kind or "note",
            author=string(shape.get("name")) if kind else role,
            at=next((at for name in TIMES if (at := moment(shape.get(name), self._tally)) is not None), None),
            id=string(shape.get("id")),
            model=string(shape.get("model")) if kind == "assistant" else None,
            meta=_small(record(shape.get("metadata"))),
            place=len(self.messages),
        )
        speech = Speech(speaker, FORMAT, self._tally)
        if kind == "tool_result":
            self._answer(speech, shape)
        else:
            self._speak(speech, shape)
        self.messages += speech.messages

    def _speak(self, speech: Speech, shape: Record) -> None:
        before = self._tally.skipped["reasoning"]
        if reasoned := sum(bool(shape.get(name)) for name in REASONING):
            self._tally.skipped["reasoning"] += reasoned
        speech.add(shape.get("content"))
        speech.add(string(shape.get("refusal")))
        speech.add(string(record(shape.get("audio")).get("transcript")))
        for value in array(shape.get("tool_calls")):
            self._call(speech, record(value))
        if isinstance(legacy := shape.get("function_call"), dict):
            self._call(speech, {"function": legacy})
        speech.pause(even_empty=self._tally.skipped["reasoning"] == before)

    def _call(self, speech: Speech, shape: Record) -> None:
        asked = record(shape.get("function")) or record(shape.get("custom")) or shape
        arguments = asked.get("arguments", asked.get("input", ""))
        call = speech.call(
            string(shape.get("id")),
            string(asked.get("name")),
            arguments if isinstance(arguments, str) else dumps(arguments),
        )
        self._open[call.call_id] = call.name

    def _answer(self, speech: Speech, shape: Record) -> None:
        """Add a result to the call it names, else to the last open call of its name, else to the last open one."""
        name = string(shape.get("name"))
        call_id = string(shape.get("tool_call_id"))
        if call_id is None:
            waiting = [open_id for open_id, tool in self._open.items() if name in {None, tool}] or [*self._open]
            call_id = waiting[-1] if waiting else None
        self._open.pop(call_id or "", None)
        speech.answer(call_id, shape.get("content"), name=name)


def _small(facts: Record) -> dict[str, JSON]:
    """Return the facts that are short enough to be kept with each message."""
    return {
        name: fact
        for name, fact in facts.items()
        if isinstance(fact, int | float) or len(string(fact) or "x" * 999) < 256
    }
