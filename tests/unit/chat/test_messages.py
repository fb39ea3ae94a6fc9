"""Instructions, messages and attachments (chat A.1 45 to 56)."""

import io
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

import everlog.chat.attachments as attachments_module
from everlog.chat.attachments import attachment, attachments, sniffed
from everlog.chat.chat import Chat
from everlog.chat.message import ChatMessage
from everlog.chat.tools import tool
from everlog.errors import Mistake, PartTooLarge, ProviderFailed, UnsupportedAttachment
from everlog.messages import Media, Message
from everlog.protocols import FORMATS
from everlog.testing.upstream import Answer, Refused
from tests.unit.chat.talking import called

PNG = b"\x89PNG\r\n\x1a\n rest"


@pytest.mark.covers("chat A.1 45", "D77")
def test_new_instructions_take_the_place_of_all_earlier_ones_and_stand_last(chatting):
    chat = chatting().chat.with_instructions("One.").ask_later("Hi").with_instructions("Two.", append=True)
    assert [one.text for one in chat] == ["One.", "Hi", "Two."]
    assert chat.with_instructions("Three.") is chat
    assert [(one.role, one.text) for one in chat] == [("user", "Hi"), ("system", "Three.")]


@pytest.mark.covers("chat A.1 45")
def test_instructions_are_sent_where_the_protocol_wants_them(talk):
    talk = talk(Answer(text="Hello."))
    talk.chat.ask_later("Hi").with_instructions("Be brief.")
    talk.do("complete")
    body = talk.bodies[0]
    match talk.protocol:
        case "anthropic":
            assert body["system"] == [{"type": "text", "text": "Be brief."}]
            assert [one["role"] for one in body["messages"]] == ["user"]
        case "responses":
            assert body["instructions"] == "Be brief."
            assert len(body["input"]) == 1
        case _:
            assert [one["role"] for one in body["messages"]] == ["system", "user"]


@pytest.mark.covers("chat A.1 46", "D77")
def test_instructions_may_be_kept_marked_or_removed(chatting):
    chat = chatting().chat.with_instructions("One.").with_instructions("Two.", append=True, cache_until_here=True)
    assert [(one.text, one.said.cached) for one in chat] == [("One.", False), ("Two.", True)]
    assert chat.ask_later("Hi").with_instructions(None).messages == [chat[0]]
    assert chat[0].text == "Hi"
    chat.with_instructions("Three.").with_instructions(None, append=True)
    assert chat[-1].text == "Three."
    with pytest.raises(Mistake, match="instructions are a str or None, not int"):
        chat.with_instructions(3)


@pytest.mark.covers("chat A.1 47", "D21")
@pytest.mark.parametrize(
    ("given", "texts"),
    [
        (None, []),
        (Message(kind="user", text="a"), ["a"]),
        ({"role": "user", "content": "a"}, ["a"]),
        ([{"role": "user", "content": "a"}, Message(kind="assistant", text="b")], ["a", "b"]),
    ],
)
def test_messages_are_made_of_none_one_or_many(chatting, given, texts):
    chat = chatting().chat.ask_later("old")
    chat.messages = given
    assert [one.text for one in chat] == texts


@pytest.mark.covers("chat A.1 47", "D21")
def test_the_callers_list_is_not_the_storage(chatting):
    chat = chatting().chat
    mine: list[Any] = [{"role": "user", "content": "a"}]
    chat.messages = mine
    mine.append("junk")
    chat.messages.append("junk")
    assert [one.text for one in chat] == ["a"]


@pytest.mark.covers("chat A.1 48", "D31")
@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (None, "a message is a ChatMessage, a Message or a mapping"),
        ("words", "a message is a ChatMessage, a Message or a mapping"),
        ({"role": "bot", "content": "x"}, "no role 'bot'; it is one of system, user, assistant, tool"),
        ({"role": "user", "content": 5}, "the content of a message is a str or None"),
        ({"role": "tool", "content": "x"}, "`tool_call_id` of a result is a str"),
        ({"role": "assistant", "tool_calls": [5]}, "a tool call is a ToolCall or a mapping"),
    ],
    ids=["none", "words", "role", "content", "result", "call"],
)
def test_what_is_no_message_is_refused(chatting, given, complaint):
    chat = chatting().chat
    with pytest.raises(Mistake, match=complaint):
        chat.add_message(given)
    assert len(chat) == 0


