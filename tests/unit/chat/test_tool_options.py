"""How the model uses its tools, and how they run (chat A.1 36 to 44)."""

import asyncio
import itertools
import threading
from typing import Any

import pytest

from everlog.chat.options import ToolOptions
from everlog.chat.tools import ToolCall, tool
from everlog.errors import Cancelled, Mistake
from everlog.testing.upstream import Answer
from tests.unit.chat.talking import called, config


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"Sun in {city}."


class FindTool:
    """Find something."""

    def execute(self, words: str) -> str:
        return words


TWO = called(("c1", "weather", {"city": "Rome"}), ("c2", "weather", {"city": "Oslo"}))


@pytest.mark.covers("chat A.1 36", "D88")
@pytest.mark.parametrize(
    ("given", "choice"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("weather", "weather"),
        pytest.param(weather, "weather", id="function"),
        (FindTool, "find"),
        (FindTool(), "find"),
        (None, None),
    ],
)
def test_a_choice_is_a_word_or_a_tool_that_was_added(chatting, given, choice):
    talk = chatting()
    talk.chat.with_tools(weather, FindTool).with_tool_options(choice=given)
    assert talk.chat.tool_options.choice == choice


@pytest.mark.covers("chat A.1 36", "D88")
def test_a_choice_is_sent_in_the_words_of_each_protocol(talk):
    talk = talk()
    talk.chat.with_tools(weather)
    named: dict[str, Any] = {
        "chat_completions": {"type": "function", "function": {"name": "weather"}},
        "responses": {"type": "function", "name": "weather"},
        "anthropic": {"type": "tool", "name": "weather"},
    }
    words: dict[str, Any] = {"auto": "auto", "none": "none", "required": "required"}
    if talk.protocol == "anthropic":
        words = {"auto": {"type": "auto"}, "none": {"type": "none"}, "required": {"type": "any"}}
    for given, sent in {**words, "weather": named[talk.protocol]}.items():
        talk.chat.with_tool_options(choice=given)
        assert talk.do("render")["tool_choice"] == sent
    talk.chat.with_tool_options(choice=None)
    assert "tool_choice" not in talk.do("render")


@pytest.mark.covers("chat A.1 36")
@pytest.mark.parametrize("given", ["wether", 3, print])
def test_another_choice_is_refused_with_the_valid_ones(chatting, given):
    with pytest.raises(Mistake, match="choice is one of auto, none, required, weather, or a tool that was added"):
        chatting().chat.with_tools(weather).with_tool_options(choice=given)


@pytest.mark.covers("chat A.1 37")
@pytest.mark.parametrize(
    ("choice", "after"), [("required", None), ("weather", None), ("auto", "auto"), ("none", "none")]
)
def test_a_choice_that_forces_a_call_is_forgotten_once_tools_ran(talk, choice, after):
    talk = talk(TWO, Answer(text="Sun."))
    talk.chat.with_tools(weather).with_tool_options(choice=choice)
    talk.ask()
    assert talk.chat.tool_options.choice == after
    assert talk.bodies[0]["tool_choice"]
    assert ("tool_choice" in talk.bodies[1]) is (after is not None)


@pytest.mark.covers("chat A.1 37")
def test_a_choice_that_forces_a_call_stays_while_the_call_waits(chatting):
    talk = chatting(called(("c1", "weather", {"city": "Rome"})), Answer(text="Sun."))
    talk.chat.with_tools(tool(requires_approval=True)(weather)).with_tool_options(choice="weather")
    talk.ask()
    talk.do("run_tools")
    assert talk.chat.tool_options.choice == "weather"
    talk.chat.approve("c1")
    talk.do("complete")
    assert talk.chat.tool_options.choice is None


