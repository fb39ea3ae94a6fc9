"""What a memory is attached to, what may be said of it, and what it says of itself."""

import asyncio
import threading
from typing import Any

import pytest

import everlog
from everlog import (
    AsyncChat,
    AsyncMemory,
    BudgetTooSmall,
    Chat,
    Conflict,
    Memory,
    Mistake,
    ProtocolError,
    SpendCapReached,
    TurnState,
    tool,
)
from everlog.chat.routes import ChatConfig
from everlog.conversation.turn.asking import prompt
from everlog.testing import EchoSummary
from everlog.testing.upstream import Answer, Upstream
from tests.unit.conversation.remembering import numbered
from tests.unit.conversation.test_turns import prompts, weather, without_marks

KEYS = ChatConfig(api_keys={"openai": "k", "anthropic": "k"}, environ={})


@pytest.fixture
def chat():
    return Chat("openai/gpt-5.6-luna", config=KEYS)


@pytest.mark.covers("A32", "A33", "A34", "A37", "A46")
def test_a_memory_is_attached_to_a_name_a_chat_or_a_function(memory, chat):
    named = memory.attach("openai/gpt-5.6-luna", key="a", chat_options={"config": KEYS})
    made = []

    def make():
        made.append(1)
        return chat

    assert isinstance(named, Memory)
    assert named.chat.model.id == "gpt-5.6-luna"
    assert memory.attach(chat, key="b").chat is chat
    assert isinstance(memory.attach(AsyncChat("openai/gpt-5.6-luna", config=KEYS), key="c"), AsyncMemory)
    assert isinstance(memory.attach(lambda: AsyncChat("openai/gpt-5.6-luna", config=KEYS), key="d"), AsyncMemory)
    memory.attach(make, key="e")
    assert made == [1]


@pytest.mark.covers("A24", "A46")
def test_a_name_or_a_function_makes_a_fresh_chat_for_each_turn(remembering):
    made = remembering(Answer(text="1"), Answer(text="2"), Answer(text="3"))
    chats = []

    def make():
        chats.append(made.new_chat())
        return chats[-1]

    made.memory = made.attach(make)
    for n in range(3):
        made.turn(f"number {n}")
    assert len(chats) == 3
    assert [len(chat.attempts) for chat in chats] == [1, 1, 1]
    assert [one["content"] for one in prompts(made)[2][2:]] == ["number 0", "1", "number 1", "2", "number 2"]


@pytest.mark.parametrize(
    ("given", "wishes", "said"),
    [
        (3, {}, "attached to the name of a model"),
        (Chat, {}, "attached to the name of a model"),
        (lambda: "x", {}, "makes a Chat or an AsyncChat, not str"),
        (None, {"tokens": 1_000, "budget": 4_000}, "not both"),
        (None, {"budget": 4_000.0}, "whole number"),
        (None, {"tokens": 10**30}, "`tokens` is at most"),
        (None, {"budget": 10**30}, "`budget` is at most"),
        (None, {"wait_s": 10**400}, "a year"),
        (None, {"search_mask": 5}, "called with a text"),
        (None, {"user": "u" * 300}, "200 printable"),
        (None, {"tail": 3}, "`tail` is None"),
        (None, {"tail": 0, "past": "none"}, "past='tree'"),
        (None, {"past": "trees"}, "tree, rolling, none"),
        (None, {"pump": "job"}, "thread, inline, worker, none"),
        (None, {"low_mark": 0}, "above 0"),
        (None, {"wait_s": -1}, "wait_s"),
        (None, {"token": 1_000}, "did you mean tokens"),
        (None, {"required_protocol": "chat"}, "no protocol"),
        (None, {"required_protocol": ["chat_completions"]}, "a str or None, not list"),
        (None, {"chat_options": 5}, "chat_options are a mapping"),
        (None, {"compactor_options": 5}, "compactor_options are a mapping"),
        (None, {"chat_options": {"protocol": "responses"}}, "for the name of a model"),
        ("openai/gpt-5.6-luna", {"chat_options": {"protcol": "responses"}}, "did you mean protocol"),
        (None, {"compactor": "openai/gpt-5.6-luna", "compactor_options": {"protcol": "x"}}, "did you mean protocol"),
    ],
)
@pytest.mark.covers("A35", "A43")
def test_what_cannot_be_used_is_refused_at_once(memory, chat, given, wishes, said):
    with pytest.raises(Mistake, match=said):
        memory.attach(chat if given is None else given, key="k", **wishes)


@pytest.mark.covers("A40", "A41", "A43")
def test_a_budget_is_bytes_or_tokens_of_about_four(memory, chat):
    with pytest.raises(BudgetTooSmall, match="512"):
        memory.attach(chat, key="k", budget=511)
    with pytest.raises(BudgetTooSmall, match="128"):
        memory.attach(chat, key="k", tokens=127)
    with Upstream([Answer(text="1")]) as upstream:
        made = memory.attach(Chat("m-1", base_url=upstream.url, api_key="k"), key="k", pump="none")
        made.turn("one")
        assert made.context().epoch.budget == 80_000


