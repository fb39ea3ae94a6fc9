"""What may be set, what is refused before any request, and what becomes of it (chat A.1 88 to 96, 105)."""

import enum
import json
import traceback
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypedDict

import pytest

from everlog.chat.effects import Timeouts
from everlog.chat.retries import Retry
from everlog.chat.routes import ChatConfig
from everlog.chat.structured import as_schema
from everlog.errors import BadReply, Mistake
from everlog.protocols.exchange import Thinking
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
    assert (talk.chat.temperature, talk.chat.max_output_tokens) == (None, None)
    talk.chat.with_temperature(0.2).with_max_output_tokens(50)
    assert (talk.chat.temperature, talk.chat.max_output_tokens) == (0.2, 50)
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


@pytest.mark.covers("chat A.1 96", "D25", "D84", "D85")
def test_an_answer_of_a_form_is_parsed(talk):
    talk = talk(Answer(text='{"name":"Ada","wings":2}'), Answer(text="Words."))
    assert talk.chat.schema is None
    assert talk.chat.with_schema(Bird).schema == as_schema(Bird)
    assert talk.ask().parsed == {"name": "Ada", "wings": 2}
    body = json.dumps(talk.bodies[0])
    assert '"json_schema"' in body
    assert '"wings"' in body
    talk.chat.with_schema(None)
    with pytest.raises(BadReply, match="the answer is no JSON; it ended with stop"):
        assert talk.ask().parsed
    assert "json_schema" not in json.dumps(talk.bodies[1])


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