@pytest.mark.covers("chat A.1 48", "D31")
def test_a_message_is_added_and_returned(chatting):
    chat = chatting().chat
    message = chat.add_message({"role": "user", "content": None})
    assert isinstance(message, ChatMessage)
    assert (chat[0], message.text) == (message, "")


@pytest.mark.covers("chat A.1 49", "D6")
def test_a_chat_is_a_collection_of_its_messages(chatting):
    chat = chatting().chat.ask_later("a")
    chat.add_message({"role": "assistant", "content": "b"})
    assert [one.text for one in chat] == ["a", "b"]
    assert (len(chat), chat[-1].text, chat[0] in chat) == (2, "b", True)
    assert next(iter(chat)).text == "a"
    assert [one.text for one in chat[1:]] == ["b"]
    assert chatting().chat, "an empty chat is a chat"


@pytest.mark.covers("chat A.1 50")
def test_a_message_of_calls_that_is_added_has_empty_words(chatting):
    calls = [{"id": name, "name": "f", "arguments": "{}"} for name in ("b", "a")]
    message = chatting().chat.add_message({"role": "assistant", "content": None, "tool_calls": calls})
    assert (message.text, list(message.tool_calls)) == ("", ["b", "a"])


@pytest.mark.covers("chat A.1 50")
def test_a_message_of_calls_only_has_empty_words_and_its_calls_in_order(talk):
    talk = talk(called(("b", "f", {"x": 1}), ("a", "g", {})))
    talk.chat.ask_later("Hi")
    message = talk.do("generate")
    assert message.text == ""
    assert [(name, call.name, call.arguments) for name, call in message.tool_calls.items()] == [
        ("b", "f", {"x": 1}),
        ("a", "g", {}),
    ]


@pytest.mark.covers("chat A.1 51", "D46")
def test_attachments_come_from_paths_urls_open_files_and_bytes(tmp_path: Path):
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    image = Media(media_type="image/png", content=PNG, name="a.png")
    read = io.BytesIO(PNG)
    read.read()
    assert attachment(str(path)) == attachment(path) == image
    assert attachment(read) == attachment(PNG) == Media(media_type="image/png", content=PNG)
    assert attachment("https://a.example/b.pdf?x=1") == Media(
        media_type="application/pdf", url="https://a.example/b.pdf?x=1", name="b.pdf"
    )
    assert attachment(image) is image
    with path.open("rb") as file:
        assert attachments({"one": file, "none": None, "blank": " ", "many": [path, [image]]}) == (image,) * 3


@pytest.mark.covers("chat A.1 51")
def test_what_cannot_be_attached_is_refused(tmp_path: Path):
    with pytest.raises(Mistake, match=r"the attachment gone\.png cannot be read: No such file"):
        attachment(tmp_path / "gone.png")
    with pytest.raises(Mistake, match="an attachment is a path, a URL, an open file or bytes, not int"):
        attachment(5)
    for name in ("a\0.png", "\ud800.png"):
        with pytest.raises(Mistake, match="characters that no file name can have"):
            attachment(name)


@pytest.mark.parametrize("kind", ["fifo", "directory", "device", "socket"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind, monkeypatch):
    """A pipe that nobody writes into would be waited for without end."""
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    path = {"device": Path("/dev/zero"), "directory": Path()}.get(kind, Path("odd"))
    with socket.socket(socket.AF_UNIX) as listening:
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "socket":
            listening.bind(str(path))
        (tmp_path / "link").symlink_to(path)
        for one in (path, tmp_path / "link"):
            with pytest.raises(Mistake, match=r"cannot be read: it is a .*, not a file"):
                attachment(one)


def test_a_link_to_a_file_is_the_file(tmp_path: Path):
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "link.png").symlink_to("a.png")
    assert attachment(tmp_path / "link.png") == Media(media_type="image/png", content=PNG, name="link.png")