@pytest.mark.covers("chat A.1 38", "D88")
def test_one_call_at_a_time_is_said_only_if_it_is_wanted(talk):
    talk = talk()
    talk.chat.with_tools(weather)
    assert not {"parallel_tool_calls", "tool_choice"} & talk.do("render").keys()
    wanted: dict[str, dict[str, Any]] = {
        "anthropic": {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        "responses": {"parallel_tool_calls": False},
        "chat_completions": {"parallel_tool_calls": False},
    }
    for given in ("one", 1):
        talk.chat.with_tool_options(calls=given)
        assert wanted[talk.protocol].items() <= talk.do("render").items()
    talk.chat.with_tool_options(calls="many")
    if talk.protocol == "anthropic":
        assert talk.do("render")["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": False}
    else:
        assert talk.do("render")["parallel_tool_calls"] is True
    assert talk.chat.tool_options.calls == "many"
    talk.chat.with_tool_options(calls=None)
    assert not {"parallel_tool_calls", "tool_choice"} & talk.do("render").keys()


@pytest.mark.parametrize("given", ["two", 2, True, 0])
@pytest.mark.covers("chat A.1 38")
def test_another_number_of_calls_is_refused(chatting, given):
    with pytest.raises(Mistake, match="calls is many, one or None"):
        chatting().chat.with_tool_options(calls=given)


@pytest.mark.covers("chat A.1 39", "D15", "D88", "D92")
@pytest.mark.parametrize(
    ("given", "configured", "mode"),
    [
        (None, None, None),
        (None, "fibers", "fibers"),
        (False, "threads", None),
        (True, None, "threads"),
        ("threads", "fibers", "threads"),
        ("fibers", None, "fibers"),
    ],
)
def test_concurrency_is_a_mode_or_what_is_configured(chatting, given, configured, mode):
    talk = chatting()
    talk.chat.with_config(config(talk.upstream, tool_concurrency=configured)).with_tool_options(concurrency=given)
    assert talk.chat.tool_options.concurrency == mode


@pytest.mark.covers("chat A.1 39")
@pytest.mark.parametrize("given", ["processes", 2, 1])
def test_another_concurrency_is_refused(chatting, given):
    with pytest.raises(Mistake, match="concurrency is True, False, None, threads or fibers"):
        chatting().chat.with_tool_options(concurrency=given)


@pytest.mark.covers("chat A.1 40", "D65", "D88")
def test_what_is_not_named_stays_and_a_wrong_name_is_refused(chatting):
    talk = chatting()
    talk.chat.with_tools(weather).with_tool_options(choice="weather", calls="one", concurrency=True)
    talk.chat.with_tool_options(calls=None)
    assert talk.chat.tool_options == ToolOptions(choice="weather", concurrency="threads")
    with pytest.raises(Mistake, match=r"no option 'chioce'; it has choice, calls, concurrency; did you mean choice\?"):
        talk.chat.with_tool_options(chioce="auto")


@pytest.mark.covers("chat A.1 41", "D27", "D89")
def test_tools_add_up_none_clears_them_and_a_name_is_taken_over(chatting):
    talk = chatting()
    talk.chat.with_tools(weather, None, FindTool).with_tool_options(calls="one")
    assert list(talk.chat.tools) == ["weather", "find"]

    class Weather:
        def execute(self) -> str:
            return "Rain."

    talk.chat.with_tools([Weather])
    assert list(talk.chat.tools) == ["weather", "find"]
    assert talk.chat.tools["weather"].function() == "Rain."
    talk.chat.with_tools(None)
    assert talk.chat.tools == {}
    assert talk.chat.tool_options.calls == "one"
    with pytest.raises(Mistake, match="a tool is a function, or a class or object with a method execute, not int"):
        talk.chat.with_tools(3)


class FirstIsLast:
    """A tool whose call for Rome ends after the others."""

    def __init__(self) -> None:
        self.others = threading.Event()

    def threads(self, city: str) -> str:
        if city == "Rome":
            assert self.others.wait(5)
        else:
            threading.Timer(0.02, self.others.set).start()
        return city

    async def fibers(self, city: str) -> str:
        return await asyncio.to_thread(self.threads, city)


@pytest.mark.covers("chat A.1 42", "chat A.1 59", "chat A.2 236", "chat A.2 499", "D92")
@pytest.mark.parametrize("mode", ["threads", "fibers"])
def test_results_of_calls_that_run_at_once_are_added_as_they_end(talk, mode):
    talk = talk(TWO, Answer(text="Done."))
    talk.chat.with_tools(tool(name="weather")(getattr(FirstIsLast(), mode))).with_tool_options(concurrency=mode)
    told: list[Any] = []
    talk.chat.before_tool_call(lambda call: told.append("call"))
    talk.chat.after_tool_result(lambda result: told.append(f"ran {result}"))
    talk.chat.before_message(lambda: told.append("before"))
    talk.chat.after_message(lambda message: told.append(f"after {message.text}"))
    talk.ask()
    assert [text for role, text in talk.said if role == "tool"] == ["Oslo", "Rome"]
    assert told[2:-2] == ["call", "call", "ran Oslo", "before", "after Oslo", "ran Rome", "before", "after Rome"]


@pytest.mark.covers("chat A.1 42")
@pytest.mark.parametrize("mode", ["threads", "fibers"])
def test_messages_are_told_of_where_the_chat_is_and_calls_where_the_tools_run(chatting, mode):
    places: dict[str, set[Any]] = {}

    def note(moment: str) -> Any:
        return lambda *args: places.setdefault(moment, set()).add((threading.get_ident(), task_of_now()))

    talk = chatting(TWO, Answer(text="Done."))
    talk.chat.with_tools(weather).with_tool_options(concurrency=mode)
    for moment in ("before_message", "after_message", "before_tool_call", "after_tool_result"):
        getattr(talk.chat, moment)(note(moment))
    talk.ask()
    assert len(places["after_message"]) == 1
    assert places["before_message"] == places["after_message"]
    assert places["before_tool_call"] == places["after_tool_result"]
    assert not places["before_tool_call"] & places["after_message"]


def task_of_now() -> int:
    """Return which task runs; 0 outside of loops."""
    try:
        return id(asyncio.current_task())
    except RuntimeError:
        return 0


@pytest.mark.parametrize("mode", ["threads", "fibers"])
def test_where_one_of_several_raises_the_others_keep_their_results(chatting, mode):
    ran: list[str] = []

    def weather(city: str) -> str:
        ran.append(city)
        if city == "Rome" and len(ran) <= 2:
            raise OSError("no net")
        return city

    talk = chatting(TWO, Answer(text="Done."))
    talk.chat.with_tools(weather).with_tool_options(concurrency=mode)
    with pytest.raises(OSError, match="no net"):
        talk.ask()
    assert talk.said[2:] == [("tool", "Oslo")]
    assert talk.do("complete").text == "Done."
    assert sorted(ran) == ["Oslo", "Rome", "Rome"]


@pytest.mark.covers("chat A.1 44")
@pytest.mark.parametrize("concurrency", [False, "threads", "fibers"])
def test_a_tool_that_ends_after_a_cancel_leaves_no_result(chatting, concurrency):
    talk = chatting(TWO, Answer(text="Done."))

    def weather(city: str) -> str:
        talk.chat.cancel()
        return city

    talk.chat.with_tools(weather).with_tool_options(concurrency=concurrency)
    with pytest.raises(Cancelled):
        talk.ask()
    assert [role for role, _ in talk.said] == ["user", "assistant"]


@pytest.mark.covers("chat A.1 44")
@pytest.mark.parametrize("concurrency", [False, "threads", "fibers"])
def test_a_cancel_while_a_round_begins_has_no_tool_begin(chatting, concurrency):
    ran: list[str] = []
    talk = chatting(TWO, Answer(text="Done."))

    def resolver(call: ToolCall) -> bool:
        if talk.chat[-1].calls and call.id == "c2":
            talk.chat.cancel()
        return True

    @tool(requires_approval=resolver)
    def weather(city: str) -> str:
        """Tell the weather."""
        ran.append(city)
        return city

    talk.chat.with_tools(weather).with_tool_options(concurrency=concurrency).ask_later("Hi")
    talk.do("generate")
    with pytest.raises(Cancelled):
        talk.do("run_tools")
    assert ran == []


@pytest.mark.covers("chat A.1 44")
def test_after_a_result_and_a_cancel_no_further_tool_begins(chatting):
    talk = chatting(TWO)
    talk.chat.with_tools(weather).after_message(lambda message: message.role == "tool" and talk.chat.cancel())
    with pytest.raises(Cancelled):
        talk.ask()
    assert talk.said[2:] == [("tool", "Sun in Rome.")]


@pytest.mark.covers("chat A.1 44")
def test_after_a_cancel_no_further_tool_begins(chatting):
    ran: list[str] = []
    talk = chatting(TWO)

    def weather(city: str) -> str:
        ran.append(city)
        return city

    def stop(call: ToolCall) -> None:
        if call.id == "c1":
            talk.chat.cancel()

    talk.chat.with_tools(weather).before_tool_call(stop)
    with pytest.raises(Cancelled):
        talk.ask()
    assert ran == ["Rome"]


@pytest.mark.covers("chat A.1 21")
def test_a_reserved_keyword_gets_the_call_and_is_not_in_the_schema(talk):
    seen: list[ToolCall] = []

    def note(words: str, tool_call: ToolCall) -> str:
        seen.append(tool_call)
        return words

    talk = talk(called(("c7", "note", {"words": "x"})), Answer(text="Noted."))
    talk.chat.with_tools(note)
    talk.ask()
    assert [call.id for call in seen] == ["c7"]
    assert "tool_call" not in talk.chat.tools["note"].parameters["properties"]
    assert b'"words"' in talk.upstream.requests[0].raw
    assert b'"tool_call":' not in talk.upstream.requests[0].raw


@pytest.mark.parametrize("concurrency", [False, "threads", "fibers"])
def test_async_and_plain_tools_run_in_both_kinds_of_chat(chatting, concurrency):
    async def slow(city: str) -> str:
        await asyncio.sleep(0)
        return f"slow {city}"

    talk = chatting(called(("a", "slow", {"city": "Rome"}), ("b", "weather", {"city": "Rome"})), Answer(text="Done."))
    talk.chat.with_tools(slow, weather).with_tool_options(concurrency=concurrency)
    talk.ask()
    assert sorted(text for role, text in talk.said if role == "tool") == ["Sun in Rome.", "slow Rome"]


@pytest.mark.covers("chat A.1 44", "chat A.1 77", "D10")
@pytest.mark.parametrize("concurrency", [None, "threads", "fibers"])
@pytest.mark.parametrize("point", range(11))
def test_a_checker_that_says_it_once_is_heard_wherever_it_is_asked(chatting, concurrency, point):
    asked = itertools.count()
    talk = chatting(called(("c1", "tell", "{}"), ("c2", "tell", "{}")), Answer(text="Done."), Answer(text="More."))
    talk.chat.with_tools(tool(name="tell")(lambda: "told")).with_tool_options(concurrency=concurrency)
    talk.chat.cancellation_checker = lambda: next(asked) == point
    with pytest.raises(Cancelled):
        talk.ask()
    talk.chat.cancellation_checker = None
    assert not talk.chat.is_cancelled
    assert talk.do("complete").text in {"Done.", "More."}
    assert talk.chat.is_complete
