"""The JSON schema of an answer, the same for every question."""

from collections.abc import Mapping

from everlog.messages import JSON


def _object(**properties: JSON) -> dict[str, JSON]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT: JSON = {"type": "string"}
_NUMBER: JSON = {"type": "integer"}


def _list(items: JSON) -> JSON:
    return {"type": "array", "items": items}


_ITEM = _object(text=_TEXT, source=_NUMBER)

SCHEMA: Mapping[str, JSON] = _object(
    guide=_object(topic_horizon=_TEXT, last_completed=_TEXT, current_task=_TEXT, next_steps=_TEXT),
    main_topics=_list(_TEXT),
    decisions=_list(_ITEM),
    commitments=_list(_ITEM),
    closed=_list(_object(commitment=_NUMBER, reason=_TEXT, source=_NUMBER)),
    uncertainties=_list(_ITEM),
    omitted=_list(_ITEM),
    current_state=_TEXT,
)
