"""A client of one protocol on an upstream of another. Pure: bodies and bytes in, bodies and bytes out.

What goes up is made anew from what the client said; what comes back is read as it comes and told in the client's
protocol, each piece at once. The same bytes go out wherever the upstream's were cut, and an answer that is streamed is
the one that is not. Fields that have no counterpart are named in `dropped`, for a header to say so.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from itertools import groupby

from everlog.chat.refusals import refusal
from everlog.errors import (
    BadRequest,
    ContextTooLong,
    Forbidden,
    Mistake,
    Overloaded,
    PaymentRequired,
    ProviderTimeout,
    ProviderTrouble,
    ProviderUnavailable,
    RateLimited,
    Unauthorized,
)
from everlog.messages import Call, Media, Message, Unknown
from everlog.protocols import Format
from everlog.protocols.answering import TOO_LONG, Asked, Stamp, Told, fit_name, write
from everlog.protocols.exchange import Delta, Fault, Reply, Said
from everlog.protocols.shapes import Record, array, dumps, encoded, loads, record
from everlog.protocols.sse import EventTooLarge, Frames
from everlog.registry import Model
from everlog.surfaces.proxy.translation.fitting import fitted
from everlog.tokens import BYTES_PER_TOKEN, size_bytes

STATUSES: dict[type[ProviderTrouble], int] = {
    BadRequest: 400,
    ContextTooLong: 400,
    Unauthorized: 401,
    PaymentRequired: 402,
    Forbidden: 403,
    RateLimited: 429,
    ProviderUnavailable: 503,
    ProviderTimeout: 504,
    Overloaded: 529,
}
"""The status of an error that came without one, in a body or in the middle of a stream; of others it is 502."""

BROKE_OFF = Fault(type="upstream_broke_off", message="The upstream's answer broke off before its end.")
UNREADABLE = Fault(type="upstream_unreadable", message="The upstream's answer cannot be read.")
TOO_LARGE = Fault(type="upstream_too_large", message="The upstream's answer is larger than can be held.")

FILES = frozenset(f"content.{kind}" for kind in ("document", "file", "image", "image_url", "input_file", "input_image"))
"""Parts that are files, where we could not read them as one."""

CONVERSATION = "conversation"
"""The field that names a conversation of a server's own, which is nowhere else."""

BEGUN = frozenset({"in_progress", "queued"})
"""What an answer says of itself that has not ended."""

MEDIA_TOKENS = 1000
"""What an image or a file counts for where tokens are estimated; about what providers count."""

MESSAGE_TOKENS = 4
"""What role and quotes of a message count for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """From one protocol to another, for one model."""

    client: Format
    upstream: Format
    model: Model
    """The upstream's, as far as it is known."""
    names: Mapping[str, str] = field(default_factory=dict)
    """How the upstream spells fields that others spell otherwise, as `Settings.names` has them."""

    def request(self, body: Record, whole: Sequence[Message] | None = None) -> "Translated":
        """Return the upstream's body for a client's.

        Args:
            body: of the client.
            whole: the conversation, where the body has a part of it only, and the rest is known here.

        Raises:
            Mistake: a part of the conversation, or a file, is at a server, or a file is one that the upstream cannot carry.
        """
        if whole is None and (held := held_in(body)):
            raise Mistake(f"this upstream keeps no conversations: send the whole of it instead of {held}")
        asked = self.client.parse_settings(body)
        history = moved(self.client.parse_history(body) if whole is None else _said(whole), asked.freeform)
        unknown = _unknown(history)
        if files := FILES.intersection(unknown):
            raise Mistake(
                f"this upstream takes files with their content only, not by reference: {', '.join(sorted(files))}"
            )
        settings, lost = fitted(asked.settings, self.client.name, self.upstream.name, self.model)
        sent = self.upstream.render_request(history, replace(settings, names=self.names))
        dropped = dict.fromkeys((*asked.dropped, *lost, *unknown))
        return Translated(translation=self, asked=asked, body=sent, dropped=tuple(dropped))


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """A request that was translated, and the way back for its answer."""

    translation: Translation
    asked: Asked
    body: Record
    """What goes up."""
    dropped: tuple[str, ...]
    """The client's names of what has no counterpart, fit for a header."""

    def whole(self, status: int, data: bytes, stamp: Stamp) -> tuple[int, bytes]:
        """Return status and body for a client; a stream in bytes if it asked for one and there is an answer."""
        client, upstream = self.translation.client, self.translation.upstream
        body = record(loads(data.decode("utf-8", "replace")))
        fault = upstream.parse_fault(body)
        if status >= HTTPStatus.BAD_REQUEST or fault is not None:
            fault = fault or Fault(type="error", message=f"The upstream answered with status {status}.")
            fault, code = classed(fault, status, stamp)
            return code, encoded(client.render_fault(fault, code))
        reply = upstream.parse_reply(body)
        if not _is_answer(reply):
            return HTTPStatus.BAD_GATEWAY, encoded(client.render_fault(UNREADABLE, HTTPStatus.BAD_GATEWAY))
        answer = client.answer(self.asked, stamp)
        stream = write(answer, reply, reply.model or "")
        return status, stream if self.asked.settings.stream else encoded(answer.body())

    def stream(self, stamp: Stamp) -> "Stream":
        """Return the way back for an answer in pieces."""
        return Stream(self.translation, self.asked, stamp)


