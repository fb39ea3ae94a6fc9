"""Agent sessions of any length in each protocol: what is said in them, and clients that keep their own history.

The words of a turn follow from its number, and so does what a client has to answer: two sessions of one plan say the same,
whoever stands between. A client speaks by the official SDK, whose types must take every answer; requests go past the
SDK's own rewriting of arguments, which would take most of the time of a long session.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message as ClaudeMessage
from anthropic.types import RawMessageStreamEvent
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

from everlog.messages import JSON

INSTRUCTIONS = "You keep the notes of a harbour, and look into them before you answer."
ASIDE = "Let me remember."
"""What the model says before it looks into memory, if anything."""
PARAMETERS: Any = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
_WORDS = (
    "harbour ledger tide signal mast rope engine invoice copper lantern wind ferry cargo anchor chart buoy crane pier "
    "salt wheel valve hull keel storm radio depth pilot crew watch bell compass barrel canvas rudder galley hatch"
)
WORDS = _WORDS.split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is said in a session."""

    turns: int
    who: str = ""
    """Letters that tell its words from those of other sessions."""
    words: int = 12
    """Words behind each beginning that names where it stands; a result of a tool has three times as many."""

    def question(self, turn: int) -> str:
        """What the user says."""
        return self._said(f"Question {self.who}{turn}:", self.words)

    def looking(self, turn: int, step: int) -> str:
        """What the model says when it calls tools."""
        return f"Let me look, {self.who}{turn}.{step}."

    def notes(self, turn: int, step: int, place: int) -> str:
        """What a tool answers."""
        return self._said(f"Notes {self.who}{turn}.{step}.{place}:", 3 * self.words)

    def answer(self, turn: int) -> str:
        """What the model says in the end."""
        return self._said(f"Answer {self.who}{turn}:", 2 * self.words)

    def rounds(self, turn: int) -> int:
        """How often tools are called in a turn."""
        return 3 if turn % 10 == 9 else 0 if turn % 4 == 3 else 1

    def calls(self, turn: int, step: int) -> tuple[tuple[str, str, JSON], ...]:
        """The calls of one round: id, name and arguments."""
        places = range(2 if turn % 3 == 0 else 1)
        return tuple(
            (f"call_{self.who}{turn}_{step}_{place}", "read", self.path(turn, step, place)) for place in places
        )

    def path(self, turn: int, step: int, place: int) -> JSON:
        """The arguments of a call."""
        return {"path": f"notes/{self.who}{turn}-{step}-{place}-ä.txt"}

    def told(self) -> Iterator[tuple[str, str]]:
        """Kind and text of each message, calls without theirs, in order."""
        for turn in range(self.turns):
            yield "user", self.question(turn)
            for step in range(self.rounds(turn)):
                yield "assistant", self.looking(turn, step)
                calls = self.calls(turn, step)
                yield from (("tool_call", "") for _ in calls)
                yield from (("tool_result", self.notes(turn, step, place)) for place in range(len(calls)))
            yield "assistant", self.answer(turn)

    @staticmethod
    def _said(label: str, words: int) -> str:
        return f"{label} {' '.join(random.Random(label).choices(WORDS, k=words))}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a client makes of an answer."""

    finish: str | None
    texts: tuple[str, ...]
    calls: tuple[tuple[str, str, str], ...]
    """Id, name and arguments, as JSON with its names in order."""
    usage: tuple[int, int] = field(compare=False)
    """Tokens of input, all of it, and of output."""
    said: list[Any] = field(compare=False)
    """The answer as the client puts it into its history."""


class _Speaking:
    """What all clients have."""

    instructions: str

    def user(self, text: str) -> Any:
        """Return what a user says."""
        return {"role": "user", "content": text}


class _OpenAI(_Speaking):
    """By the SDK of OpenAI."""

    def __init__(
        self, base: str, headers: Mapping[str, str] | None = None, *, instructions: str = INSTRUCTIONS
    ) -> None:
        self._client = openai.OpenAI(base_url=f"{base}/v1", api_key="sk-client", max_retries=0, default_headers=headers)
        self.instructions = instructions


