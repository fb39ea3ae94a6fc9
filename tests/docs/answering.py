"""A provider for the examples of the pages: it calls the first tool that is not memory's, fills in schemas, and is else of few words.

The model gpt-5.6-sol is always down, so that pages can show what happens then.
"""

import json
import re
from typing import Any

from everlog.memory.tree.schemas import SCHEMAS
from everlog.protocols import FORMATS
from everlog.protocols.shapes import array, record
from everlog.testing.upstream import Answer, Received, Refused

DOWN = "gpt-5.6-sol"

TAG = re.compile(r"<input>\n(\w+(?: \([^()]*\))?): ")
"""Whose words a compactor is to shorten."""

VALUES: dict[str, Any] = {"string": "Lisbon", "integer": 3, "number": 0.5, "boolean": True, "null": None}


def answer(received: Received) -> Answer | Refused:
    """Return what the model says to a request."""
    body, protocol = received.body, received.protocol
    if body.get("model") == DOWN:
        return Refused(status=503)
    if protocol is None:
        return Refused(status=404)
    messages = [one for said in FORMATS[protocol].parse_history(body) for one in said.messages]
    if tag := TAG.search(messages[-1].text if messages else ""):
        return Answer(text=f"{tag[1]}: the sea is warm in June", input_tokens=2_000, output_tokens=12)
    spoken = [one for one in messages if one.kind != "system"]
    last = spoken[-1] if spoken else None
    if last is not None and last.kind == "tool_result":
        return Answer(text=f"This is what I found: {last.text}")
    tools = [record(record(one).get("function") or one) for one in array(body.get("tools"))]
    if tools := [tool for tool in tools if tool.get("name") not in SCHEMAS]:
        tool = tools[0]
        arguments = value(record(tool.get("parameters") or tool.get("input_schema")))
        return Answer(calls=((f"call_{len(messages)}", tool["name"], arguments),))
    if schema := schema_of(body):
        return Answer(text=json.dumps(value(schema)))
    return Answer(text="The sea is warm in June.", input_tokens=40, output_tokens=8)


def schema_of(body: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that the answer is to have."""
    chat = record(record(body.get("response_format")).get("json_schema"))
    responses = record(record(body.get("text")).get("format"))
    anthropic = record(record(body.get("output_config")).get("format"))
    return record(chat.get("schema") or responses.get("schema") or anthropic.get("schema"))


def value(schema: dict[str, Any]) -> Any:
    """Return some value that fits a schema."""
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return value(schema["anyOf"][0])
    match schema.get("type"):
        case "object":
            fields = record(schema.get("properties"))
            return {name: value(fields[name]) for name in schema.get("required", fields)}
        case "array":
            return [value(record(schema.get("items")))]
        case kind:
            return VALUES.get(str(kind), "Lisbon")
