"""Answers of Anthropic's Messages, whole."""

from collections.abc import Mapping
from dataclasses import replace

from everlog.messages import JSON
from everlog.protocols.anthropic.history import NAME, STEPS, read
from everlog.protocols.draft import Draft
from everlog.protocols.exchange import Citation, Fault, Finish, Raw, Reply, Said, Step, Usage, distinct
from everlog.protocols.shapes import Record, array, count, record, string

FINISHES: dict[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "filtered",
    "pause_turn": "pause",
}


def parse_reply(body: Record) -> Reply:
    """Return an answer."""
    content = array(body.get("content"))
    model = string(body.get("model")) or None
    draft = Draft(NAME, "assistant")
    read(content, draft)
    stop = string(body.get("stop_reason")) or None
    messages = tuple(replace(one, model=model) for one in draft.ended())
    raw = Raw(protocol=NAME, items=({"role": "assistant", "content": content},)) if content else None
    return Reply(
        said=Said(messages=messages, raw=raw),
        finish="other" if stop is None else FINISHES.get(stop, "other"),
        stop=stop,
        thinking="\n".join(filter(None, (string(record(block).get("thinking")) for block in content))),
        usage=parse_usage(body.get("usage")),
        id=string(body.get("id")) or None,
        model=model,
        citations=distinct(
            _citation(record(one), string(record(block).get("text")))
            for block in content
            for one in array(record(block).get("citations"))
        ),
        steps=_steps(content),
        body=body,
    )


def _steps(content: list[JSON]) -> tuple[Step, ...]:
    """Return the steps, each with its result where that is in the same answer."""
    results: dict[str, JSON] = {}
    for block in content:
        results.setdefault(string(record(block).get("tool_use_id")), block)
    return tuple(_step(record(block), results) for block in content if string(record(block).get("type")) in STEPS)


def _step(block: Record, found: Mapping[str, JSON]) -> Step:
    call_id = string(block.get("id"))
    results = [found[call_id]] if call_id and call_id in found else []
    return Step(
        type=string(block.get("type")),
        name=string(block.get("name")),
        id=call_id or None,
        input=block.get("input"),
        result=record(results[0]).get("content") if results else None,
        raw=(block, *results),
    )


def parse_usage(value: object) -> Usage | None:
    """Return the tokens; the provider itself counts those of caches apart."""
    if not isinstance(value, dict):
        return None
    tools = record(value.get("server_tool_use"))
    return Usage(
        input=count(value.get("input_tokens")),
        cache_read=count(value.get("cache_read_input_tokens")),
        cache_write=count(value.get("cache_creation_input_tokens")),
        cache_write_long=count(record(value.get("cache_creation")).get("ephemeral_1h_input_tokens")),
        output=count(value.get("output_tokens")),
        thinking=count(record(value.get("output_tokens_details")).get("thinking_tokens")),
        provider_tools={name: uses for name, uses in tools.items() if isinstance(uses, int)},
    )


def _citation(note: Record, text: str) -> Citation:
    """Return one citation of a text; the provider counts the page behind the last one."""
    behind = count(note.get("end_page_number"))
    return Citation(
        url=string(note.get("url")) or None,
        title=string(note.get("title")) or string(note.get("document_title")) or None,
        cited_text=string(note.get("cited_text")) or None,
        text=text or None,
        start=count(note.get("start_char_index")),
        end=count(note.get("end_char_index")),
        first_page=count(note.get("start_page_number")),
        last_page=None if behind is None else behind - 1,
        source=count(note.get("document_index")),
    )


def parse_fault(body: Record) -> Fault | None:
    """Return the error that a body, or an event of a stream, reports; None if it reports none."""
    error = body.get("error")
    if not isinstance(error, dict):
        return None
    return Fault(type=string(error.get("type")) or "error", message=string(error.get("message")))
