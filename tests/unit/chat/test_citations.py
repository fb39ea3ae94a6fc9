"""Passages that back what a model says (chat A.1 98)."""

import json
from typing import Any

import pytest

from everlog.chat.attachments import attachment
from everlog.errors import Mistake
from everlog.protocols.exchange import Citation
from everlog.testing.upstream import Answer


@pytest.mark.covers("chat A.1 98", "D13", "D69")
def test_citations_are_asked_for_of_attached_documents(talk, caplog):
    cite = {"type": "char_location", "cited_text": "Tide at noon.", "document_index": 0, "document_title": "n.md"}
    cite |= {"start_char_index": 0, "end_char_index": 13}
    blocks: list[Any] = [{"type": "text", "text": "Noon.", "citations": [cite]}]
    talk = talk(Answer(text="Noon.", fields={"content": blocks}))
    assert talk.chat.with_citations() is talk.chat
    assert talk.chat.citations is True
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