class Endless(io.RawIOBase):
    def readable(self):
        return True

    def read(self, size=-1):
        return b"0123456789"[:size] if size >= 0 else pytest.fail("read without a bound")


@pytest.mark.parametrize("kind", ["path", "bytes", "open", "text", "endless"])
def test_an_attachment_above_the_limit_is_refused_and_not_read_whole(tmp_path: Path, kind, monkeypatch):
    monkeypatch.setattr(attachments_module, "MOST_BYTES", 100)
    sources: dict[str, Any] = {
        "path": tmp_path / "a",
        "bytes": bytes(101),
        "open": io.BytesIO(bytes(101)),
        "text": io.StringIO("ä" * 51),
        "endless": Endless(),
    }
    with (tmp_path / "a").open("wb") as file:
        file.truncate(2**40)  # a hole: nothing could hold it
    with pytest.raises(PartTooLarge, match="larger than 100 bytes, the most that a provider takes"):
        attachment(sources[kind])
    assert attachment(io.BytesIO(bytes(100))).content == attachment(bytes(100)).content == bytes(100)


def test_an_attachment_that_the_protocol_cannot_carry_is_refused_before_anything_is_sent(talk):
    talk = talk(Answer(text="Seen."))
    size = 24 * 2**20 + 1
    talk.chat.ask_later("What is it?", files=attachment(PNG.ljust(size, b"0")))
    if talk.protocol == "anthropic":
        with pytest.raises(PartTooLarge, match=f"of {size} bytes is larger than {size - 1}, the most that anthropic"):
            talk.do("complete")
        assert talk.upstream.requests == []
    else:
        assert talk.do("render")


@pytest.mark.covers("chat A.1 52")
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"%PDF-1.7", "application/pdf"),
        (b"RIFF0000WAVE", "audio/wav"),
        (b"RIFF0000WEBP", "image/webp"),
        (b"0000ftypmp42", "video/mp4"),
        ("Grüße".encode(), "text/plain"),
        ("Grüße".encode()[:3], "text/plain"),
        (b"\0\1\2", "application/octet-stream"),
        (b"", "text/plain"),
    ],
)
def test_bytes_without_a_name_tell_their_type(content, kind):
    assert sniffed(content) == kind


@pytest.mark.covers("chat A.1 56", "D46")
def test_only_what_is_attached_is_read(talk, tmp_path: Path):
    path = tmp_path / "key.txt"
    path.write_text("my secret")
    link = "http://127.0.0.1:9/file.png"

    def look(at: str) -> Any:
        return [at, link]

    talk = talk(called(("c1", "look", {"at": str(path)})), Answer(text=str(path)), Answer(text="Ok."))
    talk.chat.with_tools(look).with_instructions(str(path)).add_message({"role": "user", "content": str(path)})
    talk.ask(f"Read {path} and {link}")
    talk.ask(str(path))
    assert all(b"my secret" not in one.raw for one in talk.upstream.requests)
    assert all(one.attachments == () for one in talk.chat)
    assert len(talk.upstream.requests) == 3


@pytest.mark.covers("chat A.1 56", "D46")
def test_the_docs_say_where_trust_ends():
    for told in (attachments_module.__doc__, Chat.ask_later.__doc__):
        assert "stranger" in (told or "")
    page = Path(__file__).parents[3] / "docs" / "chat.md"
    assert "stranger" in page.read_text("utf-8")


@pytest.mark.covers("chat A.1 51", "chat A.1 56")
def test_a_url_is_handed_on_and_not_fetched(talk):
    talk = talk(Answer(text="Ok."))
    link = f"{talk.upstream.url}/file.png"
    talk.ask("Look", files=link)
    assert [one.path for one in talk.upstream.requests] == [talk.upstream.requests[0].path]
    assert json.dumps(link).encode() in talk.upstream.requests[0].raw


