"""What may be set, what is refused before any request, and what becomes of it (chat A.1 81 to 96, 105)."""

import enum
import json
import traceback
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypedDict

import pytest

from everlog.chat.attachments import attachment
from everlog.chat.effects import Timeouts
from everlog.chat.retries import Retry
from everlog.chat.routes import ChatConfig
from everlog.chat.structured import as_schema
from everlog.errors import BadReply, Mistake
from everlog.protocols.exchange import Citation, Thinking
from everlog.registry import Model
from everlog.testing.upstream import Answer
from tests.unit.chat.talking import called


@pytest.mark.covers("D4")
def test_every_setting_returns_the_chat(chatting):
    chat = chatting().chat
    settings: dict[str, Any] = {
        "with_instructions": "x",
        "with_tools": None,
        "with_fallbacks": None,
        "with_temperature": 0.5,
        "with_max_output_tokens": 10,
        "with_thinking": True,
        "with_schema": None,
        "with_caching": True,
        "with_end_user": "u",
        "with_provider_options": {},
        "with_headers": {},
        "with_config": chat.config,
    }
    assert [name for name, value in settings.items() if getattr(chat, name)(value) is not chat] == []


@pytest.mark.covers("D20", "D26", "D78", "D86")
def test_temperature_and_limit_are_sent_until_they_are_removed(talk):
    talk = talk(Answer(text="1"), Answer(text="2"))
    talk.chat.with_temperature(0.2).with_max_output_tokens(50)
    talk.ask()
    limit = {"chat_completions": "max_completion_tokens", "responses": "max_output_tokens", "anthropic": "max_tokens"}
    name = limit[talk.protocol]
    assert (talk.bodies[0]["temperature"], talk.bodies[0][name]) == (0.2, 50)
    talk.chat.with_temperature(None).with_max_output_tokens(None)
    talk.ask()
    assert "temperature" not in talk.bodies[1]
    assert talk.bodies[1].get(name) == (4096 if talk.protocol == "anthropic" else None)


@pytest.mark.parametrize(
    ("verb", "given", "complaint"),
    [
        ("with_temperature", "hot", "a temperature is None or a number of at least 0"),
        ("with_temperature", True, "a temperature is None or a number of at least 0"),
        ("with_temperature", -1, "a temperature is None or a number of at least 0"),
        ("with_temperature", float("nan"), "a temperature is None or a number of at least 0"),
        ("with_temperature", float("inf"), "a temperature is None or a number of at least 0"),
        ("with_max_output_tokens", 0, "max_output_tokens is None or a whole number of at least 1"),
        ("with_max_output_tokens", 1.5, "max_output_tokens is None or a whole number of at least 1"),
        ("with_end_user", 5, "an end user is a str or None"),
        ("with_headers", ["a"], "headers are a mapping or None"),
        ("with_headers", {"a": 1}, "the header a is a str"),
        ("with_headers", {"x-a": "b\r\nx-c: d"}, "the value of the header x-a is printable ASCII"),
        ("with_headers", {"x-a": "Zürich"}, "the value of the header x-a is printable ASCII"),
        ("with_headers", {"x-a": " b"}, "without spaces around it"),
        ("with_headers", {"x a": "b"}, "the name of a header is letters, digits and -, not 'x a'"),
        ("with_headers", {"": "b"}, "the name of a header is letters, digits and -, not ''"),
        ("with_headers", {"Content-Length": "1"}, "the header Content-Length is set by whoever sends the body"),
        ("with_headers", {"transfer-encoding": "chunked"}, "the header transfer-encoding is set by whoever"),
        ("with_provider_options", {"a": {1, 2}}, "provider options are what JSON can say"),
        ("with_provider_options", {"a": [float("inf")]}, "provider options are what JSON can say"),
        ("with_caching", {"ttl": b"1h"}, "options of caching are what JSON can say"),
        ("with_compaction", {"at": object()}, "options of compaction are what JSON can say"),
        ("with_provider_options", 5, "provider options are a mapping or None"),
        ("with_provider_options", {1: 2}, "a name in provider options is a str"),
        ("with_schema", 5, "a schema is a JSON schema, a dataclass"),
        ("with_schema", {1: 2}, "the names in a JSON schema are str"),
        ("with_caching", None, "with_caching takes True, False or options, not NoneType"),
        ("with_caching", "1h", "with_caching takes True, False or options, not str"),
        ("with_thinking", None, "with_thinking takes True, False or options, not NoneType"),
        (
            "with_thinking",
            {"efort": "low"},
            r"no option 'efort'; it has effort, budget, display; did you mean effort\?",
        ),
        ("with_thinking", {"effort": None}, "effort of with_thinking is str, not NoneType"),
        ("with_thinking", {"budget": 0}, "a number of tokens, at least 1"),
        ("with_thinking", {"budget": True}, "budget of with_thinking is int, not bool"),
    ],
)
@pytest.mark.covers("chat A.1 81", "chat A.1 92", "D66", "D87")
def test_a_wrong_value_is_refused_when_it_is_given(chatting, verb, given, complaint):
    with pytest.raises(Mistake, match=complaint):
        getattr(chatting().chat, verb)(given)