class ChatClient(_OpenAI):
    """Chat Completions."""

    protocol = "chat_completions"
    tools: Any = ({"type": "function", "function": {"name": "read", "parameters": PARAMETERS}},)

    def ask(self, history: Sequence[Any], *, stream: bool) -> Shown:
        """Send a history, and return what comes."""
        said = [{"role": "system", "content": self.instructions}, *history]
        body = {"model": "m-1", "messages": said, "tools": self.tools}
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
            state: Any = ChatCompletionStreamState()
            kind = openai.Stream[ChatCompletionChunk]
            for chunk in self._client.post("/chat/completions", cast_to=Any, body=body, stream=True, stream_cls=kind):
                ChatCompletionChunk.model_validate(chunk.to_dict(), strict=True)
                state.handle_chunk(chunk)
            answer: Any = state.get_final_completion()
        else:
            answer = self._client.post("/chat/completions", cast_to=ChatCompletion, body=body)
        found: Any = ChatCompletion.model_validate_json(answer.to_json(exclude_none=False))
        [choice] = found.choices
        message = json.loads(choice.message.to_json(exclude_none=True))
        for call in message.get("tool_calls", ()):
            call.pop("index", None)
        calls = tuple(
            _call(one.id, one.function.name, one.function.arguments) for one in choice.message.tool_calls or ()
        )
        text = (choice.message.content or "").removeprefix(f"{ASIDE}\n").removeprefix(ASIDE)
        used = found.usage
        texts = (text,) if text else ()
        return Shown(
            finish=choice.finish_reason,
            texts=texts,
            calls=calls,
            usage=(used.prompt_tokens, used.completion_tokens),
            said=[message],
        )

    def results(self, found: Sequence[tuple[str, str]]) -> list[Any]:
        """Return results by the ids of their calls."""
        return [{"role": "tool", "tool_call_id": id_, "content": text} for id_, text in found]


class ResponsesClient(_OpenAI):
    """Responses, without a state at the server."""

    protocol = "responses"
    tools: Any = ({"type": "function", "name": "read", "parameters": PARAMETERS, "strict": False},)

    def ask(self, history: Sequence[Any], *, stream: bool) -> Shown:
        """Send a history, and return what comes."""
        body = {"model": "m-1", "instructions": self.instructions, "input": list(history), "tools": self.tools}
        body |= {"store": False, "include": ["reasoning.encrypted_content"]}
        if stream:
            kind = openai.Stream[ResponseStreamEvent]
            came: Any = self._client.post(
                "/responses", cast_to=Any, body={**body, "stream": True}, stream=True, stream_cls=kind
            )
            events = list(came)
            assert [one.sequence_number for one in events] == list(range(len(events)))
            answer = events[-1].response
        else:
            answer = self._client.post("/responses", cast_to=Response, body=body)
        found: Any = Response.model_validate_json(answer.to_json(exclude_none=False))
        texts = [part.text for item in found.output if item.type == "message" for part in item.content]
        calls = [_call(one.call_id, one.name, one.arguments) for one in found.output if one.type == "function_call"]
        used = found.usage
        return Shown(
            finish=found.status,
            texts=tuple(text for text in texts if text != ASIDE),
            calls=tuple(calls),
            usage=(used.input_tokens, used.output_tokens),
            said=[json.loads(one.to_json(exclude_none=True)) for one in found.output],
        )

    def results(self, found: Sequence[tuple[str, str]]) -> list[Any]:
        """Return results by the ids of their calls."""
        return [{"type": "function_call_output", "call_id": id_, "output": text} for id_, text in found]


