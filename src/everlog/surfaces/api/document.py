"""The document that describes the interface (OpenAPI 3.1), and the page that shows it. Pure; the page loads nothing."""

import re
from collections.abc import Sequence
from html import escape
from typing import Any

import msgspec

from everlog.surfaces.api.operations import Operation

PREFIX = "/everlog/v1"

_HTML = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Everlog</title>
<meta name="viewport" content="width=device-width"><style>
body{{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}}
code{{font:14px/1.5 ui-monospace,monospace;background:#f4f4f4;padding:.1em .3em;border-radius:3px}}
table{{border-collapse:collapse;width:100%}}td{{border-top:1px solid #ddd;padding:.4rem .6rem;vertical-align:top}}
.role{{color:#666;font-size:.85em}}@media(prefers-color-scheme:dark){{body{{color:#ddd;background:#181818}}
code{{background:#2a2a2a}}td{{border-color:#333}}}}</style>
<h1>Everlog {version}</h1><p>What is in the log, over HTTP. Present a key of Everlog as <code>X-Everlog-Key</code>; programs of the
same machine need none. The whole description: <a href="{prefix}/openapi.json">openapi.json</a>.</p>
<table>{rows}</table></html>
"""


def document(operations: Sequence[Operation], version: str) -> dict[str, Any]:
    """Return the description of all operations."""
    kinds = [kind for one in operations for kind in (one.asks, one.answers) if kind is not None]
    _, schemas = msgspec.json.schema_components(list(dict.fromkeys(kinds)), ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        paths.setdefault(f"{PREFIX}{one.path}", {})[one.method.lower()] = _described(one, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Everlog", "version": version, "summary": "What is in the log."},
        "paths": paths,
        "components": {
            "schemas": schemas | {"Error": _ERROR},
            "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Everlog-Key"}},
        },
        "security": [{"key": []}, {}],
    }


def page(operations: Sequence[Operation], version: str) -> str:
    """Return the same for people."""
    rows = "".join(
        f"<tr><td><code>{one.method} {escape(PREFIX + one.path)}</code></td><td>{escape(one.summary)} "
        f"<span class=role>{one.role}</span><br>{_asked(one)}</td></tr>"
        for one in operations
    )
    return _HTML.format(version=escape(version), prefix=PREFIX, rows=rows)


_ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {name: {"type": ["string", "null"]} for name in ("message", "type", "param", "code")},
            "required": ["message", "type", "code"],
        }
    },
    "required": ["error"],
}


_WHOSE: tuple[dict[str, Any], ...] = tuple(
    {"name": name, "in": place, "required": False, "schema": {"type": "string"}, "description": said}
    for name, place, said in (
        ("X-Everlog-User-ID", "header", "The end user whose threads are meant, for a key that is for nobody alone."),
        ("user_id", "query", "The same, where no header says so."),
    )
)
"""Who a request is of: what the ones to models say in their bodies."""


def _described(one: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    fields = schemas.get(one.asks.__name__, {})
    is_query = one.method in {"GET", "DELETE"}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", one.path)
    ]
    if is_query:
        parameters += [
            {"name": name, "in": "query", "required": name in fields.get("required", ()), "schema": schema}
            for name, schema in fields.get("properties", {}).items()
        ]
    if one.role == "chat":
        taken = {parameter["name"] for parameter in parameters}
        parameters += [named for named in _WHOSE if named["name"] not in taken]
    kind = "application/json" if one.answers is not None else "application/jsonl"
    schema = _ref(one.answers.__name__) if one.answers is not None else {"type": "string"}
    found: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.summary,
        "description": f"For keys of the role {one.role} and above.",
        "parameters": parameters,
        "responses": {
            "200": {"description": "Done.", "content": {kind: {"schema": schema}}},
            "default": {"description": "Refused.", "content": {"application/json": {"schema": _ref("Error")}}},
        },
    }
    if not is_query:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": _ref(one.asks.__name__)}}}
    return found


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _asked(one: Operation) -> str:
    fields = msgspec.structs.fields(one.asks)
    return ", ".join(f"<code>{escape(field.name)}</code>" for field in fields)
