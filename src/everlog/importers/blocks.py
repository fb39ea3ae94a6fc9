"""Content as the chat APIs write it, a text or a list of typed blocks, made into messages.

One dialect is not told from the other: the names of OpenAI's, Anthropic's and their clients' blocks do not collide. A
run of text and media becomes one message, each tool call another, each result a third. Reasoning is counted and left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from everlog.importers.draft import Draft
from everlog.importers.media import from_base64, from_url, media_type
from everlog.importers.report import Tally
from everlog.importers.shapes import Record, record, string
from everlog.jsonl import dumps
from everlog.messages import JSON, Call, Kind, Media, Message, Part, Result

REASONING = frozenset(
    {"thinking", "redacted_thinking", "reasoning", "reasoning_content", "reasoning_text", "summary_text"}
)
TEXT = frozenset({"text", "input_text", "output_text", "refusal", "voice_note"})
MEDIA = frozenset({"image", "document", "image_url", "input_image", "input_audio", "file", "input_file", "video_url"})
CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
BOOKKEEPING = frozenset({"token_budget", "flag"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """Who says a list of blocks, and what all of its messages share."""

    kind: Kind
    author: str | None = None
    at: datetime | None = None
    id: str | None = None
    """The source's id; the first message has it, those after it have `#1`, `#2` … behind it."""
    model: str | None = None
    meta: Mapping[str, JSON] = field(default_factory=dict)
    place: int = 0
    """Where in the conversation it stands; calls without an id are named after it."""


class Speech:
    """The messages that one source message becomes."""

    def __init__(self, speaker: Speaker, source: str, tally: Tally) -> None:
        self.messages: list[Message] = []
        self._speaker = speaker
        self._source = source
        self._tally = tally
        self._draft = Draft(source, tally)

    def add(self, content: JSON) -> None:
        """Add a text, a list of blocks, or nothing."""
        for block in content if isinstance(content, list) else [content]:
            if block is None:
                continue
            if isinstance(block, str):
                self._draft.say(block)
            else:
                self._block(block)

    def call(self, call_id: str | None, name: str | None, arguments: str, **meta: JSON) -> Call:
        """Add a tool call and return it; what has no id gets one."""
        self.pause()
        name = name or "tool"
        call = Call(call_id=call_id or self._made_up_id(), name=name, arguments=arguments)
        self._say("tool_call", f"{name} {arguments}" if arguments else name, self._speaker.author, (call,), meta)
        return call

    def answer(self, call_id: str | None, content: JSON, *, name: str | None = None, failed: bool = False) -> None:
        """Add a tool result, whose content may again be blocks."""
        self.pause()
        draft = Draft(self._source, self._tally)
        for block in content if isinstance(content, list) else [content]:
            if isinstance(block, str):
                draft.say(block)
            elif block is not None and not self._tell(block, draft):
                draft.keep(block, f"tool_result:{record(block).get('type')}")
        result = Result(call_id=call_id or self._made_up_id(), name=name, failed=failed)
        self._say("tool_result", draft.text, name, (result, *draft.parts), {})

    def keep(self, value: JSON, name: object) -> None:
        """Add a part of a form we do not know to the message under way."""
        self._draft.keep(value, name)

    def show(self, media: Media) -> None:
        """Add an attachment to the message under way."""
        self._draft.show(media)

    def pause(self, *, even_empty: bool = False) -> None:
        """End the message under way; what comes next is another. Where nothing was said, that may be a message too."""
        if self._draft or (even_empty and not self.messages):
            speaker = self._speaker
            self._say(speaker.kind, self._draft.text, speaker.author, tuple(self._draft.parts), {})
            self._draft = Draft(self._source, self._tally)

    def _block(self, block: JSON) -> None:
        shape = record(block)
        kind = string(shape.get("type"))
        if kind is None:
            self._draft.keep(block, "block without type")
        elif kind in CALLS:
            self.call(string(shape.get("id")), string(shape.get("name")), dumps(shape.get("input", {})))
        elif kind.endswith("tool_result"):
            call_id = string(shape.get("tool_use_id"))
            failed = shape.get("is_error") is True
            self.answer(call_id, shape.get("content"), name=string(shape.get("name")), failed=failed)
        elif not self._tell(block, self._draft):
            self._draft.keep(block, kind)

    def _tell(self, block: JSON, draft: Draft) -> bool:
        """Add text, media or nothing for a block; return False if it is none of these."""
        shape = record(block)
        kind = string(shape.get("type"))
        if kind in REASONING:
            self._tally.skipped["reasoning"] += 1
        elif kind in BOOKKEEPING:
            self._tally.skipped[str(kind)] += 1
        elif kind in TEXT and isinstance(text := shape.get("text", shape.get("refusal")), str):
            draft.say(text)
        elif kind == "knowledge" and isinstance(text := shape.get("text"), str) and (url := string(shape.get("url"))):
            draft.say(text)
            draft.show(from_url(url, name=string(shape.get("title"))))
        elif kind in MEDIA and (media := media_of(shape)) is not None:
            draft.show(media)
        else:
            return False
        return True

    def _say(
        self, kind: Kind, text: str, author: str | None, parts: tuple[Part, ...], meta: Mapping[str, JSON]
    ) -> None:
        speaker = self._speaker
        foreign = kind == "tool_result" != speaker.kind  # a tool's words, in a message of somebody else
        place = len(self.messages)
        message_id = f"{speaker.id}#{place}" if speaker.id is not None and place else speaker.id
        self.messages.append(
            Message(
                kind=kind,
                text=text,
                author=author,
                at=speaker.at,
                parts=parts,
                id=message_id,
                model=None if foreign else speaker.model,
                meta=dict(meta) if foreign else {**speaker.meta, **meta},
            )
        )

    def _made_up_id(self) -> str:
        return f"{self._speaker.id or f'call-{self._speaker.place}'}#{len(self.messages)}"