@pytest.mark.covers("chat A.1 52")
def test_a_text_is_sent_as_words_in_a_block_that_it_cannot_close(talk):
    talk = talk(Answer(text="Ok."))
    talk.ask("Read this", files=attachment(b"a </file> \xff", name="a.txt"))
    words = 'Read this\n<file name="a.txt" type="text/plain">\na <\\/file> \ufffd\n</file>'
    body = talk.bodies[0]
    content = (body.get("messages") or body.get("input"))[0]["content"]
    assert (content if isinstance(content, str) else content[0]["text"]) == words
    assert (talk.chat[0].text, talk.chat[0].attachments[0].content) == ("Read this", b"a </file> \xff")


@pytest.mark.covers("chat A.1 52")
def test_a_document_of_another_protocol_is_sent_as_words(talk):
    source = {"type": "text", "media_type": "text/plain", "data": "Tide at noon."}
    wire = {"role": "user", "content": [{"type": "document", "source": source}, {"type": "text", "text": "When?"}]}
    talk = talk(Answer(text="Noon."))
    talk.chat.messages = list(FORMATS["anthropic"].parse_history({"messages": [wire]}))
    talk.do("complete")
    if talk.protocol == "anthropic":
        assert talk.bodies[0]["messages"] == [wire]
    else:
        words = '<file name=\\"text\\" type=\\"text/plain\\">\\nTide at noon.\\n</file>'
        assert words.encode() in talk.upstream.requests[0].raw


@pytest.mark.covers("chat A.1 51", "D46")
def test_an_image_is_sent_behind_the_words(talk):
    talk = talk(Answer(text="Ok."))
    talk.ask("Look", files=[attachment(PNG)])
    body = talk.bodies[0]
    kinds = [one["type"] for one in (body.get("messages") or body.get("input"))[0]["content"]]
    assert (
        kinds
        == {
            "chat_completions": ["text", "image_url"],
            "responses": ["input_text", "input_image"],
            "anthropic": ["text", "image"],
        }[talk.protocol]
    )


@pytest.mark.covers("chat A.1 53")
def test_a_type_that_the_protocol_does_not_carry_is_refused_before_anything_is_sent(talk):
    talk = talk(Answer(text="Ok."))
    with pytest.raises(UnsupportedAttachment, match=f"{talk.protocol} takes no video/mp4"):
        talk.ask("Look", files=attachment(b"0000ftypmp42"))
    assert talk.upstream.requests == []


@pytest.mark.covers("chat A.1 22")
@pytest.mark.parametrize(
    ("value", "text", "images"),
    [
        ("as it is", "as it is", 0),
        ({"a": [1, None]}, '{"a":[1,null]}', 0),
        ([1, 2], "[1,2]", 0),
        (5, "5", 0),
        (None, "", 0),
        (attachment(PNG), "", 1),
        (["see", attachment(PNG), "this"], "see\nthis", 1),
    ],
    ids=["text", "object", "list", "number", "none", "image", "texts and image"],
)
def test_what_a_tool_returns_becomes_text_and_attachments(chatting, value, text, images):
    def look() -> Any:
        return value

    talk = chatting(called(("c", "look", {})), Answer(text="Ok."))
    talk.chat.with_tools(look)
    talk.ask()
    assert (talk.chat[2].text, len(talk.chat[2].attachments)) == (text, images)


@pytest.mark.covers("chat A.1 22")
def test_attachments_among_other_values_are_a_mistake(chatting):
    def look() -> Any:
        return [attachment(PNG), 5]

    talk = chatting(called(("c", "look", {})))
    talk.chat.with_tools(look)
    with pytest.raises(Mistake, match="attachments alone or among texts"):
        talk.ask()


