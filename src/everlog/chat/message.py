"""Messages of a chat, as a provider would count them: a reply with all its calls is one, so is each result."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from everlog.chat.attachments import attachments
from everlog.chat.cost import Cost, sum_costs, sum_usages
from everlog.chat.ledger import Attempt
from everlog.chat.tools import Answered, ToolCall
from everlog.errors import BadReply, Mistake, expect
from everlog.messages import JSON, Call, Media, Message, Part, Result
from everlog.protocols.exchange import CallDelta, Citation, Delta, Finish, Reply, Said, Step, TextDelta, Usage
from everlog.protocols.shapes import dumps

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]

ROLES: tuple[Role, ...] = get_args(Role)

_ROLE_OF: dict[str, Role] = {
    "system": "system",
    "user": "user",
    "note": "user",
    "assistant": "assistant",
    "tool_call": "assistant",
    "tool_result": "tool",
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ChatMessage:
    """One message of a chat."""

    said: Said
    """Its words, calls and results, and the blocks in which a provider sent them."""
    reply: Reply | None = None
    """The answer that it is, if a model gave it here."""
    attempts: tuple[Attempt, ...] = ()
    """All requests that led to it, those that failed included."""

    @property
    def role(self) -> Role:
        """Who speaks."""
        return _ROLE_OF[self.said.messages[0].kind] if self.said.messages else "assistant"

    @property
    def text(self) -> str:
        """The words, or the text of a result; empty where there are calls only."""
        return "\n".join(one.text for one in self.said.messages if one.kind != "tool_call" and one.text)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """What the model asks of tools, in order."""
        calls = (one.call for one in self.said.messages)
        return tuple(ToolCall(id=call.call_id, name=call.name, text=call.arguments) for call in calls if call)

    @property
    def tool_calls(self) -> dict[str, ToolCall]:
        """What the model asks of tools, in order, by id."""
        return {call.id: call for call in self.calls}

    @property
    def tool_call_id(self) -> str | None:
        """The call that it answers, if it is a result."""
        return next((one.result.call_id for one in self.said.messages if one.result), None)

    @property
    def attachments(self) -> tuple[Media, ...]:
        """Images, sounds and files in it."""
        return tuple(part for one in self.said.messages for part in one.parts if isinstance(part, Media))

    @property
    def thinking(self) -> str:
        """Reasoning that the provider shows."""
        return self.reply.thinking if self.reply else ""

    @property
    def citations(self) -> tuple[Citation, ...]:
        """Passages that back its claims."""
        return self.reply.citations if self.reply else ()

    @property
    def provider_steps(self) -> tuple[Step, ...]:
        """What tools did that run at the provider."""
        return self.reply.steps if self.reply else ()

    @property
    def finish(self) -> Finish | None:
        """Why the model stopped."""
        return self.reply.finish if self.reply else None

    @property
    def model(self) -> str | None:
        """The model that wrote it, as its provider calls it."""
        return self.reply.model if self.reply else next((one.model for one in self.said.messages if one.model), None)

    @property
    def tokens(self) -> Usage:
        """The tokens of all requests that led to it; None in it is what nobody counted."""
        return sum_usages(one.usage for one in self.attempts)

    @property
    def cost(self) -> Cost:
        """What those requests cost; None in it is what nobody can say."""
        return sum_costs((one.usage, one.model) for one in self.attempts)

    @property
    def parsed(self) -> Any:
        """The words as JSON, for answers that were asked for with a schema.

        Raises:
            BadReply: they are no JSON; `finish` may say why.
        """
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            raise BadReply(f"the answer is no JSON; it ended with {self.finish}", finish=self.finish) from None

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        counts = {"character": len(self.text), "call": len(self.calls), "file": len(self.attachments)}
        sizes = ", ".join(
            f"{count} {what}{'s' * (count != 1)}" for what, count in counts.items() if count or what == "character"
        )
        return f"<ChatMessage {self.role}, {sizes}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of an answer under way."""

    text: str = ""
    """What is added to the words."""
    thinking: str = ""
    """What is added to the reasoning that may be shown."""
    call: CallDelta | None = None
    """What is added to a tool call."""

    def __str__(self) -> str:
        return self.text