@pytest.mark.covers("chat A.1 81", "chat A.1 92")
@pytest.mark.parametrize("verb", ["with_thinking", "with_caching"])
def test_what_is_switched_off_takes_no_options(chatting, verb):
    with pytest.raises(Mistake, match=rf"{verb}\(False\) takes no options"):
        getattr(chatting().chat, verb)(False, ttl="1h")


@pytest.mark.covers("chat A.1 92", "D64", "D87")
@pytest.mark.parametrize("effort", ["minimal", "low", "high", "xhigh", "max", "none"])
def test_an_effort_is_passed_on_as_it_is(talk, effort):
    talk = talk()
    body = talk.chat.with_thinking(effort=effort) and talk.do("render")
    match talk.protocol:
        case "chat_completions":
            assert body["reasoning_effort"] == effort
        case "responses":
            assert body["reasoning"] == {"effort": effort}
        case _ if effort == "none":
            assert "thinking" not in body
        case _:
            assert (body["thinking"], body["output_config"]) == ({"type": "adaptive"}, {"effort": effort})
    assert talk.chat.thinking == Thinking(effort=effort)


@pytest.mark.covers("chat A.1 92", "chat A.1 93", "D64", "D87")
def test_thinking_is_on_off_or_of_a_budget(talk):
    talk = talk()
    assert talk.chat.thinking is None
    talk.chat.with_thinking(False)
    off: dict[str, dict[str, Any]] = {
        "anthropic": {"thinking": {"type": "disabled"}},
        "responses": {"reasoning": {"effort": "none"}},
    }
    assert off.get(talk.protocol, {"reasoning_effort": "none"}).items() <= talk.do("render").items()
    talk.chat.with_thinking({"budget": 2000, "display": "summarized"})
    if talk.protocol == "anthropic":
        wanted = {"type": "enabled", "budget_tokens": 2000, "display": "summarized"}
        assert talk.do("render")["thinking"] == wanted
    else:
        with pytest.raises(Mistake, match="has no budget of thinking"):
            talk.do("render")


@pytest.mark.covers("D64")
def test_a_model_that_never_thinks_is_told_nothing_of_thinking(chatting):
    chat = chatting().chat.with_model("gpt-4.1").with_thinking(effort="high")
    assert chat.thinking is None
    assert chat.with_model("gpt-5.6-luna").thinking == Thinking(effort="high")


@pytest.mark.covers("chat A.1 94")
def test_a_temperature_is_dropped_for_models_that_take_none(chatting, caplog):
    talk = chatting()
    talk.chat.with_model("anthropic/claude-opus-5").with_temperature(0.5)
    model = talk.chat.model
    assert model.temperature is False
    with caplog.at_level("DEBUG"):
        assert "temperature" not in talk.do("render")
    assert [one.message for one in caplog.records if one.name.startswith("everlog")] == [
        "temperature is dropped: the model takes none"
    ]


@pytest.mark.covers("chat A.1 94", "chat A.2 213")
def test_a_temperature_is_dropped_for_models_that_reason_where_responses_refuses_it(chatting, caplog):
    talk = chatting()
    talk.chat._state.route = replace(
        talk.chat._state.route, model=Model(id="m", provider="openai", reasons=True), asked="responses"
    )
    talk.chat.with_temperature(0.5)
    with caplog.at_level("DEBUG"):
        assert "temperature" not in talk.do("render")
    assert [one.message for one in caplog.records if one.name.startswith("everlog")] == [
        "temperature is dropped: the model takes none"
    ]


