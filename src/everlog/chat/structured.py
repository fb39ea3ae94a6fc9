"""The form that an answer is to have: from a schema, a type, or an object that has one."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, is_typeddict

from everlog.chat.schemas import schema_of
from everlog.errors import Mistake
from everlog.protocols.exchange import Schema

WRAPPER = frozenset({"name", "schema", "strict", "description"})

_METADATA = ("$schema", "$id", "$comment")


def as_schema(value: Any) -> Schema | None:
    """Return the schema that is meant: a JSON schema, a wrapper `{name, schema, strict, description}`, or a type.

    A type is a dataclass, a `TypedDict`, or has `model_json_schema`; an object may have `to_json_schema`.

    Raises:
        Mistake: it is none of these.
    """
    if value is None or isinstance(value, Schema):
        return value
    if isinstance(value, Mapping):
        return _of_mapping(value)
    for name in ("to_json_schema", "model_json_schema"):
        if callable(getattr(value, name, None)):
            made = value() if isinstance(value, type) and name == "to_json_schema" else value
            return _of_mapping(getattr(made, name)(), name=_class_name(value))
    if isinstance(value, type) and (dataclasses.is_dataclass(value) or is_typeddict(value)):
        return _of_mapping(schema_of(value), name=_class_name(value))
    raise Mistake(
        f"a schema is a JSON schema, a dataclass, a TypedDict, or has model_json_schema, not {type(value).__name__}"
    )


def _class_name(value: Any) -> str:
    return str((value if isinstance(value, type) else type(value)).__name__)


def _of_mapping(given: Mapping[str, Any], *, name: str | None = None) -> Schema:
    wrapper: Mapping[str, Any] = given if isinstance(given.get("schema"), Mapping) and given.keys() <= WRAPPER else {}
    schema = dict(wrapper["schema"] if wrapper else given)
    if not all(isinstance(one, str) for one in schema):
        raise Mistake("the names in a JSON schema are str")
    found = wrapper.get("name") or name or schema.get("title") or "response"
    for one in _METADATA:
        schema.pop(one, None)
    return Schema(
        schema=schema,
        name=re.sub(r"[^a-zA-Z0-9_-]", "_", str(found))[:64],
        description=wrapper.get("description"),
        strict=bool(wrapper.get("strict", True)),
    )