class MessagesClient(_Speaking):
    """Messages of Anthropic."""

    protocol = "anthropic"
    tools: Any = ({"name": "read", "input_schema": PARAMETERS},)

    def __init__(
        self, base: str, headers: Mapping[str, str] | None = None, *, instructions: str = INSTRUCTIONS
    ) -> None:
        self._client = anthropic.Anthropic(base_url=base, api_key="sk-ant", max_retries=0, default_headers=headers)
        self.instructions = instructions

    def ask(self, history: Sequence[Any], *, stream: bool) -> Shown:
        """Send a history, and return what comes."""
        body = {"model": "m-1", "max_tokens": 1000, "system": self.instructions, "messages": list(history)}
        body["tools"] = self.tools
        if stream:
            kind = anthropic.Stream[RawMessageStreamEvent]
            answer: Any = None
            pieces: dict[int, bytes] = {}
            for event in self._client.post(
                "/v1/messages", cast_to=Any, body={**body, "stream": True}, stream=True, stream_cls=kind
            ):
                answer = accumulate_event(event=event, current_snapshot=answer, json_bufs=pieces)
        else:
            answer = self._client.post("/v1/messages", cast_to=ClaudeMessage, body=body)
        answer = ClaudeMessage.model_validate_json(answer.to_json(exclude_none=False))
        texts = tuple(one.text for one in answer.content if one.type == "text" and one.text != ASIDE)
        calls = [_call(one.id, one.name, json.dumps(one.input)) for one in answer.content if one.type == "tool_use"]
        used = answer.usage
        sent = used.input_tokens + (used.cache_read_input_tokens or 0) + (used.cache_creation_input_tokens or 0)
        blocks = [json.loads(one.to_json(exclude_none=True)) for one in answer.content]
        return Shown(
            finish=answer.stop_reason,
            texts=texts,
            calls=tuple(calls),
            usage=(sent, used.output_tokens),
            said=[{"role": "assistant", "content": blocks}],
        )

    def results(self, found: Sequence[tuple[str, str]]) -> list[Any]:
        """Return results by the ids of their calls."""
        blocks = [{"type": "tool_result", "tool_use_id": id_, "content": text} for id_, text in found]
        return [{"role": "user", "content": blocks}]


Client = ChatClient | ResponsesClient | MessagesClient
CLIENTS: Mapping[str, type[Client]] = {one.protocol: one for one in (ChatClient, ResponsesClient, MessagesClient)}

Sending = Callable[[list[Any]], list[Any]]
"""Makes of a client's history what it sends of it."""


def whole(history: list[Any]) -> list[Any]:
    """Send all of it."""
    return history


@dataclass(slots=True)
class Session:
    """A session under way."""

    plan: Plan
    client: Client
    sending: Sending = whole
    history: list[Any] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)
    """All answers, in order."""

    def turn(self, turn: int) -> None:
        """Say something, and give results until the model has nothing more to ask for; each second request is streamed."""
        self.history.append(self.client.user(self.plan.question(turn)))
        for step in range(self.plan.rounds(turn)):
            shown = self._ask()
            wanted = [(id_, name, json.dumps(told, sort_keys=True)) for id_, name, told in self.plan.calls(turn, step)]
            assert list(shown.calls) == wanted, (turn, step, shown)
            found = [(call[0], self.plan.notes(turn, step, place)) for place, call in enumerate(shown.calls)]
            self.history += self.client.results(found)
        last = self._ask()
        assert (last.texts, last.calls) == ((self.plan.answer(turn),), ()), (turn, last)

    def run(self, turns: range | None = None) -> list[Shown]:
        """Run through turns, by default all, and return all answers so far."""
        for turn in turns or range(self.plan.turns):
            self.turn(turn)
        return self.shown

    def _ask(self) -> Shown:
        shown = self.client.ask(self.sending(self.history), stream=len(self.shown) % 2 == 1)
        self.shown.append(shown)
        self.history += shown.said
        return shown


def _call(id_: str, name: str, arguments: str) -> tuple[str, str, str]:
    return id_, name, json.dumps(json.loads(arguments), sort_keys=True)