def test_a_chat_with_what_does_not_go_with_a_memory_is_refused(memory, chat):
    with pytest.raises(Mistake, match="'zoom'"):
        memory.attach(chat.fresh().with_tools(tool(name="zoom")(weather)), key="k")
    memory.attach(chat.fresh().with_tools(tool(name="search")(weather)), key="k")
    with pytest.raises(Mistake, match="'search'"):
        memory.attach(chat.fresh().with_tools(tool(name="search")(weather)), key="k", search=True)
    with pytest.raises(Mistake, match="compaction"):
        memory.attach(chat.fresh().with_compaction(), key="k")
    with pytest.raises(Mistake, match="'previous_response_id'"):
        memory.attach(chat.fresh().with_provider_options({"previous_response_id": "r"}), key="k")


@pytest.mark.covers("A91", "A92", "A93", "A94", "tree fault 84")
def test_another_protocol_than_the_required_one_is_refused_before_a_turn_is_recorded(remembering):
    made = remembering(Answer(text="1"), required_protocol="chat_completions")
    made.turn("one")
    made.chat.with_model("m-1", provider="openai", protocol="responses", assume_model_exists=True)
    with pytest.raises(ProtocolError, match="chat_completions is required"):
        made.turn("two")
    assert [text for _, text in made.logged] == ["one", "1"]
    with pytest.raises(ProtocolError):
        made.attach(Chat("anthropic/claude-haiku-5-5", config=KEYS))
    made.chat.with_model("m-1", provider="openai", protocol="chat_completions", assume_model_exists=True)
    made.chat.with_fallbacks("anthropic/claude-haiku-5-5")
    with pytest.raises(ProtocolError, match="fallback"):
        made.turn("three")
    assert len(made.bodies) == 1


@pytest.mark.covers("A49", "A50", "A52")
def test_the_model_may_search_where_it_is_wanted_under_a_mask(remembering):
    calls: Any = tuple((f"s{n}", "search", {"words": words}) for n, words in enumerate(("lighthouse", "4711")))
    made = remembering(
        Answer(text="Noted."), Answer(calls=calls), Answer(text="At 0."), search=True, search_cap=2,
        search_mask=lambda text: text.replace("4711", "    "),
    )  # fmt: skip
    made.turn("The lighthouse has number 4711.")
    made.turn("Where was it?")
    assert [one["function"]["name"] for one in made.bodies[0]["tools"]][-1] == "search"
    found, masked = (one["content"] for one in prompts(made)[2][-2:])
    assert "0 (" in found
    assert "No message" in masked or "no message" in masked


def test_what_may_be_spent_is_asked_before_each_request(remembering):
    made = remembering(Answer(text="1"), Answer(text="2"), spend_cap_usd=0.5)
    made.turn("one", on_chunk=None)
    store, thread = made.home.store, made.memory.thread.id
    usage = everlog.Usage(input=1, output=1)
    from everlog import log  # noqa: PLC0415

    store.write(
        made.home.name,
        lambda unit: log.spend(unit, thread, log.Purpose.MEMORY, "openai/m-2", usage, 0.5),
        name="test.spend",
    )
    with pytest.raises(SpendCapReached, match=r"0\.5000 dollars"):
        made.turn("two")
    assert len(made.bodies) == 1
    assert made.states == [TurnState.COMPLETE, TurnState.ABORTED]
    assert [text for _, text in made.logged] == ["one", "1", "two"]


def test_what_a_turn_costs_is_counted_for_talking(remembering):
    made = remembering(Answer(text="1", input_tokens=70, output_tokens=9), Answer(text="2", input_tokens=80))
    made.turn("one")
    made.turn("two")
    cost = made.do("cost")
    assert (cost.talk.requests, cost.talk.input_tokens, cost.talk.output_tokens) == (2, 150, 29)
    assert cost.memory.requests == 0


def test_a_fork_goes_its_own_way_and_begins_with_the_same_prompt(remembering):
    made = remembering(numbered)
    made.turn("one")
    made.turn("two")
    fork = made.do("fork", 2, key="other")
    whole = made.do("fork", key="third")
    made.memory = fork
    made.turn("instead")
    assert prompts(made)[2][:4] == prompts(made)[1][:4]
    assert [text for kind, text in made.logged if kind == "user"] == ["one", "instead"]
    made.memory = whole
    made.turn("three")
    assert prompts(made)[3][: len(prompts(made)[1])] == prompts(made)[1]
    with pytest.raises(Conflict):
        made.do("fork", key="other")


def test_a_memory_says_what_it_would_send_and_why(remembering):
    made = remembering(numbered, budget=1_500)
    for n in range(9):
        made.turn(f"number {n}")
    context, status = made.do("context"), made.do("status")
    assert status.epoch is not None
    assert status.epoch >= 1
    assert context.memory_bytes <= 1_500
    assert {item.kind for item in context.items} >= {"instructions", "view", "message"}
    assert status.is_well
    assert status.turns_when


