"""Answers that memory gave: shown, listed and forgotten by their ids, and gone on from; what only the server holds stays its own."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from everlog.access import Limits
from everlog.messages import JSON
from everlog.surfaces.proxy.relay.upstream import Outgoing
from everlog.surfaces.proxy.routes import Kind, route
from everlog.surfaces.proxy.settings.options import Target
from everlog.testing.upstream.answers import Answer, body_of
from tests.unit.proxy.test_front import Proxy
from tests.unit.proxy.wire import BASE, PLAIN, Client, Coming, body_in

OURS = "resp_evl_"
CALL: tuple[str, str, JSON] = ("call_1", "look", {"path": "a"})
LONG = "Where is the key? " + "I looked everywhere. " * 400
"""More than the budget, so that memory makes the request."""

BUDGET = (b"x-everlog-budget", b"1000")


class Talk:
    """A client of Responses before a proxy in mode tree, and the upstream behind it."""

    def __init__(self, **wishes: Any) -> None:
        self.proxy = Proxy(**{"options": replace(PLAIN, mode="tree")} | wishes)
        self.sent: list[Any] = []

    def say(self, given: object, answer: Answer, *headers: tuple[bytes, bytes], **fields: object) -> Client:
        def told(outgoing: Outgoing) -> Coming:
            self.sent.append(body_in(outgoing))
            return Coming(pieces=[json.dumps(body_of(answer, "responses", "m", len(self.sent))).encode()])

        self.proxy.answer = told
        body = json.dumps({"model": "m", "input": given, **fields}).encode()
        return self.proxy.ask("/v1/responses", "POST", BUDGET, *headers, body=body)

    def begin(self, *headers: tuple[bytes, bytes], **fields: object) -> str:
        """Say something long, and return the id of the answer."""
        return id_of(self.say(LONG, Answer(text="In a drawer."), *headers, **fields))

    def ask(self, id_: str, end: str = "", method: str = "GET", *headers: tuple[bytes, bytes]) -> Client:
        self.proxy.answer = lambda _: pytest.fail("the upstream was asked")
        return self.proxy.ask(f"/v1/responses/{id_}{end}", method, *headers)

    def said(self) -> list[str]:
        """Return the words that the upstream was sent last, without the instructions."""
        given = self.sent[-1]["input"]
        items = [{"content": given}] if isinstance(given, str) else given
        return [json.dumps(one.get("content") or one.get("output") or one.get("name")) for one in items]

    def words(self) -> list[str]:
        """Return all that is in the log."""
        keys = [one.key for one in self.proxy.home.threads()]
        return [entry.text for key in keys for entry in self.proxy.home.thread(key).entries()]


@pytest.fixture
def talk() -> Iterator[Talk]:
    talk = Talk()
    yield talk
    talk.proxy.close()


def id_of(client: Client) -> str:
    assert client.status == 200, client.body
    return str(json.loads(client.body)["id"])


def error_of(client: Client) -> tuple[int, str]:
    return client.status, json.loads(client.body)["error"]["code"]


def test_an_answer_that_memory_gave_has_an_id_of_ours_and_the_server_keeps_nothing(talk: Talk):
    first = talk.begin()
    second = id_of(talk.say("And the lock?", Answer(text="On the door."), previous_response_id=first))
    assert first.startswith(OURS)
    assert second.startswith(OURS)
    for sent in talk.sent:
        assert (sent["store"], sent["include"]) == (False, ["reasoning.encrypted_content"])
        assert "previous_response_id" not in sent
    assert "In a drawer." in talk.said()[-2]
    assert "And the lock?" in talk.said()[-1]


def test_a_short_question_that_goes_on_from_it_is_of_the_talk_since_no_server_could_answer_it(talk: Talk):
    first = talk.begin()
    id_of(talk.say("Sure?", Answer(text="Yes."), previous_response_id=first, max_output_tokens=16))
    assert "In a drawer." in talk.said()[-2]
    assert talk.words()[-2:] == ["Sure?", "Yes."]


def test_an_answer_is_shown_again_as_it_was_given(talk: Talk):
    first = talk.begin()
    answer = Answer(text="Let me look.", calls=(CALL,), thinking="Hm.", cached_tokens=64)
    given = json.loads(talk.say("And the lock?", answer, previous_response_id=first).body)
    found = talk.ask(given["id"])
    assert (found.status, found.header(b"content-type")) == (200, [b"application/json"])
    shown = json.loads(found.body)
    same = ("id", "object", "status", "model")
    assert {name: shown[name] for name in same} == {name: given[name] for name in same}
    assert shown["previous_response_id"] == first
    told = [one for one in given["output"] if one["type"] != "reasoning"]
    assert [{name: one[name] for name in old} for one, old in zip(shown["output"], told, strict=True)] == told
    assert shown["usage"]["input_tokens"] == given["usage"]["input_tokens"]
    assert talk.ask(given["id"], method="HEAD").status == 200


def test_what_was_new_in_a_request_is_listed_newest_first_and_in_pages(talk: Talk):
    first = talk.begin()
    calls: tuple[tuple[str, str, JSON], ...] = tuple((f"call_{n}", "look", {"path": str(n)}) for n in range(3))
    second = id_of(talk.say("And the lock?", Answer(calls=calls), previous_response_id=first))
    results = [{"type": "function_call_output", "call_id": f"call_{n}", "output": f"door {n}"} for n in range(3)]
    third = id_of(talk.say(results, Answer(text="On the door."), previous_response_id=second))
    page = json.loads(talk.ask(third, "/input_items").body)
    assert [one["output"] for one in page["data"]] == ["door 2", "door 1", "door 0"]
    assert (page["object"], page["has_more"]) == ("list", False)
    ids = [one["id"] for one in page["data"]]
    assert (page["first_id"], page["last_id"]) == (ids[0], ids[-1])
    part = json.loads(talk.ask(third, f"/input_items?limit=1&order=asc&after={ids[2]}").body)
    assert ([one["id"] for one in part["data"]], part["has_more"]) == ([ids[1]], True)
    (question,) = json.loads(talk.ask(second, "/input_items").body)["data"]
    assert (question["role"], question["content"]) == ("user", [{"type": "input_text", "text": "And the lock?"}])
    for query in ("limit=0", "limit=101", "limit=x", "order=up", "after=item_x"):
        assert error_of(talk.ask(third, f"/input_items?{query}")) == (400, "invalid_page"), query


def test_an_answer_that_is_forgotten_cannot_be_named_and_its_words_stay(talk: Talk):
    first = talk.begin()
    item = json.loads(talk.ask(first).body)["output"][0]["id"]
    gone = talk.ask(first, method="DELETE")
    assert json.loads(gone.body) == {"id": first, "object": "response", "deleted": True}
    for method, end in (("GET", ""), ("GET", "/input_items"), ("DELETE", ""), ("POST", "/cancel")):
        assert error_of(talk.ask(first, end, method)) == (404, "response_not_found")
    asked = len(talk.sent)
    refused = talk.say("Sure?", Answer(text="Yes."), previous_response_id=first)
    assert (error_of(refused), len(talk.sent)) == ((400, "previous_response_not_found"), asked)
    reference = [{"type": "item_reference", "id": item}, {"role": "user", "content": "Sure?"}]
    talk.say(reference, Answer(text="Yes."))
    assert "In a drawer." not in "".join(talk.said()), "its items are forgotten with it"
    assert "In a drawer." in talk.words()


def test_nobody_is_shown_an_answer_of_somebody_else():
    talk = Talk(needs_keys=True)
    mine, other = talk.proxy.key(), talk.proxy.key()
    ann, bob = (b"x-everlog-user-id", b"ann"), (b"x-everlog-user-id", b"bob")
    first = talk.begin(mine, user="ann")
    for who in ((other, ann), (mine, bob), (mine,)):
        for method, end in (("GET", ""), ("GET", "/input_items"), ("DELETE", ""), ("POST", "/cancel")):
            assert error_of(talk.ask(first, end, method, *who)) == (404, "response_not_found")
        refused = talk.say("Where?", Answer(text="Hm."), *who, previous_response_id=first)
        assert (error_of(refused), len(talk.sent)) == ((400, "previous_response_not_found"), 1)
    assert talk.ask(first, "", "GET", mine, ann).status == 200
    assert talk.ask(first, "?user_id=ann", "GET", mine).status == 200
    assert talk.ask(first, "?user_id=ann", "GET", other).status == 404
    talk.proxy.close()


def test_an_answer_that_a_client_wants_stored_nowhere_cannot_be_named_later(talk: Talk):
    given = json.loads(talk.say(LONG, Answer(text="In a drawer."), store=False).body)
    assert error_of(talk.ask(given["id"])) == (404, "response_not_found")
    refused = talk.say("Sure?", Answer(text="Yes."), previous_response_id=given["id"])
    assert error_of(refused) == (400, "previous_response_not_found")


def test_a_talk_goes_another_way_from_an_answer_that_is_named_twice(talk: Talk):
    first = talk.begin()
    talk.say("And the lock?", Answer(text="On the door."), previous_response_id=first)
    other = id_of(talk.say("And the bell?", Answer(text="Beside it."), previous_response_id=first))
    assert "And the lock?" not in "".join(talk.said())
    talk.say("Which one?", Answer(text="The left one."), previous_response_id=other)
    assert "And the bell?" in talk.said()[-3]


def test_the_same_request_answered_the_same_again_can_be_gone_on_from_by_either_id(talk: Talk):
    first, again = talk.begin(), talk.begin()
    assert first != again
    for id_ in (first, again):
        assert json.loads(talk.ask(id_).body)["output"][0]["content"][0]["text"] == "In a drawer."
        talk.say("Sure?", Answer(text="Yes."), previous_response_id=id_)
        assert "In a drawer." in talk.said()[-2]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"previous_response_id": "resp_x"}, b"previous_response"),
        ({"conversation": "conv_x"}, b"conversation"),
        ({"conversation": {"id": "conv_x"}}, b"conversation"),
        ({"background": True}, b"background"),
    ],
)
def test_what_the_server_holds_goes_up_as_it_came_and_the_answer_says_why(
    talk: Talk, fields: dict[str, object], reason: bytes
):
    for _ in range(2):
        answer = talk.say(LONG, Answer(text="In a drawer."), **fields)
        assert answer.header(b"x-everlog-memory-off") == [reason]
        assert talk.sent[-1] == {"model": "m", "input": LONG, **fields}
        assert not id_of(answer).startswith(OURS)


def test_a_talk_that_began_elsewhere_stays_there(talk: Talk):
    """The log has the end of it: nobody could tell the model how it began."""
    last = "resp_x"
    for n in range(4):
        answer = talk.say(f"{n}. {LONG}", Answer(text=f"Drawer {n}."), previous_response_id=last)
        assert answer.header(b"x-everlog-memory-off") == [b"previous_response"]
        assert talk.sent[-1]["previous_response_id"] == last
        last = id_of(answer)


def test_a_conversation_that_the_client_named_itself_is_held_here(talk: Talk):
    for n in range(3):
        talk.say(f"Question {n}", Answer(text=f"Answer {n}"), conversation="about-keys")
        assert "conversation" not in talk.sent[-1]
    assert [word for word in ("Question 0", "Answer 1", "Question 2") if word in "".join(talk.said())] == [
        "Question 0", "Answer 1", "Question 2"
    ]  # fmt: skip


def test_answers_are_not_looked_for_at_the_server_while_the_database_is_away(talk: Talk):
    first = talk.begin()
    talk.proxy.home.store.close()
    for method, end in (("GET", ""), ("GET", "/input_items"), ("DELETE", ""), ("POST", "/cancel")):
        assert error_of(talk.ask(first, end, method)) == (503, "conversation_unavailable")
    asked = len(talk.sent)
    refused = talk.say("Sure?", Answer(text="Yes."), previous_response_id=first)
    assert (error_of(refused), len(talk.sent)) == ((503, "conversation_unavailable"), asked)


@pytest.mark.parametrize(
    ("method", "end", "found"),
    [
        ("POST", "/cancel", (400, "not_in_background")),
        ("GET", "?stream=true", (400, "not_streamed")),
        ("GET", "/cancel", (405, "method_not_allowed")),
        ("POST", "", (405, "method_not_allowed")),
        ("GET", "/output_items", (404, "no_such_path")),
    ],
)
def test_what_cannot_be_asked_of_an_answer_is_said(talk: Talk, method: str, end: str, found: tuple[int, str]):
    assert error_of(talk.ask(talk.begin(), end, method)) == found


def test_ids_that_are_not_ours_are_the_upstreams_and_without_a_log_all_are(talk: Talk):
    assert route("GET", "/v1/responses/resp_1").kind is Kind.ANSWER
    assert route("GET", f"/v1/chat/completions/{OURS}1").kind is Kind.ANSWER
    assert route("GET", f"/v1/responses/{OURS}1").kind is Kind.OURS
    seen: list[str] = []

    def answer(outgoing: Outgoing) -> Coming:
        seen.append(outgoing.url)
        return Coming(pieces=[b"{}"])

    talk.proxy.answer = answer
    talk.proxy.app._memory = None
    talk.proxy.ask("/v1/responses/resp_1")
    talk.proxy.ask(f"/v1/responses/{OURS}1")
    assert [url.rpartition("/")[2] for url in seen] == ["resp_1", f"{OURS}1"]


def test_a_header_that_cannot_be_is_refused_there_too(talk: Talk):
    refused = talk.ask(talk.begin(), "", "GET", (b"x-everlog-mode", b"forest"))
    assert error_of(refused) == (400, "header_not_understood")


def test_looking_at_answers_does_not_count_against_the_limits_of_a_key():
    talk = Talk(needs_keys=True)
    key = talk.proxy.key(limits=Limits(requests_per_minute=1))
    first = talk.begin(key)
    assert [talk.ask(first, "", "GET", key).status for _ in range(3)] == [200] * 3
    talk.proxy.close()


def test_the_first_request_that_a_database_ever_sees_is_one_thread_with_its_answer(talk: Talk):
    talk.begin()
    assert talk.words() == [LONG, "In a drawer."]


def test_a_talk_on_an_upstream_of_another_protocol_has_ids_of_ours_too():
    """An answer that was translated whole is an answer of memory's, with its rounds, as any other."""
    talk = Talk(options=replace(PLAIN, mode="tree", targets=(Target(base_url=BASE, protocols=("chat_completions",)),)))

    def told(outgoing: Outgoing) -> Coming:
        talk.sent.append(body_in(outgoing))
        return Coming(pieces=[json.dumps(body_of(Answer(text="Yes."), "chat_completions", "m")).encode()])

    body: dict[str, object] = {"model": "m", "input": LONG}
    for _ in range(2):
        talk.proxy.answer = told
        answer = talk.proxy.ask("/v1/responses", "POST", BUDGET, body=json.dumps(body).encode())
        body = {"model": "m", "input": "Sure?", "previous_response_id": id_of(answer)}
        assert id_of(answer).startswith(OURS)
        assert (answer.header(b"x-everlog-rounds"), answer.header(b"x-everlog-dropped")) == ([b"1"], [])
        assert talk.ask(id_of(answer)).status == 200
    assert [one["content"] for one in talk.sent[-1]["messages"][-2:]] == ["Yes.", "Sure?"]
    talk.proxy.close()