@pytest.mark.covers("chat A.1 81", "D12", "D66")
def test_caching_is_unset_on_with_options_or_off(chatting):
    chat = chatting().chat
    assert chat.caching is None
    assert chat.with_caching(ttl="1h").caching == {"ttl": "1h"}
    assert chat.with_caching().caching == {}
    assert chat.with_caching({"key": "a"}).caching == {"key": "a"}
    assert chat.with_caching(False).caching is False


@pytest.mark.covers("chat A.1 82", "chat A.1 83", "chat A.2 706", "D66")
def test_caching_options_are_the_protocols_and_others_are_refused_at_the_render(talk):
    talk = talk()
    is_anthropic = talk.protocol == "anthropic"
    wanted: dict[str, Any] = {"prompt_cache_key": "a"}
    if is_anthropic:
        wanted = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    talk.chat.with_caching()
    assert ("cache_control" in talk.do("render")) is is_anthropic
    talk.chat.with_caching({"ttl": "1h"} if is_anthropic else {"key": "a"})
    assert wanted.items() <= talk.do("render").items()
    if not is_anthropic:
        talk.chat.with_caching(mode="explicit", ttl="12h")
        assert talk.do("render")["prompt_cache_options"] == {"mode": "explicit", "ttl": "12h"}
        assert "prompt_cache_key" not in talk.do("render")
    talk.chat.with_caching({"key": "a"} if is_anthropic else {"tll": "1h"})
    with pytest.raises(Mistake, match="caching takes ttl here, not key" if is_anthropic else "key, ttl, mode here"):
        talk.do("render")
    assert talk.upstream.requests == []


@pytest.mark.covers("chat A.1 84", "chat A.1 85", "D47", "D68", "D77")
def test_a_boundary_of_the_cache_is_marked_unless_caching_is_off(talk):
    talk = talk()
    with pytest.raises(Mistake, match="no message to cache"):
        talk.chat.cache_until_here()
    talk.chat.with_instructions("Rules.", cache_until_here=True).ask_later("Hi")
    assert talk.chat.cache_until_here().cache_until_here() is talk.chat
    mark = '"cache_control":{"type":"ephemeral"}' if talk.protocol == "anthropic" else '"prompt_cache_breakpoint"'
    assert talk.do("render_bytes").count(mark.encode()) == 2
    talk.chat.with_caching(False)
    assert mark.encode() not in talk.do("render_bytes")


@pytest.mark.covers("chat A.1 84")
def test_a_boundary_is_marked_on_the_last_block_of_what_may_carry_it(talk):
    talk = talk()
    talk.chat.ask_later("Look", files=[attachment(b"%PDF-1.7", name="a.pdf")]).cache_until_here()
    talk.chat.add_message({"role": "assistant", "content": "Yes."})
    talk.chat.cache_until_here()
    body = talk.do("render")
    asked, answered = body["input" if talk.protocol == "responses" else "messages"]
    name = "cache_control" if talk.protocol == "anthropic" else "prompt_cache_breakpoint"
    assert [name in part for part in asked["content"]] == [False, True]
    assert (name in json.dumps(answered)) is (talk.protocol == "anthropic")
    if talk.protocol != "anthropic":
        assert body["prompt_cache_options"] == {"mode": "explicit"}


@pytest.mark.covers("chat A.1 85", "chat A.2 706")
def test_boundaries_and_automatic_caching_go_together_with_four_marks_at_most(talk):
    talk = talk()
    talk.chat.with_caching().with_instructions("Rules.", cache_until_here=True)
    for number in range(5):
        talk.chat.add_message({"role": "user", "content": str(number)})
        talk.chat.cache_until_here()
    body = talk.do("render")
    if talk.protocol == "anthropic":
        assert body["cache_control"] == {"type": "ephemeral"}
        assert [json.dumps(one).count('"cache_control"') for one in body["messages"]] == [0, 0, 1, 1, 1]
        assert json.dumps(body).count('"cache_control"') == 4
    else:
        assert json.dumps(body).count('"prompt_cache_breakpoint"') == 6


