"""Which requests memory makes anew, what goes up of them, and that trouble with it never breaks a chat."""

import asyncio
import json
import threading
from dataclasses import replace
from functools import partial

import pytest

from everlog import log
from everlog.context import stored
from everlog.errors import Mistake, StoreUnavailable
from everlog.messages import Message
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Settings, Tool, said
from everlog.protocols.shapes import dumps
from everlog.surfaces.proxy.remembering import remembering
from everlog.testing.failpoints import calling, raising
from everlog.testing.upstream import Answer
from everlog.testing.upstream.answers import body_of
from everlog.testing.upstream.streams import events_of
from tests.acceptance.inside import Inside, protocol_of
from tests.hidden_rounds import CASES, PROTOCOLS, SAYS
from tests.unit.proxy.wire import JSON_HEAD, STREAM_HEAD, Coming, body_in, within

LONG = tuple(
    Message(kind="user" if n % 2 == 0 else "assistant", text=f"{n}: " + "harbour and tide " * 30) for n in range(16)
)
ASKS = Message(kind="user", text="What did I say?")
READ = Tool(name="read", description="Read a file.")
SECRET = "swordfish"
each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


class Talk:
    """A client before a proxy on a database in memory; its upstream answers what it is given, or that it is well."""

    def __init__(self, protocol="chat_completions", **wishes):
        self.protocol = protocol
        self.script = []
        self.key = {}
        self.proxy = Inside(":memory:", self.answer, **{"budget_tokens": 1_000} | wishes)

    def answer(self, outgoing):
        given = self.script.pop(0) if self.script else Answer(text="All is well.")
        if not isinstance(given, Answer):
            return given
        body = body_of(given, protocol_of(outgoing), "m", len(self.proxy.upstream.sent))
        if body_in(outgoing).get("stream"):
            return Coming(headers=STREAM_HEAD, pieces=list(events_of(body, self.protocol)))
        return Coming(headers=JSON_HEAD, pieces=[json.dumps(body).encode()])

    def body(self, messages, *, model="m", stream=False, **over):
        settings = Settings(model=model, tools=(READ,), stream=stream)
        return FORMATS[self.protocol].render_request(said(messages), settings) | over

    def client(self, body):
        headers = {"X-Everlog-Session-ID": "s", "X-Everlog-Debug": "on", **self.key}
        return self.proxy.client(self.protocol, dumps(body).encode(), headers)

    async def ask(self, messages, **wishes):
        """Return what came of a request, when all of it is kept."""
        client = await self.client(self.body(messages, **wishes)).ask(self.proxy.front)
        await self.proxy.kept()
        assert client.status == 200, client.body
        return client

    @property
    def up(self):
        """What went up last."""
        return body_in(self.proxy.upstream.sent[-1])

    @property
    def kept(self):
        """What each thread says."""
        home = self.proxy.home
        names = home.store.read(home.name, log.names)
        return [[entry.text for entry in home.thread(key).entries()] for _, key in names]

    def play(self, act):
        async def playing():
            try:
                return await act(self)
            finally:
                await self.proxy.stop()

        return asyncio.run(within(playing(), 60))


def offers_ours(body):
    return "everlog_zoom" in dumps(body.get("tools"))


@each_protocol
def test_below_its_budget_a_request_goes_up_as_it_came_and_once_begun_memory_stays(protocol):
    """However little the client sends then: a trimmed window, another model, or its last words alone."""

    async def act(talk):
        short = [*LONG[:2], Message(kind="user", text="Hm?")]
        await talk.ask(short)
        assert talk.up == talk.body(short)
        whole = [*LONG, ASKS]
        for n, (window, model) in enumerate([(99, "m"), (99, "m"), (7, "m"), (5, "m"), (3, "m"), (99, "another")]):
            talk.script = [Answer(text=f"Answer {n}: the {n}th tide of the year.")]
            await talk.ask(whole[-window:], model=model)
            assert offers_ours(talk.up), (window, model)
            whole += [
                Message(kind="assistant", text=f"Answer {n}: the {n}th tide of the year."),
                Message(kind="user", text=f"And what of number {n}?"),
            ]

    Talk(protocol).play(act)


