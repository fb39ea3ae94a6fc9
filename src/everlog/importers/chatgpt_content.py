"""The messages of a ChatGPT export: who speaks, and the kinds of content that they hold."""

from everlog.importers.draft import Draft
from everlog.importers.media import media_type
from everlog.importers.report import Tally, label
from everlog.importers.shapes import Record, array, compact, record, string
from everlog.importers.source import Source
from everlog.importers.times import moment
from everlog.messages import JSON, Call, Kind, Media, Message, Result

REASONING = frozenset({"thoughts", "reasoning_recap"})
TEXT_FIELDS = {
    "code": "text",
    "execution_output": "text",
    "citable_code_output": "output_str",
    "tether_quote": "text",
    "tether_browsing_code": "text",
    "tether_browsing_display": "result",
    "sonic_webpage": "text",
    "system_error": "text",
    "model_editable_context": "model_set_context",
}
"""Kinds of content whose words stand in one field."""

CONTEXT = frozenset({"user_editable_context", "model_editable_context"})
NODES_OF_A_TURN = 1000
"""How far above a result its call is looked for."""

ASSETS = frozenset({"image_asset_pointer", "audio_asset_pointer", "video_container_asset_pointer"})


class Reader:
    """Makes messages of the nodes of one conversation."""

    def __init__(self, mapping: Record, source: Source, tally: Tally) -> None:
        self._mapping = mapping
        self._source = source
        self._tally = tally

    def messages(self, name: str, message: Record) -> tuple[Message, ...]:
        """Return what the node says: a message, or nothing if it is empty, hidden reasoning or only structure."""
        if not message:
            return ()
        content = record(message.get("content"))
        kind_of_content = string(content.get("content_type"))
        if kind_of_content in REASONING or (message.get("channel") == "analysis" and not _called(message)):
            self._tally.skipped["reasoning"] += 1
            return ()
        draft = Draft("chatgpt", self._tally)
        self._fill(draft, content, message)
        kind = _kind(message, kind_of_content)
        if kind == "note":
            self._tally.unknown[f"role {label(record(message.get('author')).get('role'))}"] += 1
        if not draft and kind != "tool_call":
            self._tally.skipped[f"empty {kind} message"] += 1
            return ()
        return (self._message(name, kind, draft, message),)

    def _message(self, name: str, kind: Kind, draft: Draft, message: Record) -> Message:
        content, facts = record(message.get("content")), record(message.get("metadata"))
        speaker = record(message.get("author"))
        author = string(speaker.get("name")) or (string(speaker.get("role")) if kind == "note" else None)
        text, parts = draft.text, tuple(draft.parts)
        identity = string(message.get("id")) or name
        if kind == "tool_call":
            tool = str(message.get("recipient"))
            parts = (Call(call_id=identity, name=tool, arguments=text), *parts)
            text = f"{tool} {text}" if text else tool
        elif kind == "tool_result":
            parts = (self._result(name, identity, author, message), *parts)
        return Message(
            kind=kind,
            text=text,
            author=author,
            at=moment(message.get("create_time"), self._tally),
            parts=parts,
            id=identity,
            model=string(facts.get("model_slug")) if kind in {"assistant", "tool_call"} else None,
            meta=_meta(message, content, facts),
        )

    def _result(self, name: str, identity: str, tool: str | None, message: Record) -> Result:
        """Return which call a tool answers: the nearest one above it in its turn, by preference one of that tool."""
        nearest: str | None = None
        above = string(record(self._mapping.get(name)).get("parent"))
        for _ in range(NODES_OF_A_TURN):
            node = record(self._mapping.get(above or ""))
            asked = record(node.get("message"))
            if not node or record(asked.get("author")).get("role") == "user":
                break
            if _called(asked):
                call_id = string(asked.get("id")) or above
                nearest = nearest or call_id
                if tool is not None and _family(asked["recipient"]) == _family(tool):
                    nearest = call_id
                    break
            above = string(node.get("parent"))
        failed = record(message.get("content")).get("content_type") == "system_error"
        return Result(call_id=nearest or identity, name=tool, failed=failed)

    def _fill(self, draft: Draft, content: Record, message: Record) -> None:
        kind, parts = string(content.get("content_type")), content.get("parts")
        facts = record(message.get("metadata"))
        if kind == "user_editable_context":
            draft.say(string(content.get("user_profile")) or "")
            draft.say(string(content.get("user_instructions")) or "")
        elif isinstance(text := content.get(TEXT_FIELDS.get(kind or "", "")), str):
            draft.say(text or string(content.get("summary")) or "")
        elif isinstance(parts, list) and kind in {"text", "multimodal_text", None}:
            self._parts(draft, parts, facts)
        elif content:
            draft.keep(content, kind)
        if not draft:  # before 2024, custom instructions stood beside an empty text
            profile = record(facts.get("user_context_message_data"))
            draft.say(string(profile.get("about_user_message")) or "")
            draft.say(string(profile.get("about_model_message")) or "")
        self._attachments(draft, facts)

    def _parts(self, draft: Draft, parts: list[JSON], facts: Record) -> None:
        for part in parts:
            shape = record(part)
            kind = string(shape.get("content_type"))
            if isinstance(part, str):
                draft.say(part)
            elif kind in ASSETS and (pointer := string(shape.get("asset_pointer"))):
                draft.show(self._media(pointer, facts, shape))
            elif kind == "audio_transcription" and isinstance(text := shape.get("text"), str):
                draft.say(text)
            elif kind == "real_time_user_audio_video_asset_pointer":
                self._live(draft, shape, facts)
            elif part is not None:
                draft.keep(part, kind)

    def _live(self, draft: Draft, shape: Record, facts: Record) -> None:
        """Add the recordings of a spoken message."""
        frames = array(shape.get("frames_asset_pointers"))
        for asset in [shape.get("audio_asset_pointer"), shape.get("video_container_asset_pointer"), *frames]:
            if pointer := string(record(asset).get("asset_pointer")) or string(asset):
                draft.show(self._media(pointer, facts, record(asset)))

    def _attachments(self, draft: Draft, facts: Record) -> None:
        shown = [part.url or "" for part in draft.parts if isinstance(part, Media)]
        for value in array(facts.get("attachments")):
            pointer = string(record(value).get("id"))
            if pointer is None:
                draft.keep(value, "attachment")
            elif not any(pointer in url for url in shown):
                draft.show(self._media(pointer, facts, {}))

    def _media(self, pointer: str, facts: Record, shape: Record) -> Media:
        """Return what a pointer means, with its bytes if the archive has them."""
        about = next((found for found in map(record, array(facts.get("attachments"))) if _is_of(found, pointer)), {})
        stated = string(about.get("mime_type")) or string(about.get("mimeType"))
        name = string(about.get("name"))
        found = self._source.attachment(pointer)
        content = found[1] if isinstance(found, tuple) else None
        if found is None:
            self._tally.skipped["attachment not in the export"] += 1
        elif content is None:
            self._tally.skipped["attachment above the limit"] += 1
        stored = found[0] if isinstance(found, tuple) else found
        name = name or stored
        guess = name or f"recording.{shape.get('format')}"
        return Media(media_type=media_type(guess, content, stated), content=content, url=pointer, name=name)


def _kind(message: Record, kind_of_content: str | None) -> Kind:
    if kind_of_content in CONTEXT:
        return "system"
    match record(message.get("author")).get("role"):
        case "assistant":
            return "tool_call" if _called(message) else "assistant"
        case "user":
            return "user"
        case "tool":
            return "tool_result"
        case "system":
            return "system"
        case _:
            return "note"


def _called(message: Record) -> bool:
    """Whether the assistant speaks to a tool."""
    role = record(message.get("author")).get("role")
    return role == "assistant" and string(message.get("recipient")) not in {None, "all"}


def _family(tool: str) -> str:
    return tool.partition(".")[0]


def _is_of(attachment: Record, pointer: str) -> bool:
    identity = string(attachment.get("id"))
    return identity is not None and identity in pointer


def _meta(message: Record, content: Record, facts: Record) -> dict[str, JSON]:
    status = string(message.get("status"))
    return compact(
        hidden=facts.get("is_visually_hidden_from_conversation") is True,
        weight=0 if message.get("weight") == 0 else None,
        status=status if status != "finished_successfully" else None,
        channel=string(message.get("channel")),
        language=string(content.get("language")),
        url=string(content.get("url")),
        title=string(content.get("title")),
        error=string(content.get("name")),
    )