@pytest.mark.covers("chat A.1 105", "D17", "D74")
@pytest.mark.parametrize(
    ("model", "field"),
    [
        ("gpt-5.6-luna", {"safety_identifier": "u-1"}),
        ("anthropic/claude-sonnet-5-5", {"metadata": {"user_id": "u-1"}}),
        ("deepseek/deepseek-flash", {"user_id": "u-1"}),
        ("openrouter/openai/gpt-4o", {"user": "u-1"}),
        ("ollama/any", {"user": "u-1"}),
    ],
)
def test_an_end_user_is_told_in_each_providers_way(chatting, model, field):
    talk = chatting()
    talk.chat.with_model(model).with_end_user("u-1").ask_later("Hi")
    assert field.items() <= talk.do("render").items()
    assert talk.chat.end_user == "u-1"
    talk.chat.with_end_user(None)
    assert not field.items() <= talk.do("render").items()


@pytest.mark.covers("chat A.1 105")
def test_every_provider_has_a_way_to_tell_of_an_end_user(talk):
    talk = talk(Answer(text="Hello."))
    talk.chat.with_end_user("u-1")
    talk.ask()
    name = {"anthropic": "metadata"}.get(talk.protocol, "safety_identifier")
    assert talk.bodies[0][name] == ({"user_id": "u-1"} if talk.protocol == "anthropic" else "u-1")


@pytest.mark.covers("D23", "D80")
def test_provider_options_are_laid_over_all_else_and_replaced(talk):
    talk = talk()
    mine: dict[str, Any] = {"service_tier": "flex", "model": "other", "deep": {"a": [1]}}
    talk.chat.with_provider_options({"old": 1}).with_provider_options(mine).ask_later("Hi")
    body = talk.do("render")
    body["deep"]["a"].append(2)
    mine["deep"]["a"].append(3)
    assert talk.chat.provider_options == {"service_tier": "flex", "model": "other", "deep": {"a": [1]}}
    assert (body["service_tier"], body["model"], "old" in body) == ("flex", "other", False)
    talk.chat.with_provider_options(None)
    assert "service_tier" not in talk.do("render")


@dataclass
class Bird:
    name: str
    wings: Annotated[int, "how many"]


class Fish(TypedDict):
    name: str
    kind: Literal["salt", "fresh"]


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


class WithJson:
    def to_json_schema(self) -> dict[str, Any]:
        return {"type": "object"}


class Modelled:
    @staticmethod
    def model_json_schema() -> dict[str, Any]:
        return {"title": "A b!", "type": "object"}


@pytest.mark.covers("chat A.1 96", "D25", "D84")
@pytest.mark.parametrize(
    ("given", "name", "strict", "schema"),
    [
        ({"type": "object", "$schema": "x"}, "response", True, {"type": "object"}),
        ({"type": "object", "title": "A b!"}, "A_b_", True, {"type": "object", "title": "A b!"}),
        ({"name": "my bird", "schema": {"type": "object"}, "strict": False}, "my_bird", False, {"type": "object"}),
        (WithJson, "WithJson", True, {"type": "object"}),
        (WithJson(), "WithJson", True, {"type": "object"}),
        (Modelled, "Modelled", True, {"title": "A b!", "type": "object"}),
        (
            Bird,
            "Bird",
            True,
            {
                "type": "object",
                "properties": {"name": {"type": "string"}, "wings": {"type": "integer", "description": "how many"}},
                "required": ["name", "wings"],
                "additionalProperties": False,
            },
        ),
        (
            Fish,
            "Fish",
            True,
            {
                "type": "object",
                "properties": {"name": {"type": "string"}, "kind": {"type": "string", "enum": ["salt", "fresh"]}},
                "required": ["name", "kind"],
                "additionalProperties": False,
            },
        ),
    ],
    ids=["schema", "title", "wrapper", "class", "object", "model", "dataclass", "typed dict"],
)
def test_a_schema_is_made_of_what_has_one(given, name, strict, schema):
    found = as_schema(given)
    assert found is not None
    assert (found.name, found.strict, found.schema) == (name, strict, schema)


