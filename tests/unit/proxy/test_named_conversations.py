"""A client that names what was said, instead of saying it, on an upstream of another protocol, which cannot know that."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from everlog.messages import JSON
from everlog.protocols import FORMATS
from everlog.surfaces.proxy.relay.upstream import Outgoing
from everlog.surfaces.proxy.settings.options import Options, Target
from everlog.testing.upstream.answers import Answer, body_of
from tests.unit.proxy.test_front import Proxy
from tests.unit.proxy.wire import BASE, Client, Coming, body_in

CALL: tuple[str, str, JSON] = ("call_1", "look", {"path": "a"})


class Talk:
    """A client of Responses that sends what is new, and an upstream of another protocol."""

    def __init__(self, protocol: str, **wishes: Any) -> None:
        self.proxy = Proxy(
            options=Options(targets=(Target(base_url=BASE, protocols=(protocol,)),), mode="record"), **wishes
        )
        self.protocol = protocol
        self.sent: list[Any] = []

    def say(self, given: object, answer: Answer, *headers: tuple[bytes, bytes], **fields: object) -> Client:
        def told(outgoing: Outgoing) -> Coming:
            self.sent.append(body_in(outgoing))
            return Coming(pieces=[json.dumps(body_of(answer, self.protocol, "m")).encode()])

        self.proxy.answer = told
        body = json.dumps({"model": "m", "input": given, **fields}).encode()
        return self.proxy.ask("/v1/responses", "POST", *headers, body=body)

    def heard(self) -> list[tuple[str, str]]:
        """Return what the upstream was sent last, as it reads it."""
        said = FORMATS[self.protocol].parse_history(self.sent[-1])
        return [(one.kind, one.text) for each in said for one in each.messages]


@pytest.fixture(params=["chat_completions", "anthropic"])
def talk(request: pytest.FixtureRequest) -> Iterator[Talk]:
    talk = Talk(request.param)
    yield talk
    talk.proxy.close()


def id_of(client: Client) -> str:
    assert client.status == 200, client.body
    return str(json.loads(client.body)["id"])


def test_what_an_answer_goes_on_from_is_sent_to_an_upstream_that_cannot_know_it(talk: Talk):
    first = id_of(talk.say("Where is the key?", Answer(calls=(CALL,)), instructions="Be brief."))
    result = {"type": "function_call_output", "call_id": "call_1", "output": "a drawer"}
    second = id_of(talk.say([result], Answer(text="In a drawer."), previous_response_id=first, instructions="Be kind."))
    talk.say("And the lock?", Answer(text="On the door."), previous_response_id=second)
    assert talk.heard() == [
        ("system", "Be kind."),
        ("user", "Where is the key?"),
        ("tool_call", 'look {"path":"a"}'),
        ("tool_result", "a drawer"),
        ("assistant", "In a drawer."),
        ("user", "And the lock?"),
    ]
    talk.say("Which door?", Answer(text="The blue one."), previous_response_id=second)
    assert talk.heard()[-2:] == [("assistant", "In a drawer."), ("user", "Which door?")], "each goes on where it says"


def test_items_that_are_named_are_sent_as_what_they_are(talk: Talk):
    answer = talk.say("Where is the key?", Answer(text="In a drawer."))
    (item,) = [one["id"] for one in json.loads(answer.body)["output"]]
    question = {"role": "user", "content": "Where is the key?"}
    reference = {"type": "item_reference", "id": item}
    talk.say([question, reference, {"role": "user", "content": "And the lock?"}], Answer(text="On the door."))
    assert talk.heard() == [("user", "Where is the key?"), ("assistant", "In a drawer."), ("user", "And the lock?")]


@pytest.mark.parametrize("fields", [{"previous_response_id": "resp_x"}, {"conversation": "conv_1"}])
def test_a_conversation_that_is_not_known_here_is_refused(talk: Talk, fields: dict[str, str]):
    refused = talk.say("And the lock?", Answer(text="Which?"), **fields)
    assert (refused.status, talk.sent) == (400, [])
    assert json.loads(refused.body)["error"]["code"] == "not_translatable"


def test_nobody_goes_on_from_an_answer_of_somebody_else():
    talk = Talk("chat_completions", needs_keys=True)
    mine, other = talk.proxy.key(), talk.proxy.key()
    first = id_of(talk.say("Where is the key?", Answer(text="In a drawer."), mine, user="ann"))
    for who, user in ((other, "ann"), (mine, "bob"), (mine, None)):
        refused = talk.say("Where?", Answer(text="Hm."), who, previous_response_id=first, user=user)
        assert (refused.status, len(talk.sent)) == (400, 1)
    assert id_of(talk.say("Sure?", Answer(text="Yes."), mine, previous_response_id=first, user="ann"))
    talk.proxy.close()


def test_what_cannot_be_looked_up_now_is_said_to_be_so(talk: Talk):
    first = id_of(talk.say("Where is the key?", Answer(text="In a drawer.")))
    talk.proxy.home.store.close()
    refused = talk.say("Where?", Answer(text="Hm."), previous_response_id=first)
    assert (refused.status, json.loads(refused.body)["error"]["code"]) == (503, "conversation_unavailable")