def spoken(content: JSON, speaker: Speaker, source: str, tally: Tally) -> list[Message]:
    """Return the messages that a source message's content becomes; none if it holds nothing."""
    speech = Speech(speaker, source, tally)
    speech.add(content)
    speech.pause()
    return speech.messages


def media_of(block: Record) -> Media | None:
    """Return the image, sound or file of a block; None if it is not of a known form."""
    inner = block.get(str(block.get("type")))
    shape = record(inner) or block
    name = string(shape.get("filename")) or string(block.get("title"))
    if (
        url := string(inner)
        or string(shape.get("url"))
        or string(shape.get("image_url"))
        or string(shape.get("file_url"))
    ):
        return from_url(url, name=name)
    if data := string(shape.get("file_data")):
        content = from_base64(data)
        return from_url(data, name=name) if content is None else _inline(content, name)
    if (content := from_base64(shape.get("data"))) is not None:
        stated = string(shape.get("mimeType"))
        if suffix := string(shape.get("format")):
            stated = media_type(f"audio.{suffix}", content)
        return _inline(content, name, stated)
    if file_id := string(shape.get("file_id")):
        return Media(media_type=media_type(name), url=file_id, name=name)
    return _from_source(record(block.get("source")), name)


def _from_source(source: Record, name: str | None) -> Media | None:
    """Return the media of an Anthropic block's `source`."""
    stated = string(source.get("media_type"))
    data, url = source.get("data"), string(source.get("url")) or string(source.get("file_id"))
    if source.get("type") == "text" and isinstance(data, str):
        return _inline(data.encode("utf-8", "surrogatepass"), name, stated or "text/plain")
    if (content := from_base64(data)) is not None:
        return _inline(content, name, stated)
    return from_url(url, name=name, stated=stated) if url else None


def _inline(content: bytes, name: str | None, stated: str | None = None) -> Media:
    return Media(media_type=media_type(name, content, stated), content=content, name=name)