@pytest.mark.covers("chat A.1 96")
def test_a_wrapper_may_describe_its_schema_and_what_only_tells_of_a_schema_is_left_out(talk):
    talk = talk()
    bird = {"type": "object", "$schema": "x", "$id": "y", "$comment": "z"}
    talk.chat.with_schema({"name": "bird", "schema": bird, "description": "A bird."})
    body = talk.do("render")
    whole = {"name": "bird", "description": "A bird.", "schema": {"type": "object"}, "strict": True}
    match talk.protocol:
        case "anthropic":
            assert body["output_config"]["format"] == {"type": "json_schema", "schema": {"type": "object"}}
        case "responses":
            assert body["text"] == {"format": {"type": "json_schema", **whole}}
        case _:
            assert body["response_format"] == {"type": "json_schema", "json_schema": whole}


@pytest.mark.covers("chat A.2 805")
def test_a_form_may_be_asked_for_by_a_tool_that_must_be_called(talk):
    talk = talk(called(("c1", "bird", {"name": "Ada", "wings": 2})))

    def bird(name: str, wings: int) -> None:
        """Note a bird."""

    talk.chat.with_tools(bird).with_tool_options(choice=bird, calls="one").ask_later("Which bird?")
    assert talk.do("generate").calls[0].arguments == {"name": "Ada", "wings": 2}
    assert "json_schema" not in json.dumps(talk.bodies[0])
    assert "bird" in json.dumps(talk.bodies[0]["tool_choice"])


@pytest.mark.covers("chat A.1 96", "D84", "D85")
def test_an_answer_of_a_form_is_parsed(talk):
    talk = talk(Answer(text='{"name":"Ada","wings":2}'), Answer(text="Words."))
    talk.chat.with_schema(Bird)
    assert talk.ask().parsed == {"name": "Ada", "wings": 2}
    body = json.dumps(talk.bodies[0])
    assert '"json_schema"' in body
    assert '"wings"' in body
    talk.chat.with_schema(None)
    with pytest.raises(BadReply, match="the answer is no JSON; it ended with stop"):
        assert talk.ask().parsed
    assert "json_schema" not in json.dumps(talk.bodies[1])


@pytest.mark.covers("chat A.1 98", "D13", "D69")
def test_citations_are_asked_for_of_attached_documents(talk, caplog):
    cite = {"type": "char_location", "cited_text": "Tide at noon.", "document_index": 0, "document_title": "n.md"}
    cite |= {"start_char_index": 0, "end_char_index": 13}
    blocks: list[Any] = [{"type": "text", "text": "Noon.", "citations": [cite]}]
    talk = talk(Answer(text="Noon.", fields={"content": blocks}))
    assert talk.chat.with_citations() is talk.chat
    files = [attachment(b"Tide at noon.", name="n.md"), attachment(b"%PDF-1.7")]
    message = talk.ask("When?", files=files)
    if talk.protocol == "anthropic":
        content = talk.bodies[0]["messages"][0]["content"]
        assert [one.get("citations") for one in content] == [None, {"enabled": True}, {"enabled": True}]
        assert content[1]["source"] == {"type": "text", "media_type": "text/plain", "data": "Tide at noon."}
        told = Citation(cited_text="Tide at noon.", text="Noon.", title="n.md", start=0, end=13, source=0)
        assert message.citations == (told,)
    else:
        assert [one.levelname for one in caplog.records if "citations are not asked for" in one.message][:1] == [
            "WARNING"
        ]
        assert '"citations"' not in json.dumps(talk.bodies[0])
    talk.chat.with_citations(False)
    assert "enabled" not in json.dumps(talk.do("render"))


CITED: dict[str, dict[str, Any]] = {
    "chat_completions": {"type": "url_citation", "url_citation": {"url": "u", "title": "t"}},
    "responses": {"type": "url_citation", "url": "u", "title": "t"},
    "anthropic": {"type": "web_search_result_location", "url": "u", "title": "t", "cited_text": "Tide."},
}


def citing(protocol: str) -> Answer:
    """Return an answer with a passage that is cited twice."""
    place = {"start_index": 0, "end_index": 4}
    note = CITED[protocol]
    if protocol == "chat_completions":
        note = {**note, "url_citation": {**note["url_citation"], **place}}
        message: dict[str, Any] = {"role": "assistant", "content": "Noon.", "annotations": [note, note]}
        return Answer(fields={"choices": [{"index": 0, "finish_reason": "stop", "message": message}]})
    if protocol == "responses":
        note = note | place
        part: dict[str, Any] = {"type": "output_text", "text": "Noon.", "annotations": [note, note], "logprobs": []}
        return Answer(fields={"output": [{"type": "message", "id": "m", "role": "assistant", "content": [part]}]})
    return Answer(fields={"content": [{"type": "text", "text": "Noon.", "citations": [note, note]}]})


