"""Whether a reply can be said again from its words and calls, or only in the blocks in which its provider gave it. Pure."""

from everlog.messages import JSON
from everlog.protocols.exchange import Raw
from everlog.protocols.shapes import array, record

_MESSAGE = frozenset({"role", "content", "refusal", "tool_calls", "annotations", "audio", "function_call"})
_CALL = frozenset({"id", "type", "function", "index"})


def is_plain(raw: Raw) -> bool:
    """Return whether blocks hold words and calls only: no reasoning, no signature, no step of a provider's own tool."""
    tests = {"anthropic": _is_plain_message, "responses": _is_plain_item, "chat_completions": _is_plain_choice}
    test = tests.get(raw.protocol)
    return test is not None and all(test(item) for item in raw.items)


def _is_plain_message(item: JSON) -> bool:
    blocks = array(record(item).get("content"))
    return all(_is_text(block) or record(block).get("type") == "tool_use" for block in blocks)


def _is_text(block: JSON) -> bool:
    shape = record(block)
    return shape.get("type") == "text" and not shape.get("citations")


def _is_plain_item(item: JSON) -> bool:
    shape = record(item)
    if shape.get("type") == "function_call":
        return True
    if shape.get("type") not in (None, "message"):
        return False
    parts = [record(part) for part in array(shape.get("content"))]
    return all(part.get("type") == "output_text" and not part.get("annotations") for part in parts)


def _is_plain_choice(item: JSON) -> bool:
    shape = record(item)
    said = {name for name, value in shape.items() if value not in (None, [], "")}
    calls = [record(call) for call in array(shape.get("tool_calls"))]
    return (
        said <= _MESSAGE
        and not (said & {"audio", "function_call", "annotations"})
        and not isinstance(shape.get("content"), list)
        and all(call.keys() <= _CALL and call.get("type", "function") == "function" for call in calls)
    )