@pytest.mark.covers("chat A.1 55")
def test_images_of_results_stand_inside_or_behind_all_results_of_their_round(talk):
    @tool
    def look(at: str) -> Any:
        """Look."""
        return [at, attachment(PNG)]

    talk = talk(called(("a", "look", {"at": "1"}), ("b", "look", {"at": "2"})), Answer(text="Ok."))
    talk.chat.with_tools(look)
    talk.ask()
    body = talk.bodies[1]
    if talk.protocol == "anthropic":
        results = body["messages"][-1]["content"]
        assert [[part["type"] for part in one["content"]] for one in results] == [["text", "image"]] * 2
    elif talk.protocol == "responses":
        assert [one.get("type") for one in body["input"][-3:]] == ["function_call_output", "function_call_output", None]
        assert [one["type"] for one in body["input"][-1]["content"]] == ["input_image"] * 2
    else:
        assert [one["role"] for one in body["messages"][-3:]] == ["tool", "tool", "user"]
        assert [one["type"] for one in body["messages"][-1]["content"]] == ["image_url"] * 2


@pytest.mark.covers("chat A.1 95", "chat A.2 521")
@pytest.mark.parametrize("streamed", [False, True])
def test_the_raw_blocks_of_a_reply_are_sent_again_as_they_came(talk, streamed):
    talk = talk(Answer(thinking="Hm.", text="One."), Answer(text="Two."))
    talk.chat.with_thinking()
    talk.ask("1", on_chunk=print if streamed else None)
    talk.ask("2")
    raw = talk.chat[1].said.raw
    assert raw is not None
    body = talk.bodies[1]
    sent = body.get("messages") or body.get("input")
    assert [one for one in raw.items if one not in sent] == []
    assert "Hm." in json.dumps(sent)
    if talk.protocol == "responses":
        assert [body["store"] for body in talk.bodies] == [False, False]
        assert [body["include"] for body in talk.bodies] == [["reasoning.encrypted_content"]] * 2
        assert '"encrypted_content": "sealed-' in json.dumps(sent)
    if talk.protocol == "anthropic":
        assert '"signature": "signed-' in json.dumps(sent)


def circle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


@pytest.mark.covers("chat A.1 22")
@pytest.mark.parametrize("value", [circle(), {(1, 2): 3}, 10**5000], ids=["circle", "key", "number"])
def test_what_a_tool_returns_and_nothing_can_tell_is_a_mistake(talk, value):
    def odd() -> Any:
        return value

    talk = talk(called(("c1", "odd", "{}")))
    talk.chat.with_tools(odd)
    with pytest.raises(Mistake, match=f"a tool returned a {type(value).__name__} that cannot be written"):
        talk.ask()
    assert [one.role for one in talk.chat] == ["user", "assistant"]


def test_a_message_shows_its_role_and_sizes_and_an_attempt_how_it_went(talk):
    talk = talk(Refused(status=500, message="my secret"), called(("a", "f", {"x": 1}), text="my secret"))
    talk.chat.ask_later("my secret", files=PNG)
    with pytest.raises(ProviderFailed):
        talk.do("generate")
    answer = talk.do("generate")
    assert [repr(one) for one in talk.chat] == [
        "<ChatMessage user, 9 characters, 1 file>",
        "<ChatMessage assistant, 9 characters, 1 call>",
    ]
    assert [repr(one) for one in talk.chat.attempts] == [
        f"<Attempt 1 of chat at {talk.provider}/m-1: failed 500 ProviderFailed>",
        f"<Attempt 1 of chat at {talk.provider}/m-1: succeeded 200>",
    ]
    assert str(answer) == "my secret"


@pytest.mark.parametrize(("text", "named"), [(None, {}), ("", {}), ("  ", {"files": []})])
def test_asking_without_words_or_files_is_refused_before_anything_is_sent(chatting, text, named):
    talk = chatting(Answer(text="Hello."))
    with pytest.raises(Mistake, match="give words, or files"):
        talk.do("ask", text, **named)
    assert len(talk.chat) == 0
    assert not talk.upstream.requests


@pytest.mark.parametrize("verb", ["ask", "ask_later", "stream"])
def test_attachments_under_another_name_are_refused_with_the_right_one(chatting, verb):
    with pytest.raises(Mistake, match="given by files="):
        chatting(Answer(text="Hello.")).do(verb, "Look", with_=["a.png"])