class Stream:
    """An answer on its way from an upstream to a client."""

    def __init__(self, translation: Translation, asked: Asked, stamp: Stamp) -> None:
        self._frames = Frames()
        self._heard = translation.upstream.stream()
        self._answer = translation.client.answer(asked, stamp)
        self._stamp = stamp
        self._told = Told()
        self._has_begun = False
        self.is_over = False
        """Whether the client has all of it, or was told why not."""

    def feed(self, chunk: bytes) -> bytes:
        """Take in bytes of the upstream, cut anywhere, and return those for the client."""
        out: list[bytes] = []
        try:
            for event in self._frames.feed(chunk):
                if self.is_over:
                    break
                deltas = self._heard.feed(event)
                out += self._passed(deltas)
        except EventTooLarge:
            out.append(self._failed(TOO_LARGE))
        return b"".join(out)

    def end(self) -> bytes:
        """Return what is left to say when nothing more comes; an answer that had said why it stops is whole."""
        if self.is_over:
            return b""
        stop = self._heard.reply().stop
        return self._failed(BROKE_OFF) if stop is None or stop in BEGUN else b"".join(self._ended())

    def _passed(self, deltas: Sequence[Delta]) -> list[bytes]:
        """Return what one event of the upstream is for the client."""
        if self._heard.fault is not None:
            return [self._failed(self._heard.fault)]
        out = [] if self._has_begun else [self._begun()]
        for delta in deltas:
            self._told.add(delta)
            out.append(self._answer.add(delta))
        return out + self._ended() if self._heard.done else out

    def _begun(self) -> bytes:
        self._has_begun = True
        return self._answer.begin(self._heard.reply().model or "")

    def _ended(self) -> list[bytes]:
        reply = self._heard.reply()
        if not _is_answer(reply):
            return [self._failed(BROKE_OFF)]
        self.is_over = True
        return [*map(self._answer.add, self._told.missing(reply)), self._answer.end(reply)]

    def _failed(self, fault: Fault) -> bytes:
        if self.is_over:
            return b""
        self.is_over = True
        return self._answer.fail(*classed(fault, None, self._stamp))


def _is_answer(reply: Reply) -> bool:
    return reply.finish != "failed" and (reply.stop is not None or bool(reply.said.messages))


def classed(fault: Fault, status: int | None, stamp: Stamp) -> tuple[Fault, int]:
    """Return an upstream's error with the status that it has, or would have; a conversation too long is called so."""
    is_error = status is not None and status >= HTTPStatus.BAD_REQUEST
    found = refusal(status if is_error else None, fault, headers={}, now=stamp.at, provider="", model="")
    code = status if is_error and status is not None else STATUSES.get(type(found), HTTPStatus.BAD_GATEWAY)
    return replace(fault, type=TOO_LONG) if isinstance(found, ContextTooLong) else fault, code


def _said(messages: Sequence[Message]) -> Iterator[Said]:
    """Yield a conversation by who spoke: what a model said at once is one piece, and all else one each."""
    for is_models, some in groupby(messages, lambda one: one.kind in {"assistant", "tool_call"}):
        if is_models:
            yield Said(messages=tuple(some))
        else:
            yield from (Said(messages=(one,)) for one in some)


def held_in(body: Record) -> str:
    """Return the client's name of what it does not send because a server has it."""
    for name in (CONVERSATION, "previous_response_id"):
        if body.get(name):
            return name
    kinds = (record(item).get("type") for item in array(body.get("input")))
    return "item_reference" if "item_reference" in kinds else ""


def moved(history: Iterable[Said], freeform: frozenset[str]) -> tuple[Said, ...]:
    """Return a conversation as any protocol can have it.

    System messages in the middle of it stay there as words to the model: at the front they would change the beginning of
    each later request, and many models take them nowhere else. Calls with a text have an object that holds it.
    """
    out: list[Said] = []
    has_begun = False
    for said in history:
        has_begun = has_begun or any(one.kind != "system" for one in said.messages)
        messages = (_reminder(one) if has_begun and one.kind == "system" else one for one in said.messages)
        out.append(replace(said, messages=tuple(_with_object(one, freeform) for one in messages)))
    return tuple(out)


def _reminder(message: Message) -> Message:
    return replace(message, kind="note", text=f"<system-reminder>\n{message.text}\n</system-reminder>", parts=())


def _with_object(message: Message, freeform: frozenset[str]) -> Message:
    call = message.call
    if call is None or call.name not in freeform:
        return message
    held = Call(call_id=call.call_id, name=call.name, arguments=dumps({"input": call.arguments}))
    return replace(message, parts=tuple(held if part is call else part for part in message.parts))


def _unknown(history: Sequence[Said]) -> list[str]:
    """Return the types of parts that no other protocol has a form for."""
    return [
        f"content.{fit_name(record(part.value).get('type'))}"
        for said in history
        for message in said.messages
        for part in message.parts
        if isinstance(part, Unknown)
    ]


def estimated_tokens(client: Format, body: Record) -> int:
    """Return about how many tokens a request has, where its upstream has no way to count them."""
    size = tokens = 0
    for said in client.parse_history(body):
        for message in said.messages:
            tokens += MESSAGE_TOKENS + MEDIA_TOKENS * sum(isinstance(part, Media) for part in message.parts)
            size += size_bytes(message.text)
    size += size_bytes(dumps(array(body.get("tools"))))
    return tokens + -(-size // BYTES_PER_TOKEN)
