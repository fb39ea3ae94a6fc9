"""Answers of Chat Completions, whole."""

from dataclasses import replace

from everlog.protocols.chat_completions.history import NAME, parse_message
from everlog.protocols.exchange import Citation, Fault, Finish, Raw, Reply, Said, Usage, distinct
from everlog.protocols.shapes import Record, amount, array, count, record, string

FINISHES: dict[str, Finish] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "filtered",
    "error": "failed",
}


def parse_reply(body: Record) -> Reply:
    """Return the first choice of an answer."""
    choice = record(next(iter(array(body.get("choices"))), None))
    message = record(choice.get("message"))
    stop = string(choice.get("finish_reason")) or None
    model = string(body.get("model")) or None
    said = tuple(replace(one, model=model) for one in parse_message(message)) if message else ()
    return Reply(
        said=Said(messages=said, raw=Raw(protocol=NAME, items=(message,)) if message else None),
        finish=_finish(stop, said=said),
        stop=stop,
        refusal=string(message.get("refusal")),
        thinking=string(message.get("reasoning_content")) or string(message.get("reasoning")),
        usage=parse_usage(body.get("usage")),
        id=string(body.get("id")) or None,
        model=model,
        citations=distinct(_citation(one, string(message.get("content"))) for one in array(message.get("annotations"))),
        body=body,
    )


def _finish(stop: str | None, *, said: tuple[object, ...]) -> Finish:
    if stop is None:
        return "other"
    found = FINISHES.get(stop, "other")
    has_calls = any(getattr(one, "kind", None) == "tool_call" for one in said)
    return "tool_calls" if found == "stop" and has_calls else found


def parse_usage(value: object) -> Usage | None:
    """Return the tokens; those that were read from or into a cache are not counted as input again."""
    if not isinstance(value, dict):
        return None
    into, out = record(value.get("prompt_tokens_details")), record(value.get("completion_tokens_details"))
    read = count(into.get("cached_tokens"))
    if read is None:
        read = count(value.get("prompt_cache_hit_tokens"))
    write = count(into.get("cache_write_tokens"))
    whole = count(value.get("prompt_tokens"))
    return Usage(
        input=None if whole is None else max(0, whole - (read or 0) - (write or 0)),
        cache_read=read,
        cache_write=write,
        cache_write_long=count(record(into.get("cache_write_tokens_details")).get("ttl_12h_tokens")),
        output=count(value.get("completion_tokens")),
        thinking=count(out.get("reasoning_tokens")),
        cost_usd=amount(value.get("cost")),
    )


def _citation(annotation: object, text: str) -> Citation:
    shape = record(record(annotation).get("url_citation"))
    start, end = count(shape.get("start_index")), count(shape.get("end_index"))
    return Citation(
        url=string(shape.get("url")) or None,
        title=string(shape.get("title")) or None,
        text=text[start:end] or None if start is not None and end is not None else None,
        start=start,
        end=end,
    )


def parse_fault(body: Record) -> Fault | None:
    """Return the error that a body, or an event of a stream, reports; None if it reports none."""
    error = body.get("error")
    if isinstance(error, str):
        return Fault(type="error", message=error)
    if not isinstance(error, dict):
        return None
    code = error.get("code")
    return Fault(
        type=string(error.get("type")) or (str(code) if isinstance(code, str | int) and code else "error"),
        message=string(error.get("message")),
    )