@each_protocol
def test_a_session_of_the_same_name_under_another_key_has_no_memory_of_it(protocol):
    async def act(talk):
        keys = [{"X-Everlog-Key": talk.proxy.key()} for _ in range(2)]
        whole = [*LONG, ASKS]
        for key, messages, remembers in ((0, whole, True), (1, whole[-5:], False), (0, whole[-5:], True)):
            talk.key = keys[key]
            await talk.ask(messages)
            assert offers_ours(talk.up) == remembers
            assert (talk.up == talk.body(messages)) != remembers

    Talk(protocol, needs_keys=True).play(act)


@each_protocol
@pytest.mark.parametrize(("models", "began"), [(("gpt-4", "m"), (True, True)), (("m",), (False,))])
def test_half_of_a_models_window_counts_where_that_is_less_and_what_began_so_stays_for_any_model(
    protocol, models, began
):
    async def act(talk):
        for model, begins in zip(models, began, strict=True):
            await talk.ask([*LONG, *LONG, ASKS], model=model)
            assert offers_ours(talk.up) == begins

    Talk(protocol, budget_tokens=4_500).play(act)


@each_protocol
def test_tools_are_not_begun_where_none_may_be_called_and_stay_where_they_are(protocol):
    none = {"type": "none"} if protocol == "anthropic" else "none"

    async def act(talk):
        talked = [*LONG, ASKS]
        offered = []
        for choice in ({"tool_choice": none}, {}, {"tool_choice": none}):
            await talk.ask(talked, **choice)
            assert talk.up.get("tool_choice") == choice.get("tool_choice")
            offered.append(offers_ours(talk.up))
            talked += [Message(kind="assistant", text="All is well."), Message(kind="user", text="And now?")]
        assert offered == [False, True, True]

    Talk(protocol).play(act)


@each_protocol
@pytest.mark.parametrize("point", ["record.asked.before_commit", "context.prepare.before_commit"])
def test_a_request_whose_prompt_cannot_be_made_goes_up_as_it_came_is_counted_and_kept_once(protocol, point):
    async def act(talk):
        with raising(point, StoreUnavailable("the disk is full")):
            client = await talk.ask([*LONG, ASKS])
        assert client.header(b"x-everlog-degraded") == [b"prepare"]
        assert talk.up == talk.body([*LONG, ASKS])
        assert 'everlog_degraded_total{place="prepare"} 1' in await metrics(talk)
        assert talk.kept == [[one.text for one in (*LONG, ASKS)] + ["All is well."]]

    Talk(protocol).play(act)


@each_protocol
def test_a_prompt_that_takes_too_long_is_not_waited_for_and_the_request_is_kept_once(protocol, monkeypatch):
    monkeypatch.setattr(remembering, "PREPARE_S", 0.05)

    async def act(talk):
        gate = threading.Event()
        with calling("record.asked.before_commit", partial(gate.wait, 30)):
            asking = asyncio.create_task(talk.ask([*LONG, ASKS]))
            await talk.proxy.upstream.asked.wait()
            gate.set()
            client = await asking
        assert talk.up == talk.body([*LONG, ASKS])
        assert b"prepare" in client.header(b"x-everlog-degraded")
        assert 'everlog_degraded_total{place="prepare"} 1' in await metrics(talk)
        assert talk.kept == [[one.text for one in (*LONG, ASKS)] + ["All is well."]]

    Talk(protocol).play(act)


class Broken:
    """A compactor that cannot be asked."""

    model = "m@1"

    def __init__(self):
        self.asked = threading.Event()

    def __call__(self, request):
        self.asked.set()
        raise Mistake("there is no key")


@each_protocol
def test_lines_that_cannot_be_built_are_counted_and_the_talk_goes_on(protocol):
    broken = Broken()

    async def act(talk):
        await talk.ask([*LONG, ASKS])
        assert offers_ours(talk.up)
        assert await asyncio.to_thread(broken.asked.wait, 30)
        await talk.proxy.stop()
        assert 'everlog_degraded_total{place="derive"} 1' in await metrics(talk)

    Talk(protocol, compactor=broken).play(act)


