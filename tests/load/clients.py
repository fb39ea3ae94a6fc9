"""Clients that talk: each sends its whole history with each request, and asks again until it is answered."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

import aiohttp

from tests.load.serving import Server
from tests.load.tries import OUTCOMES, Fate, Try, history_item, make, words

PROTOCOLS = ("chat_completions", "responses", "anthropic")
PATHS = {"chat_completions": "/v1/chat/completions", "responses": "/v1/responses", "anthropic": "/v1/messages"}
THINK_S = 0.8
"""How long a client waits before its next question, in seconds, at most."""

PATIENCE_S = 60
"""How long a client waits for an answer; the proxy gives up long before."""

TRIES = 4
"""After so many bad answers comes a good one."""

Said = tuple[str, str]
"""Kind and mark of a message."""


@dataclass(slots=True, kw_only=True)
class Dialogue:
    """One conversation of a client, as the client knows it."""

    name: str
    protocol: str
    headers: dict[str, str]
    by_id: bool = False
    """Whether it sends only what is new, after the id of the last response."""
    transcript: list[Said] = field(default_factory=list)
    """What was said and acknowledged."""
    tries: list[Try] = field(default_factory=list)

    @property
    def answered(self) -> list[Try]:
        """The answers that it got whole."""
        return [one for one in self.tries if one.outcome == "acknowledged"]


class Client:
    """Has one dialogue after the other."""

    def __init__(
        self, number: int, *, server: Server, tries: dict[str, Try], numbers: Iterator[int], seed: int, key: str
    ) -> None:
        """Begin; clients differ in protocol and in what they say of who they are.

        Args:
            number: tells it from others.
            server: whom it asks.
            tries: where each request that it tries is entered for the provider.
            numbers: for ids of answers.
            seed: of all that it does by chance.
            key: a key of its own, which a quarter of the clients present.
        """
        self.name = f"c{number:02}"
        self.dialogues: list[Dialogue] = []
        self.surprises: list[str] = []
        """Outcomes that should not have been."""
        self._server = server
        self._tries = tries
        self._numbers = numbers
        self._rng = Random(f"{seed}/{number}")
        self._protocol = PROTOCOLS[number % 3]
        self._who = number // 3 % 4
        self._key = key

    async def talk(self, until: float) -> None:
        """Talk until a moment of the monotonic clock."""
        timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            for n in count():
                dialogue = Dialogue(
                    name=f"{self.name}-d{n}", protocol=self._protocol, headers=self._headers(n),
                    by_id=self._protocol == "responses" and n % 3 == 2,
                )  # fmt: skip
                self.dialogues.append(dialogue)
                if not await self._converse(session, dialogue, until):
                    return

    def _headers(self, n: int) -> dict[str, str]:
        match self._who:
            case 0:
                return {"x-everlog-session-id": f"{self.name}-{n}"}
            case 1:
                return {"x-everlog-key": self._key}
            case 2:
                return {"x-everlog-user-id": self.name}
            case _:
                return {}

    async def _converse(self, session: aiohttp.ClientSession, dialogue: Dialogue, until: float) -> bool:
        """Have one dialogue; say whether it came to its end."""
        history: list[Any] = []
        messages = count()
        for _ in range(self._rng.randint(2, 9)):
            await asyncio.sleep(self._rng.random() * THINK_S)
            mark = f"{dialogue.name}-m{next(messages)}"
            new: list[Any] = [{"role": "user", "content": words(mark, self._rng, self._rng.randint(3, 30))}]
            said: list[Said] = [("user", mark)]
            for rounds in range(3):
                calls = rounds < 2 and self._rng.random() < 0.35
                one = await self._answered(session, dialogue, [*history, *new], new, f"{mark}-", calls, until)
                if one is None:
                    return False
                history += [*new, *history_item(one)]
                dialogue.transcript += [*said, *answer_said(one)]
                if not calls:
                    break
                mark = f"{dialogue.name}-m{next(messages)}"
                new, said = [_result(one, words(mark, self._rng, 12))], [("tool_result", mark)]
        return True

    async def _answered(
        self, session: aiohttp.ClientSession, dialogue: Dialogue, history: list[Any], new: list[Any], mark: str,
        calls: bool, until: float,
    ) -> Try | None:  # fmt: skip
        """Ask until there is an answer; None if time is over before."""
        bad = 0
        for n in count():
            if time.monotonic() >= until:
                return None
            fate: Fate | None = "whole" if bad == TRIES else None
            rng = Random(self._rng.random())
            one = make(f"{mark}t{n}", dialogue.protocol, rng, next(self._numbers), calls=calls, fate=fate)
            self._tries[one.mark] = one
            dialogue.tries.append(one)
            life, is_up = self._server.life, self._server.is_up
            one.outcome = await self._ask(session, dialogue, one, history, new)
            if one.outcome == "acknowledged":
                return one
            is_quiet = is_up and self._server.is_up and life == self._server.life
            if is_quiet and one.outcome not in OUTCOMES[one.fate]:
                self.surprises.append(f"{one.mark} ({one.fate}, stream {one.is_stream}): {one.outcome}")
            bad = min(TRIES, bad + is_quiet)
            await asyncio.sleep((0.05 if is_quiet else 0.5) + self._rng.random() * 0.3)
        raise AssertionError("it counts for ever")

    async def _ask(
        self, session: aiohttp.ClientSession, dialogue: Dialogue, one: Try, history: list[Any], new: list[Any]
    ) -> str:
        """Send one request; return what came of it."""
        body = _body(dialogue, one, history, new)
        headers = {"authorization": "Bearer sk-client", "x-mark": one.mark, **dialogue.headers}
        leaves_s = one.rng.random() * 0.6 if one.fate == "flees" else PATIENCE_S
        try:
            async with asyncio.timeout(leaves_s):
                async with session.post(self._server.url + PATHS[one.protocol], json=body, headers=headers) as answer:
                    one.degraded = "x-everlog-degraded" in answer.headers
                    return await self._read(answer, one)
        except TimeoutError:
            return "left" if one.fate == "flees" else "never ended"
        except (aiohttp.ClientError, ConnectionError) as error:
            return "broke off" if isinstance(error, aiohttp.ClientPayloadError) else f"failed: {type(error).__name__}"

    async def _read(self, answer: aiohttp.ClientResponse, one: Try) -> str:
        whole = one.whole
        if answer.status != 200:
            got = await answer.read()
            return "refused" if (answer.status, got) == (one.head[0], whole) else str(answer.status)
        got = b""
        enough = max(1, len(b"".join(one.pieces[: one.stops]))) if one.fate == "leaves" and one.is_stream else None
        while data := await answer.content.readany():
            got += data
            if got == whole and one.fate not in {"broken", "garbage"}:
                one.acknowledged_at, one.life = time.monotonic(), self._server.life
                return "acknowledged"
            if enough is not None and len(got) >= enough:
                answer.close()
                return "left"
        if got == whole:
            return one.fate
        return "other bytes"


def answer_said(one: Try) -> list[Said]:
    """Return an answer as kinds and marks of the messages that it is in the log."""
    said = [("assistant", one.mark)] if one.answer.text else []
    return said + [("tool_call", one.mark) for _ in one.answer.calls]


def _result(one: Try, text: str) -> dict[str, Any]:
    """Return the result of a call, as the protocol has it."""
    (call,) = one.answer.calls
    if one.protocol == "chat_completions":
        return {"role": "tool", "tool_call_id": call[0], "content": text}
    if one.protocol == "responses":
        return {"type": "function_call_output", "call_id": call[0], "output": text}
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call[0], "content": text}]}


def _body(dialogue: Dialogue, one: Try, history: list[Any], new: list[Any]) -> dict[str, Any]:
    """Return what is sent."""
    body: dict[str, Any] = {"model": "m-1", "stream": one.is_stream}
    system = f"You help {dialogue.name}."
    if one.protocol == "chat_completions":
        return body | {
            "messages": [{"role": "system", "content": system}, *history],
            "stream_options": {"include_usage": True},
        }
    if one.protocol == "anthropic":
        return body | {"max_tokens": 1000, "system": system, "messages": history}
    body["instructions"] = system
    if not dialogue.by_id:
        return body | {"input": history, "store": False}
    answered = dialogue.answered
    return body | {"input": new} | ({"previous_response_id": f"resp_{answered[-1].number}"} if answered else {})