@pytest.mark.covers("chat A.1 98", "D82")
@pytest.mark.parametrize("streamed", [False, True])
def test_citations_are_told_alike_and_each_once(talk, streamed):
    talk = talk(lambda received: citing(talk.protocol))
    message = talk.ask(on_chunk=print if streamed else None)
    told = Citation(url="u", title="t", text="Noon", start=0, end=4)
    if talk.protocol == "anthropic":
        told = Citation(url="u", title="t", text="Noon.", cited_text="Tide.")
    assert message.citations == (told,)


@pytest.mark.covers("chat A.1 98")
@pytest.mark.parametrize("streamed", [False, True])
def test_pages_are_told_from_the_first_to_the_last(chatting, streamed):
    cite: dict[str, Any] = {"type": "page_location", "cited_text": "Tide.", "document_index": 1}
    cite |= {"document_title": "n.pdf", "start_page_number": 3, "end_page_number": 5}
    talk = chatting(Answer(fields={"content": [{"type": "text", "text": "Noon.", "citations": [cite]}]}))
    talk.chat.with_model("claude-sonnet-5-5")
    (found,) = talk.ask(on_chunk=print if streamed else None).citations
    assert (found.first_page, found.last_page, found.start, found.end) == (3, 4, None, None)
    assert (found.title, found.source, found.text) == ("n.pdf", 1, "Noon.")


@pytest.mark.covers("chat A.1 98", "D69")
@pytest.mark.parametrize("given", [None, 1, "yes"])
def test_citations_are_on_or_off(chatting, given):
    chat = chatting().chat
    with pytest.raises(Mistake, match="with_citations takes True or False"):
        chat.with_citations(given)
    assert chat.citations is False


def test_a_header_that_is_refused_is_not_shown(chatting):
    key = "sec" + "ret"
    with pytest.raises(Mistake) as caught:
        chatting().chat.with_headers({"authorization": f"Bearer {key}\n"})
    assert key not in "".join(traceback.format_exception(caught.value))


@pytest.mark.covers("D61", "D37")
def test_what_is_no_json_in_a_request_is_refused_before_it_is_sent(talk):
    talk = talk()
    talk.chat.before_request(lambda body: body.update(when=object())).with_fallbacks("ollama/b", on=Exception)
    with pytest.raises(Mistake, match="something in the request is not JSON"):
        talk.ask()
    with pytest.raises(Mistake, match="something in the request is not JSON"):
        talk.do("render_bytes")
    assert talk.bodies == []


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Timeouts(read_s=-1), "read_s is a finite number of at least 0, not -1"),
        (lambda: Timeouts(connect_s=float("inf")), "connect_s is a finite number of at least 0"),
        (lambda: Timeouts(write_s="1"), "write_s is a finite number of at least 0, not '1'"),  # type: ignore[arg-type]
        (lambda: Retry(retries=1.5), "retries is a whole number of at least 0, not 1.5"),  # type: ignore[arg-type]
        (lambda: Retry(retries=True), "retries is a whole number of at least 0, not True"),
        (lambda: Retry(cap_s=float("nan")), "cap_s is a finite number of at least 0"),
        (lambda: ChatConfig(tool_concurrency="thread"), "threads or fibers, not 'thread'"),  # type: ignore[arg-type]
        (lambda: ChatConfig(tool_concurrency=[]), r"threads or fibers, not \[\]"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_value_of_a_config_is_refused_when_it_is_made(make, complaint):
    with pytest.raises(Mistake, match=complaint):
        make()


@pytest.mark.parametrize("field", ["api_keys", "base_urls", "protocols"])
def test_a_config_that_speaks_of_a_provider_nobody_knows_is_refused_with_those_there_are(chatting, field):
    config = replace(ChatConfig(), **{field: {"opnai": "x"}})  # type: ignore[arg-type]
    complaint = f"{field} of the config has no provider 'opnai'; known are openai, anthropic, deepseek"
    with pytest.raises(Mistake, match=complaint):
        chatting(config=config)
    with pytest.raises(Mistake, match=complaint):
        chatting().chat.with_config(config)