async def metrics(talk):
    client = talk.proxy.client(talk.protocol, b"", {})
    client.method, client.path = "GET", "/metrics"
    return (await client.ask(talk.proxy.front)).body.decode()


@each_protocol
@pytest.mark.parametrize("usage", ["last", "sum"])
def test_a_client_is_told_the_rounds_and_the_input_of_the_last_of_them_or_of_all(protocol, usage):
    looks = replace(CASES["ours only"].rounds[0], input_tokens=100, output_tokens=5)

    async def act(talk):
        talk.script = [looks, SAYS]
        client = await talk.ask([*LONG, ASKS])
        assert client.header(b"x-everlog-rounds") == [b"2"]
        told = FORMATS[protocol].parse_reply(json.loads(client.body)).usage
        assert told is not None
        assert told.whole_input == (100 + SAYS.input_tokens if usage == "sum" else SAYS.input_tokens)
        assert told.output == 5 + SAYS.output_tokens

    Talk(protocol, usage=usage).play(act)


@each_protocol
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_client_that_goes_while_the_second_round_is_asked_takes_its_request_with_it(protocol, stream):
    async def act(talk):
        asked = asyncio.Event()

        def never(outgoing, answer=talk.answer):
            if len(talk.proxy.upstream.sent) < 2:
                return answer(outgoing)
            asked.set()
            return None

        talk.proxy.upstream.answer = never
        talk.script = [CASES["ours only"].rounds[0]]
        before = asyncio.all_tasks()
        client = talk.client(talk.body([*LONG, ASKS], stream=stream))
        task = asyncio.create_task(client.ask(talk.proxy.front))
        await asked.wait()
        client.gone.set()
        await task
        await talk.proxy.kept()
        assert talk.proxy.upstream.cancelled == 1
        assert asyncio.all_tasks() == before
        assert talk.kept == [[one.text for one in (*LONG, ASKS)]]

    Talk(protocol).play(act)


def without_secrets(message):
    return replace(message, text=message.text.replace(SECRET, "[gone]"))


def with_more(protocol, body):
    """Return a body whose last message says more than words, in blocks that the log cannot give again."""
    name = "input" if protocol == "responses" else "messages"
    *rest, last = body[name]
    return {**body, name: [*rest, {**last, "x_new": 1}]}


@each_protocol
@pytest.mark.parametrize(("word", "held"), [("herring", 1), (SECRET, 0)])
def test_a_word_that_is_redacted_is_in_no_row_and_does_not_go_up_where_the_log_does(protocol, word, held):
    async def act(talk):
        body = with_more(protocol, talk.body([*LONG, Message(kind="user", text=f"It is {word}.")]))
        await talk.client(body).ask(talk.proxy.front)
        await talk.proxy.kept()
        assert offers_ours(talk.up)
        assert SECRET not in dumps(talk.up)
        rows = held_rows(talk.proxy.home)
        assert SECRET not in repr(rows)
        assert sum(one.kind == "own" for one in rows) == held
        assert SECRET not in repr(talk.kept)

    Talk(protocol, redactor=without_secrets).play(act)


def held_rows(home):
    """Return all that is held of the one thread, in its newest epoch."""
    [(thread, _)] = home.store.read(home.name, log.names)

    def read(unit):
        found = []
        for consumer in stored.consumers(unit, thread):
            epoch = stored.newest(unit, thread, consumer)
            found += [] if epoch is None else stored.held_for(unit, thread, consumer, epoch.n)
        return found

    return home.store.read(home.name, read)


@each_protocol
def test_an_answer_from_which_something_was_taken_out_is_not_held_in_its_own_blocks(protocol):
    async def act(talk):
        talk.script = [Answer(text=f"It is {SECRET}.", thinking="Which fish?")]
        await talk.ask([*LONG, ASKS])
        assert talk.kept[0][-1] == "It is [gone]."
        assert SECRET not in repr(held_rows(talk.proxy.home))

    Talk(protocol, redactor=without_secrets).play(act)
