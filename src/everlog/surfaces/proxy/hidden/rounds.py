"""One answer to a client, made of several rounds of the upstream.

A round's calls of ours are answered and the upstream is asked again, until it says what is for the client: words, or
calls of the client's own. In a round with calls of both the client gets its own at once; ours are answered beside, for
the history that the upstream is shown next time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Literal

from everlog.messages import JSON, Call, Message, Result
from everlog.protocols import Format
from everlog.protocols.answering import Stamp
from everlog.protocols.exchange import Fault, Finish, Raw, Reply, Said, Usage
from everlog.protocols.shapes import Record, count, dumps, encoded, record
from everlog.protocols.sse import Event, Frames, render_event
from everlog.surfaces.proxy.hidden.asking import Choice, later, leaves_room, waits_for_call
from everlog.surfaces.proxy.hidden.bills import told_usage
from everlog.surfaces.proxy.hidden.blocks import MessageTeller
from everlog.surfaces.proxy.hidden.chunks import ChunkTeller, identified
from everlog.surfaces.proxy.hidden.items import ResponseTeller, changed
from everlog.surfaces.proxy.hidden.offering import NAMES, tool_names
from everlog.surfaces.proxy.hidden.refusing import LIMIT, NOT_NOW, Refusing
from everlog.surfaces.proxy.hidden.telling import Ending, Failing, Teller
from everlog.surfaces.proxy.translation.translating import BEGUN, BROKE_OFF, UNREADABLE, classed

UNANSWERED = "The tool failed."

GOES_ON: tuple[Finish, ...] = ("tool_calls", "stop", "other")
"""Ends of a round after which its calls are answered; otherwise it was cut, and they are dropped."""

KEEP_ALIVE = {"anthropic": render_event(dumps({"type": "ping"}), "ping")}
COMMENT = b": working\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What is to be done after a round."""

    calls: tuple[Call, ...] = ()
    """Calls of ours that are to be run, with the names that the tools have themselves."""
    is_final: bool = True
    """Whether the client's answer ends with this round."""
    fault: Fault | None = None
    """Why the round is no answer, if it is none."""
    status: int = HTTPStatus.BAD_GATEWAY
    """What an error has where a status can still be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """A round that ended."""

    reply: Reply
    ours: tuple[Call, ...] = ()
    """Calls that are answered, by whomever."""
    refused: Mapping[int, str]
    """Answers to those of them that are not run, by their number."""
    stop: Literal["", "stop", "length"] = ""
    """Why the answer ends, where the reply does not say it: calls of ours were dropped."""


class Rounds:
    """The answer to one request."""

    def __init__(
        self, protocol: Format, body: Record, *, stamp: Stamp, sums_usage: bool = False, client: Record | None = None
    ) -> None:
        """Begin it.

        Args:
            protocol: of client and upstream.
            body: what goes up in the first round, with our tools in it.
            stamp: what tells this answer from others.
            sums_usage: whether the client is told the input of all rounds.
            client: the client's own request, where an answer may repeat something of it that was changed.
        """
        self._protocol = protocol
        self._body = self._asked = body
        self._stamp = stamp
        self._sums_usage = sums_usage
        known = set(tool_names(client or {}))
        self._names = tuple(name for name in tool_names(body) if name.startswith(NAMES) and name not in known)
        self._refusing = Refusing(names=self._names, is_waited_for=waits_for_call(body))
        self._teller = self._told({} if client is None else changed(body, client))
        self._stream = protocol.stream()
        self._whole: Record | None = None
        """The answer of the round, where it came whole."""
        self._pieces: list[bytes] = []
        """What the client has of an answer that is not streamed."""
        self._rounds: list[_Round] = []
        self._ended: Ended | None = None
        self._held: list[Said] = []
        self._answered = 0
        self._is_limited = False
        self.keep_alive = KEEP_ALIVE.get(protocol.name, COMMENT)
        """What the client may be sent while we work."""

    def _told(self, asked: Record) -> Teller:
        match self._protocol.name:
            case "chat_completions":
                return ChunkTeller(self._is_ours, is_plural=(count(self._body.get("n")) or 1) > 1)
            case "responses":
                return ResponseTeller(self._is_ours, self._stamp, asked)
            case _:
                return MessageTeller(self._is_ours)

    def _is_ours(self, name: str) -> bool:
        """Whether a call is for us: also one of a tool that is none of ours, but is called as if it were."""
        return bool(self._names) and name.startswith(NAMES)

    def request(self) -> Record:
        """Return the body of the round that is next, or under way."""
        return self._asked

    def feed(self, event: Event) -> bytes:
        """Take in an event of the round and return what the client gets for it."""
        return self._teller.feed(event, self._stream.feed(event))

    @property
    def is_over(self) -> bool:
        """Whether the upstream said that nothing more comes in this round."""
        return self._stream.done or self._stream.fault is not None

    def take(self, body: Record) -> None:
        """Take in a round's answer that came whole."""
        self._whole = body
        self._pieces += [self.feed(event) for event in self._teller.events(body)]

    def ended(self) -> Ended:
        """End the round and return what is to be done."""
        if self._ended is None:
            reply = self._reply()
            fault = self._fault(reply)
            self._ended = self._next(reply) if fault is None else self._broken(fault, reply)
        return self._ended

    def _broken(self, fault: Fault, reply: Reply) -> Ended:
        self._rounds.append(_Round(reply=reply, refused={}))
        self._hold(reply, is_whole=False)
        fault, status = classed(fault, None, self._stamp)
        return Ended(fault=fault, status=status)

    def _reply(self) -> Reply:
        reply = self._stream.reply() if self._whole is None else self._protocol.parse_reply(self._whole)
        if self._protocol.name != "chat_completions":
            return reply
        body = identified(dict(reply.body), self._is_ours, f"call_{self._stamp.id}_{self.rounds}")
        return reply if body == reply.body else self._protocol.parse_reply(body)

    def _fault(self, reply: Reply) -> Fault | None:
        """Return why a round is no answer."""
        if self._whole is not None:
            fault = self._protocol.parse_fault(self._whole)
            return fault or (None if _is_answer(reply) else UNREADABLE)
        if self._stream.fault is not None:
            return self._stream.fault
        is_whole = self._stream.done or reply.stop not in {None, *BEGUN}
        return None if is_whole and _is_answer(reply) else BROKE_OFF

    def _next(self, reply: Reply) -> Ended:
        calls = [message.call for message in reply.said.messages if message.call is not None]
        ours = tuple(call for call in calls if self._is_ours(call.name))
        is_mixed = len(ours) < len(calls)
        goes_on = reply.finish in GOES_ON and not self._is_limited
        has_room = is_mixed or leaves_room(self._protocol, self._body, self._output(reply))
        if not (ours and goes_on and has_room):
            stop: Literal["", "stop", "length"] = "length" if goes_on and not has_room else "stop"
            dropped = ours and not is_mixed and reply.finish in GOES_ON
            self._rounds.append(_Round(reply=reply, refused={}, stop=stop if dropped else ""))
            self._hold(reply, is_whole=False)
            return Ended()
        refused, is_limited = self._refusing.refused(ours, rounds=self.rounds, before=self._answered)
        self._is_limited = self._is_limited or is_limited
        self._rounds.append(_Round(reply=reply, ours=ours, refused=refused))
        self._answered += len(ours)
        self._hold(reply, is_whole=True)
        run = (_own(call) for number, call in enumerate(ours) if number not in refused)
        return Ended(calls=tuple(run), is_final=is_mixed)

    def _output(self, *more: Reply) -> int:
        """Return how many tokens were put out."""
        replies = (*(one.reply for one in self._rounds), *more)
        return sum(one.usage.output or 0 for one in replies if one.usage is not None)

    def _hold(self, reply: Reply, *, is_whole: bool) -> None:
        said = reply.said
        if not is_whole and said.raw is not None:
            items = self._teller.without(said.raw.items)
            messages = tuple(one for one in said.messages if one.call is None or not self._is_ours(one.call.name))
            said = Said(messages=messages, raw=Raw(protocol=said.raw.protocol, items=items) if items else None)
        if said.messages or said.raw is not None:
            self._held.append(said)

    def answer(self, results: Mapping[str, str]) -> None:
        """Take in the results of a round's calls by their ids; if the answer does not end with it, begin another."""
        last = self._rounds[-1]
        texts = (
            last.refused.get(number) or results.get(call.call_id, UNANSWERED) for number, call in enumerate(last.ours)
        )
        self._held.append(Said(messages=tuple(map(_result, last.ours, texts))))
        if self.ended().is_final:
            return
        self._ask()
        self._stream = self._protocol.stream()
        self._whole = self._ended = None
        self._teller.begin()

    def shorten(self) -> bool:
        """Answer the calls of the last round by the limit, since their results were too long for the model to go on.

        Returns False if that is what they were answered.
        """
        said = self._held[-1]
        limit = NOT_NOW if waits_for_call(self._body) else LIMIT
        shorter = replace(said, messages=tuple(replace(one, text=limit) for one in said.messages))
        if shorter == said:
            return False
        self._held[-1], self._is_limited = shorter, True
        self._ask()
        return True

    def _ask(self) -> None:
        """Make the request of the next round."""
        choice: Choice = "as it is"
        if self._is_limited:
            choice = "client's" if waits_for_call(self._body) else "none"
        self._asked = later(self._protocol, self._body, self._held, self._output(), choice, self._is_ours)

    def finish(self) -> bytes:
        """Return the end of the answer, which was withheld until it was known for the end."""
        return self._teller.end(self._ending())

    def _ending(self) -> Ending:
        if self._is_upstreams:
            return Ending()
        usage = None
        if self.rounds > 1:
            counted = [record(one.reply.body.get("usage")) for one in self._rounds]
            usage = told_usage(counted, self.usages, sums=self._sums_usage)
        return Ending(stop=self._rounds[-1].stop, usage=usage, output=self._items())

    @property
    def _is_upstreams(self) -> bool:
        """Whether the answer is the upstream's, nothing left out."""
        messages = self._rounds[0].reply.said.messages
        return self.rounds == 1 and not any(one.call and self._is_ours(one.call.name) for one in messages)

    def _items(self, *more: Reply) -> tuple[JSON, ...]:
        replies = (*(one.reply for one in self._rounds), *more)
        raws = (one.said.raw for one in replies)
        return tuple(item for raw in raws if raw is not None for item in self._teller.without(raw.items))

    def body(self) -> Record:
        """Return the answer as a body, where it is not streamed."""
        if self._is_upstreams and self._whole is not None:
            return self._teller.alone(self._whole)
        stream = self._protocol.stream()
        for event in Frames().feed(b"".join([*self._pieces, self.finish()])):
            stream.feed(event)
        return stream.body()

    def fail(self, fault: Fault, status: int) -> bytes:
        """Return the error that ends the answer: an event of a stream, or the body of an error."""
        if self._whole is not None or self._asked.get("stream") is not True:
            return encoded(self._protocol.render_fault(fault, status))
        more = (self._stream.reply(),) if self._ended is None else ()
        return self._teller.fail(Failing(fault=fault, status=status, output=self._items(*more)))

    @property
    def held(self) -> tuple[Said, ...]:
        """What was said in truth, where that is not what the client was shown; else nothing."""
        return self.said if self._answered else ()

    @property
    def said(self) -> tuple[Said, ...]:
        """What was said in truth: the replies of all rounds, and the results of calls of ours."""
        return tuple(self._held)

    @property
    def rounds(self) -> int:
        """How many rounds ended."""
        return len(self._rounds)

    @property
    def usages(self) -> tuple[Usage | None, ...]:
        """What each round took."""
        return tuple(one.reply.usage for one in self._rounds)


def _is_answer(reply: Reply) -> bool:
    return reply.finish != "failed" and (reply.stop is not None or bool(reply.said.messages))


def _own(call: Call) -> Call:
    """Return a call with the name that the tool has itself."""
    return Call(call_id=call.call_id, name=call.name.removeprefix(NAMES), arguments=call.arguments or "{}")


def _result(call: Call, text: str) -> Message:
    result = Result(call_id=call.call_id, name=call.name)
    return Message(kind="tool_result", text=text, author=call.name, parts=(result,))
