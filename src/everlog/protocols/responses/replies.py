"""Answers of Responses, whole."""

from dataclasses import replace

from everlog.protocols.exchange import Citation, Fault, Finish, Raw, Reply, Said, Step, Usage, distinct
from everlog.protocols.responses.history import NAME, parse_items
from everlog.protocols.shapes import Record, amount, array, count, record, string

STEPS = {
    "web_search_call": ("action", "results"),
    "file_search_call": ("queries", "results"),
    "code_interpreter_call": ("code", "outputs"),
    "image_generation_call": ("revised_prompt", "result"),
    "mcp_call": ("arguments", "output"),
}
"""Items of tools that the provider runs, and their fields for what goes in and comes out."""


def parse_reply(body: Record) -> Reply:
    """Return an answer."""
    output = array(body.get("output"))
    model = string(body.get("model")) or None
    messages = tuple(replace(one, model=model) for one in parse_items(output))
    stop = string(record(body.get("incomplete_details")).get("reason")) or string(body.get("status")) or None
    return Reply(
        said=Said(messages=messages, raw=Raw(protocol=NAME, items=tuple(output)) if output else None),
        finish=_finish(stop, has_calls=any(one.kind == "tool_call" for one in messages)),
        stop=stop,
        refusal="\n".join(
            filter(
                None,
                (string(record(part).get("refusal")) for item in output for part in array(record(item).get("content"))),
            )
        ),
        thinking="\n".join(text for item in output if (text := _thinking(record(item)))),
        usage=parse_usage(body.get("usage")),
        id=string(body.get("id")) or None,
        model=model,
        citations=distinct(
            _citation(record(note), string(record(part).get("text")))
            for item in output
            for part in array(record(item).get("content"))
            for note in array(record(part).get("annotations"))
        ),
        steps=tuple(_step(record(item)) for item in output if string(record(item).get("type")) in STEPS),
        body=body,
    )


def _finish(stop: str | None, *, has_calls: bool) -> Finish:
    match stop:
        case "completed":
            return "tool_calls" if has_calls else "stop"
        case "max_output_tokens":
            return "length"
        case "content_filter":
            return "filtered"
        case "failed" | "cancelled":
            return "failed"
        case _:
            return "other"


def _thinking(item: Record) -> str:
    if item.get("type") != "reasoning":
        return ""
    pieces = [string(record(piece).get("text")) for field in ("summary", "content") for piece in array(item.get(field))]
    return "\n".join(filter(None, pieces))


def _step(item: Record) -> Step:
    kind = string(item.get("type"))
    given, result = STEPS[kind]
    return Step(
        type=kind,
        name=string(item.get("name")) or kind.removesuffix("_call"),
        id=string(item.get("id")) or None,
        input=item.get(given),
        result=item.get(result),
        raw=(item,),
    )


def parse_usage(value: object) -> Usage | None:
    """Return the tokens; those that were read from or into a cache are not counted as input again."""
    if not isinstance(value, dict):
        return None
    into = record(value.get("input_tokens_details"))
    read, write = count(into.get("cached_tokens")), count(into.get("cache_write_tokens"))
    whole = count(value.get("input_tokens"))
    return Usage(
        input=None if whole is None else max(0, whole - (read or 0) - (write or 0)),
        cache_read=read,
        cache_write=write,
        cache_write_long=count(record(into.get("cache_write_tokens_details")).get("ttl_12h_tokens")),
        output=count(value.get("output_tokens")),
        thinking=count(record(value.get("output_tokens_details")).get("reasoning_tokens")),
        cost_usd=amount(value.get("cost")),
    )


def _citation(note: Record, text: str) -> Citation:
    start, end = count(note.get("start_index")), count(note.get("end_index"))
    return Citation(
        url=string(note.get("url")) or None,
        title=string(note.get("title")) or string(note.get("filename")) or None,
        text=text[start:end] or None if start is not None and end is not None else None,
        start=start,
        end=end,
        source=count(note.get("index")),
    )


def parse_fault(body: Record) -> Fault | None:
    """Return the error that a body, or an event of a stream, reports; None if it reports none."""
    error = body if body.get("type") == "error" and "error" not in body else body.get("error")
    if not isinstance(error, dict):
        return None
    found = string(error.get("code")) or string(error.get("type")) or "error"
    return Fault(type=found, message=string(error.get("message")))