@pytest.mark.covers("A28")
def test_lines_are_built_in_the_background_by_one_thread_at_a_time(remembering):
    made = remembering(numbered, pump="thread")
    for n in range(4):
        made.turn(f"number {n}")
        assert sum(one.name == "everlog-memory" for one in threading.enumerate()) <= 1
    assert made.do("wait", 20)
    assert made.memory.tree.is_current
    assert not any(one.name == "everlog-memory" for one in threading.enumerate())


@pytest.mark.parametrize("pump", ["worker", "none"])
def test_lines_that_others_build_are_only_marked(remembering, pump):
    made = remembering(numbered, pump=pump)
    made.turn("one")
    assert not made.memory.tree.is_current


def test_without_a_tail_the_tree_alone_is_the_memory(remembering):
    made = remembering(numbered, tail=0)
    for n in range(3):
        made.turn(f"number {n}")
    last = prompts(made)[-1]
    assert [one["role"] for one in last] == ["system", "system", "user", "assistant", "user"]
    assert last[2]["content"].startswith("<chat>\n0+1|user: number 0\n")
    assert made.do("status").reason == "tail"


def test_a_memory_without_a_past_forgets_what_does_not_fit(remembering):
    made = remembering(numbered, past="none", budget=1_500)
    for n in range(9):
        made.turn(f"number {n}")
    assert "tools" not in made.bodies[-1]
    assert "number 0" not in str(prompts(made)[-1])
    assert "number 7" in str(prompts(made)[-1])
    assert len(made.logged) == 18


def test_a_memory_with_a_rolling_summary_shows_it(remembering):
    made = remembering(numbered, past="rolling", budget=4_000, compactor=EchoSummary())
    for n in range(30):
        made.turn(f"number {n}")
    assert made.do("status").trouble["derive"] == 0
    assert made.memory.rolling.summary() is not None
    assert "tools" not in made.bodies[-1]
    assert any("State " in str(prompt) for prompt in prompts(made)[-8:])
    assert all(body_bytes(prompt) <= 4_000 for prompt in prompts(made))


def body_bytes(prompt):
    return sum(len(one["content"].encode()) for one in prompt[1:-1])


def test_a_rolling_summary_without_a_model_is_said_to_be_inactive(memory, chat, caplog):
    memory.attach(chat, key="k", past="rolling")
    assert "needs a model" in caplog.text


@pytest.mark.parametrize(
    ("model", "marks"),
    [
        ("anthropic/claude-haiku-5-5", "cache_control"),
        ("openai/gpt-5.6-luna", "prompt_cache_breakpoint"),
        ("openai/gpt-5.4", ""),
    ],
)
def test_prompts_are_marked_as_the_provider_caches_them(memory, model, marks):
    with Upstream(lambda received: Answer(text="the sea is warm " * 20)) as upstream:
        config = ChatConfig(
            api_keys={"openai": "k", "anthropic": "k"},
            environ={},
            base_urls=dict.fromkeys(("openai", "anthropic"), upstream.url),
        )
        chat = Chat(model, config=config)
        made = memory.attach(chat, key="k", budget=1_500, pump="inline")
        for n in range(8):
            made.turn(f"number {n}")
        body = upstream.requests[-1].body
        chat.with_caching(False)
        made.turn("more")
        plain = upstream.requests[-1].body
    for word in ("cache_control", "prompt_cache_breakpoint"):
        assert (word in str(body)) == (word == marks)
        assert word not in str(plain)
    if marks == "prompt_cache_breakpoint":
        assert body["prompt_cache_options"] == {"mode": "implicit"}


def test_the_words_about_memory_name_its_tools_and_not_the_kind_of_store():
    assert all(f"{name}(" in prompt(tools=True).text for name in ("zoom", "read", "date"))
    assert "zoom" not in prompt(tools=False).text.replace("zoom it", "")


def test_a_memory_is_attached_to_a_file_that_it_opens_and_closes(tmp_path, chat):
    with everlog.attach(chat, key="k", database=tmp_path / "chats.db", pump="none") as memory:
        assert memory.key == "k"
    assert (tmp_path / "chats.db").exists()


def test_a_task_that_is_cancelled_keeps_the_words_that_came(memory):
    async def act(upstream):
        chat = AsyncChat("m-1", base_url=upstream.url, api_key="k")
        made = memory.attach(chat, key="k", pump="none")
        heard = asyncio.Event()
        task = asyncio.create_task(made.turn("one", on_chunk=lambda chunk: heard.set()))
        await heard.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await made.turn("two")).text == "Again."
        return [(entry.kind, entry.text[:7]) for entry in made.thread.entries()]

    from everlog.testing.upstream import Stalled  # noqa: PLC0415

    stalled = Stalled(answer=Answer(text="The sea is warm."), events=4)
    with Upstream([stalled, Answer(text="Again.")]) as upstream:
        found = asyncio.run(act(upstream))
    assert [kind for kind, _ in found] == ["user", "assistant", "user", "assistant"]
    assert without_marks(found[1][1]).startswith("The")
