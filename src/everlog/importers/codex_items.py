"""The items of a Codex session: messages, calls and results in the form of OpenAI's Responses API."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from everlog.importers.blocks import Speaker, Speech
from everlog.importers.report import Tally
from everlog.importers.shapes import Record, array, compact, record, string
from everlog.jsonl import dumps
from everlog.messages import JSON, Kind, Message

FORMAT = "codex"
CLIENT = "client"
"""Author of what neither the person nor the model said."""

SKIPPED = frozenset({"reasoning", "ghost_snapshot", "compaction", "compaction_summary", "context_compaction"})

CLIENT_TAGS = (
    "environment_context",
    "user_instructions",
    "permissions instructions",
    "collaboration_mode",
    "multi_agent_mode",
    "apps_instructions",
    "skills_instructions",
    "turn_aborted",
    "subagent_notification",
    "skill",
)
"""What the client says in the person's name stands between such tags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What the lines before an item say of it."""

    model: str | None = None
    cwd: str | None = None
    meta: Mapping[str, JSON] = field(default_factory=dict)
    """Facts of the session, kept with the first thing that the person says."""
    place: int = 0
    """How many items came before."""


def item_messages(item: Record, at: datetime | None, turn: Turn, tally: Tally) -> list[Message]:
    """Return what an item says; nothing if it is reasoning or bookkeeping."""
    kind = str(item.get("type"))
    if kind in SKIPPED:
        tally.skipped[kind] += 1
        return []
    who, author = _who(item) if kind == "message" else ("assistant" if kind in ITEMS else "note", None)
    speaker = Speaker(
        kind=who,
        author=author,
        at=at,
        id=string(item.get("id")),
        model=turn.model if who == "assistant" and not kind.endswith("_output") else None,
        meta=turn.meta if who == "user" else compact(phase=string(item.get("phase"))),
        place=turn.place,
    )
    speech = Speech(speaker, FORMAT, tally)
    ITEMS.get(kind, _other)(speech, item)
    speech.pause()
    return speech.messages


def _who(item: Record) -> tuple[Kind, str | None]:
    """Return kind and author of a message."""
    match item.get("role"):
        case "assistant":
            return "assistant", None
        case "user":
            return ("note", CLIENT) if _is_clients(item) else ("user", None)
        case "developer" | "system":
            return "system", None
        case role:
            return "note", string(role)


def _is_clients(item: Record) -> bool:
    """Whether a message in the person's name was made by the client, as it says itself or as its tags tell."""
    kinds = record(item.get("internal_chat_message_metadata_passthrough")).get("content_item_kinds")
    if isinstance(kinds, list) and kinds:
        return not any(str(kind).startswith("user.") for kind in kinds)
    texts = [text.strip() for part in array(item.get("content")) if isinstance(text := record(part).get("text"), str)]
    return bool(texts) and all(map(_is_tagged, texts))


def _is_tagged(text: str) -> bool:
    tagged = any(text.startswith(f"<{tag}>") and text.endswith(f"</{tag}>") for tag in CLIENT_TAGS)
    return tagged or text.startswith("# AGENTS.md instructions")


def _message(speech: Speech, item: Record) -> None:
    speech.add(item.get("content"))


def _function_call(speech: Speech, item: Record) -> None:
    arguments = item.get("arguments", item.get("input", ""))
    namespace = string(item.get("namespace"))
    speech.call(
        string(item.get("call_id")) or string(item.get("id")),
        string(item.get("name")),
        arguments if isinstance(arguments, str) else dumps(arguments),
        **compact(namespace=namespace),
    )


def _hosted_call(speech: Speech, item: Record) -> None:
    """A call without arguments of its own, such as a shell command or a search: the action is what was asked."""
    name = str(item["type"]).removesuffix("_call")
    asked = item.get("action", item.get("arguments"))
    status = string(item.get("status"))
    speech.call(
        string(item.get("call_id")) or string(item.get("id")),
        name,
        dumps(asked) if asked is not None else "",
        **compact(status=status if status != "completed" else None),
    )


def _image_call(speech: Speech, item: Record) -> None:
    call_id = string(item.get("id"))
    speech.call(call_id, "image_generation", string(item.get("revised_prompt")) or "")
    if string(item.get("result")):
        speech.answer(call_id, [{"type": "image", "data": item["result"]}], name="image_generation")


def _output(speech: Speech, item: Record) -> None:
    output = item["output"] if "output" in item else dumps(item.get("tools"))
    failed = record(output).get("success") is False
    if isinstance(output, dict):
        output = output.get("content", dumps(output))
    speech.answer(string(item.get("call_id")), output, name=string(item.get("name")), failed=failed)


def _other(speech: Speech, item: Record) -> None:
    speech.keep(item, item.get("type"))


ITEMS: dict[str, Callable[[Speech, Record], None]] = {
    "message": _message,
    "function_call": _function_call,
    "function_call_output": _output,
    "custom_tool_call": _function_call,
    "custom_tool_call_output": _output,
    "local_shell_call": _hosted_call,
    "local_shell_call_output": _output,
    "web_search_call": _hosted_call,
    "tool_search_call": _hosted_call,
    "tool_search_output": _output,
    "image_generation_call": _image_call,
    **dict.fromkeys(SKIPPED, _message),
}