def chunk_of(delta: Delta) -> Chunk:
    """Return a piece as its reader sees it."""
    if isinstance(delta, TextDelta):
        return Chunk(text=delta.text)
    if isinstance(delta, CallDelta):
        return Chunk(call=delta)
    return Chunk(thinking=delta.text)


def user_message(text: str | None, files: Any = None) -> ChatMessage:
    """Return what a user says.

    Raises:
        Mistake: there are neither words nor files, the text is none, or an attachment cannot be read.
    """
    made = as_message({"role": "user", "content": text, "files": files})
    if not made.said.messages[0].parts and not made.text.strip():
        raise Mistake("nothing is said: give words, or files")
    return made


def system_message(text: str, *, cached: bool = False) -> ChatMessage:
    """Return instructions."""
    expect(text, str, "instructions are a str or None")
    return ChatMessage(said=Said(messages=(Message(kind="system", text=text),), cached=cached))


def result_message(call: ToolCall, answer: Answered) -> ChatMessage:
    """Return what a tool answered."""
    parts: tuple[Part, ...] = (Result(call_id=call.id, name=call.name, failed=answer.failed),)
    parts += _placed(answer.attachments, answer.text)
    message = Message(kind="tool_result", text=answer.text, author=call.name, parts=parts)
    return ChatMessage(said=Said(messages=(message,)))


def reply_message(reply: Reply, attempts: tuple[Attempt, ...]) -> ChatMessage:
    """Return what a model answered, with the requests that it took."""
    return ChatMessage(said=reply.said, reply=reply, attempts=attempts)


def as_message(value: Any) -> ChatMessage:
    """Return a message from one, from a message of a log, or from a mapping with `role` and `content`.

    A mapping may have `files`; an assistant's `tool_calls`, each with `id`, `name` and `arguments`; a tool's
    `tool_call_id`.

    Raises:
        Mistake: it is none of these, or its role or content is no such thing.
    """
    if isinstance(value, ChatMessage):
        return value
    if isinstance(value, Said):
        return ChatMessage(said=value)
    if isinstance(value, Message):
        return ChatMessage(said=Said(messages=(value,)))
    if isinstance(value, Mapping):
        return ChatMessage(said=Said(messages=_of_mapping(value)))
    raise Mistake(
        f"a message is a ChatMessage, a Message or a mapping with role and content, not {type(value).__name__}"
    )


def as_messages(value: Any) -> list[ChatMessage]:
    """Return a new list of messages from None, one, or many."""
    if value is None:
        return []
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [as_message(one) for one in value]
    return [as_message(value)]


def _of_mapping(value: Mapping[str, Any]) -> tuple[Message, ...]:
    role = value.get("role")
    if role not in ROLES:
        raise Mistake(f"there is no role {role!r}; it is one of {', '.join(ROLES)}")
    text = value.get("content")
    expect(text, (str, type(None)), "the content of a message is a str or None; give files by files=")
    words = text or ""
    media = _placed(attachments(value.get("files")), words)
    if role == "tool":
        given = value.get("tool_call_id")
        expect(given, str, "the `tool_call_id` of a result is a str")
        return (Message(kind="tool_result", text=words, parts=(Result(call_id=str(given)), *media)),)
    if role == "assistant":
        said = (Message(kind="assistant", text=words, parts=media),)
        calls = tuple(_call(one) for one in value.get("tool_calls") or ())
        return (*(said if words or media or not calls else ()), *calls)
    return (Message(kind="user" if role == "user" else "system", text=words, parts=media),)


def _placed(media: Sequence[Media], text: str) -> tuple[Media, ...]:
    """Return attachments as they stand behind the words."""
    return tuple(replace(one, offset=len(text)) for one in media)


def _call(value: Any) -> Message:
    if isinstance(value, ToolCall):
        call = Call(call_id=value.id, name=value.name, arguments=value.text)
    elif isinstance(value, Mapping):
        given: JSON = value.get("arguments", "")
        text = given if isinstance(given, str) else dumps(given)
        call = Call(call_id=value.get("id", ""), name=value.get("name", ""), arguments=text)
    else:
        raise Mistake(f"a tool call is a ToolCall or a mapping with id, name, arguments, not {type(value).__name__}")
    return Message(kind="tool_call", text=f"{call.name} {call.arguments}".rstrip(), parts=(call,))
