"""`everlog serve` before a provider: the official clients see what they see without it, and so does the provider.

Numbers in names are those of reported faults of proxies in use.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from everlog.messages import JSON
from everlog.testing.upstream import Answer, Cut, Malformed, Manner, Received, Refused, Reset, Stalled
from everlog.testing.upstream.server import Script
from tests.acceptance.proxies import Proxy, Stage, serving
from tests.acceptance.talks import QUESTION, calls_of, chat_talk, claude, claude_talk, open_ai, responses_talk, talking
from tests.quick import Quick

NESTED: JSON = {"path": "notes/ä.txt", "lines": [1, 2.50, 12345678901234567890], "deep": {"é": None}, "empty": {}}
Ask = Callable[[str], Any]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    stage = Stage()
    with stage.upstream:
        yield stage


@pytest.fixture(scope="module")
def proxy(stage: Stage, quick: Quick, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with serving(stage.upstream.url, tmp_path_factory.mktemp("home"), program=[quick.program]) as proxy:
        yield proxy


def both(stage: Stage, proxy: Proxy, script: Callable[[], Script], ask: Ask, manner: Manner | None = None) -> Any:
    """Ask directly, then through the proxy; return what came, which must be the same, as must be what was sent."""
    seen = []
    for base in (stage.upstream.url.removesuffix("/v1"), proxy.url):
        upstream = stage.play(script(), manner or Manner())
        came = ask(base)
        sent = [(one.method, one.path, one.raw, {**one.headers, "host": ""}) for one in upstream.requests]
        seen.append((came, sent))
    (direct, sent_directly), (relayed, sent_on) = seen
    assert relayed == direct
    for (*one, headers), (*other, found) in zip(sent_directly, sent_on, strict=True):
        assert other == one
        headers["accept-encoding"] = ", ".join(
            name for name in headers["accept-encoding"].split(", ") if name in {"gzip", "deflate", "identity"}
        )
        assert without_connection(found) == without_connection(headers)
    return direct


def without_connection(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name != "connection"}


@pytest.mark.parametrize("talk", [chat_talk, responses_talk, claude_talk])
@pytest.mark.parametrize("stream", [False, True])
def test_a_conversation_with_tools_is_the_same_with_and_without_the_proxy(
    stage: Stage, proxy: Proxy, talk: Any, stream: bool
):
    came = both(stage, proxy, lambda: talking, lambda base: talk(base, 4, stream=stream))
    assert len([one for one in came if isinstance(one, dict) and one["usage"]]) == 2 * 4


@pytest.mark.parametrize("manner", [Manner(piece=1), Manner(whole_calls=True)])
def test_faults_1_2_5_7_calls_arrive_whole_and_the_same_streamed_or_not(stage: Stage, proxy: Proxy, manner: Manner):
    calls: Any = (("call_1", "read", NESTED), ("call_2", "read", {}))[: 1 if manner.whole_calls else 2]

    def script() -> list[Answer]:
        return [Answer(calls=calls)] * 3

    streamed = both(stage, proxy, script, lambda base: calls_of(base, stream=True), manner)
    assert both(stage, proxy, script, lambda base: calls_of(base, stream=False), manner) == streamed
    assert streamed == [(end, list(calls)) for end in ("tool_calls", "completed", "tool_use")]


@pytest.mark.parametrize("manner", [Manner(repeats_ids=True), Manner(empty_output=True), Manner(unnumbered=True)])
def test_fault_4_oddities_of_a_server_reach_the_client_as_they_are(stage: Stage, proxy: Proxy, manner: Manner):
    def ask(base: str) -> list[Any]:
        said: Any = [QUESTION]
        streams: Any = (
            open_ai(base).chat.completions.create(model="m-1", messages=said, stream=True),
            open_ai(base).responses.create(model="m-1", input=said, stream=True),
        )
        return [event.model_dump(warnings=False) for stream in streams for event in stream]

    both(stage, proxy, lambda: [Answer(calls=(("call_1", "read", NESTED),))] * 2, ask, manner)


def chunks_of(base: str, **body: Any) -> list[Any]:
    said: Any = [QUESTION]
    return [
        chunk.model_dump()
        for chunk in open_ai(base).chat.completions.create(model="m-1", messages=said, stream=True, **body)
    ]


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": False}}])
def test_faults_8_and_9_usage_is_not_asked_for_in_the_place_of_the_client(
    stage: Stage, proxy: Proxy, options: dict[str, Any]
):
    chunks = both(stage, proxy, lambda: [Answer(text="Milk.")], lambda base: chunks_of(base, **options))
    assert [chunk for chunk in chunks if not chunk["choices"] or chunk["usage"]] == []
    assert json.loads(stage.upstream.requests[0].raw).get("stream_options") == options.get("stream_options")


@pytest.mark.parametrize(
    "manner", [Manner(comments="ping"), Manner(comments="OPENROUTER PROCESSING", empty_choices=True)]
)
def test_faults_10_13_14_comments_and_empty_chunks_pass_and_none_is_added(stage: Stage, proxy: Proxy, manner: Manner):
    def ask(base: str) -> list[Any]:
        return chunks_of(base, stream_options={"include_usage": True})

    chunks = both(stage, proxy, lambda: [Answer(text="Milk.")], ask, manner)
    assert chunks[-1]["usage"]["completion_tokens"] == 20


def test_fault_15_a_stream_of_responses_ends_with_its_last_event(stage: Stage, proxy: Proxy):
    def ask(base: str) -> list[Any]:
        with open_ai(base).responses.stream(model="m-1", input="Hello") as events:
            return [event.type for event in events]

    assert both(stage, proxy, lambda: [Answer(text="Milk.")], ask)[-1] == "response.completed"


def trouble_of(base: str, ask: Ask) -> Any:
    """What a client raises: its class, status, body, and the headers that came with it."""
    try:
        return ask(base)
    except (openai.APIStatusError, anthropic.APIStatusError) as error:
        headers = {name: value for name, value in error.response.headers.items() if name not in {"date", "connection"}}
        return type(error).__name__, error.status_code, error.body, headers
    except (openai.APIConnectionError, anthropic.APIConnectionError) as error:
        return (type(error).__name__,)


def ask_openai(base: str) -> Any:
    return open_ai(base).chat.completions.create(model="m-1", messages=[QUESTION]).model_dump()


def ask_openai_streamed(base: str) -> Any:
    return chunks_of(base)


def ask_claude(base: str) -> Any:
    return claude(base).messages.create(model="m-1", max_tokens=9, messages=[QUESTION]).model_dump()


def ask_claude_streamed(base: str) -> Any:
    return [
        one.type for one in claude(base).messages.create(model="m-1", max_tokens=9, messages=[QUESTION], stream=True)
    ]


ASKING = [ask_openai, ask_openai_streamed, ask_claude, ask_claude_streamed]


@pytest.mark.parametrize("ask", ASKING)
@pytest.mark.parametrize("status", [400, 401, 429, 503, 529])
def test_faults_17_and_27_a_refusal_is_the_same_with_its_headers(stage: Stage, proxy: Proxy, ask: Ask, status: int):
    found = both(stage, proxy, lambda: [Refused(status=status, retry_after="7")], lambda base: trouble_of(base, ask))
    assert found[1] == status
    assert found[3]["retry-after"] == "7"


@pytest.mark.parametrize("ask", ASKING)
@pytest.mark.parametrize(
    "trouble",
    [Cut(answer=Answer(text="word " * 40)), Malformed(), Malformed(text="<html>busy</html>")],
    ids=["cut", "malformed", "a page"],
)
def test_what_breaks_off_or_is_no_answer_does_so_for_the_client(stage: Stage, proxy: Proxy, ask: Ask, trouble: Any):
    def asking(base: str) -> Any:
        try:
            return trouble_of(base, ask)
        except Exception as error:  # noqa: BLE001 -- whatever the client makes of it
            return type(error).__name__

    both(stage, proxy, lambda: [trouble], asking)


@pytest.mark.parametrize("ask", ASKING)
def test_an_upstream_that_breaks_off_before_it_answers_is_502_in_the_form_of_the_client(
    stage: Stage, proxy: Proxy, ask: Ask
):
    stage.play(lambda received: Reset())
    kind, status, body, headers = trouble_of(proxy.url, ask)
    assert (kind, status, headers["content-type"]) == ("InternalServerError", 502, "application/json")
    assert (body.get("error") or body)["code"] == "upstream_failed"
    assert "127.0.0.1" not in json.dumps(body)


@pytest.mark.parametrize("ask", ASKING)
@pytest.mark.parametrize("events", [0, 3])
def test_fault_22_a_client_that_leaves_ends_the_request_to_the_upstream(
    stage: Stage, proxy: Proxy, ask: Ask, events: int
):
    """It leaves after its own time-out, before the first event, behind some, or in the middle of a body."""
    upstream = stage.play([Stalled(answer=Answer(text="word " * 40), events=events)])
    with pytest.raises((openai.APIConnectionError, anthropic.APIConnectionError, httpx2.ReadTimeout)):
        hurried(ask, proxy.url)
    assert upstream.wait_until_gone()


def hurried(ask: Ask, base: str) -> Any:
    """Ask with a client that does not wait long."""
    said: Any = [QUESTION]
    if "openai" in ask.__name__:
        return list(
            open_ai(base, timeout=0.2).chat.completions.create(
                model="m-1", messages=said, stream="streamed" in ask.__name__
            )
        )
    return list(
        claude(base, timeout=0.2).messages.create(
            model="m-1", max_tokens=9, messages=said, stream="streamed" in ask.__name__
        )
    )


def test_models_tokens_and_embeddings_pass(stage: Stage, proxy: Proxy):
    def ask(base: str) -> list[Any]:
        return [
            open_ai(base).models.list().model_dump(),
            claude(base).models.list().model_dump(),
            claude(base).messages.count_tokens(model="m-1", messages=[QUESTION]).model_dump(),
            trouble_of(base, lambda base: open_ai(base).embeddings.create(model="m-1", input="x")),
        ]

    def script() -> Script:
        return [Refused(status=404)]

    models, _, tokens, _ = both(stage, proxy, script, ask)
    assert ([one["id"] for one in models["data"]], tokens["input_tokens"] > 0) == (["m-1"], True)


def test_the_official_async_clients_work_side_by_side(stage: Stage, proxy: Proxy):
    async def ask(client: openai.AsyncOpenAI, number: int) -> str:
        said: Any = [{"role": "user", "content": f"number {number}"}]
        stream = await client.chat.completions.create(model="m-1", messages=said, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def all_of_them() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key="k", max_retries=0) as client:
            return await asyncio.gather(*(ask(client, number) for number in range(32)))

    def echo(received: Received) -> Answer:
        return Answer(text=received.body["messages"][-1]["content"] * 5)

    stage.play(echo)
    assert asyncio.run(all_of_them()) == [f"number {number}" * 5 for number in range(32)]
