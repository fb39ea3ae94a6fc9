"""Second tries: what an upstream refused of a request, and the request without it. Pure.

Each kind of refusal is mended once: a mending that changes nothing is none, and then the client sees the upstream's own
error. What is mended is ours, or could not have gone up without us: never one of the client's own tools, nor a word.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from everlog.chat.refusals import STATUSES, refusal
from everlog.clock import EPOCH
from everlog.errors import ContextTooLong
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Fault
from everlog.protocols.shapes import Record, dumps, string
from everlog.surfaces.proxy.remembering import leaving_out
from everlog.surfaces.proxy.remembering.standing_words import fitted

Reason: TypeAlias = Literal[
    "merged",
    "none",
    "turns",
    "tools",
    "marks",
    "misplaced",
    "past",
    "reasoning",
    "items",
    "thoughts",
    "blank",
    "unthinking",
    "sealed",
    "too_long",
]
"""What was refused: system messages but one at the front, or all of them; two turns of one side in a row; our tools; marks
of what is to be cached, or where they are; reasoning of turns that are over, all of it, its items; fields with thoughts, or
that they are missing; thinking on without them; sealed reasoning; the length."""

LASTING: frozenset[Reason] = frozenset({"merged", "none", "turns", "tools", "marks", "thoughts", "blank", "sealed"})
"""What a model refuses of whomever."""

OF_THREAD: frozenset[Reason] = frozenset({"misplaced", "past", "items"})
"""What it will refuse of the same conversation again. The rest is about one request: the next may think again."""

Act: TypeAlias = Callable[[str, Record], Record]
"""Return a body without what was refused; the same object if that is not in it."""

ACTS: dict[Reason, Act] = {
    "merged": partial(fitted, how="merged"),
    "none": partial(fitted, how="none"),
    "turns": leaving_out.second_turns,
    "tools": leaving_out.our_tools,
    "marks": leaving_out.marks,
    "misplaced": leaving_out.marks,
    "past": leaving_out.past_reasoning,
    "reasoning": leaving_out.reasoning,
    "items": leaving_out.reasoning_items,
    "thoughts": leaving_out.thoughts,
    "blank": leaving_out.blank_thoughts,
    "unthinking": leaving_out.thinking,
    "sealed": leaving_out.sealed,
}


@dataclass(frozen=True, slots=True)
class Refused:
    """How upstreams say that they refuse something, and what is tried then, in order."""

    words: re.Pattern[str]
    tried: tuple[Reason, ...]


def _refused(words: str, *tried: Reason) -> Refused:
    return Refused(re.compile(words, re.IGNORECASE | re.DOTALL), tried)


REFUSED = (
    _refused(r"everlog_|'?tools'?: array too long|too many tools", "tools"),
    _refused(
        r"(not|n't) support(ed)? (tools|tool (use|call)|function)|tools? (use )?(is|are) not (supported|available)"
        r"|support tool use|tool choice requires|tool_choice.{0,40}not supported",
        "tools",
    ),
    _refused(
        r"system (role|messages?|prompts?|instructions?) .{0,30}not (supported|enabled|allowed)"
        r"|not support .{0,12}system|developer instruction is not enabled",
        "none",
    ),
    _refused(
        r"system messages? (must|should|has to|can only) be .{0,30}(beginning|first|start)|(only|one) .{0,12}system message"
        r"|multiple system|unexpected role|(unknown|invalid|unsupported) (variant|role)|should be 'system'|expected tags"
        r"|not support .{0,12}developer",
        "merged",
        "none",
    ),
    _refused(r"roles .{0,12}alternat", "merged", "turns", "none"),
    _refused(r"in the thinking mode must be passed back|reasoning_content is missing", "blank", "unthinking"),
    _refused(
        r"expected .?thinking|must start with a thinking|thinking.{0,80}cannot be modified", "reasoning", "unthinking"
    ),
    _refused(r"signature.{0,12} in .{0,3}thinking|block_binding", "past", "reasoning", "unthinking"),
    _refused(
        r"(reasoning_content|reasoning_details).{0,60}(unsupported|not permitted|not allowed|forbidden)"
        r"|extra_forbidden.{0,100}reasoning",
        "thoughts",
    ),
    _refused(r"(maximum of \d+ blocks|ttl).{0,80}cache_control|cache_control\.\w|thinking\.cache_control", "misplaced"),
    _refused(r"prompt_cache_breakpoint|cache_control|cache_?point", "marks"),
    _refused(
        r"without its required|encrypted content .{0,400}could not be|invalid_encrypted_content|items are not persisted",
        "items",
    ),
    _refused(r"encrypted.{0,12}content.{0,40}not (supported|allowed|available)", "sealed", "items"),
)
"""The first that changes something counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """A request to be sent once more."""

    body: Record
    reason: Reason
    """`too_long`: the body is as it was, and is to be compiled again, shorter."""


def mended(protocol: str, body: Record, status: int | None, fault: Fault) -> Mended | None:
    """Return how a refused request is sent once more; None where nobody knows, or it would be the same.

    Args:
        protocol: the format of the body.
        body: what was refused.
        status: of the answer; None for an error in a stream in which nothing else was said.
        fault: the error.
    """
    if status is None or status not in STATUSES:
        said = f"{fault.type} {fault.message}"
        for one in REFUSED:
            found = _tried(protocol, body, one.tried) if one.words.search(said) else None
            if found is not None:
                return found
    return Mended(body=body, reason="too_long") if is_too_long(status, fault) else None


def is_too_long(status: int | None, fault: Fault) -> bool:
    """Whether an error says that a request is more than its model takes in."""
    return isinstance(refusal(status, fault, headers={}, now=EPOCH, provider="", model=""), ContextTooLong)


def _tried(protocol: str, body: Record, reasons: Sequence[Reason]) -> Mended | None:
    for reason in reasons:
        done = ACTS[reason](protocol, body)
        if done is not body:
            return Mended(body=done, reason=reason)
    return None


def without(protocol: str, body: Record, reasons: frozenset[Reason]) -> Record:
    """Return a body without what is known to be refused; the same object if it is in it no more."""
    for reason, act in ACTS.items():
        if reason in reasons:
            body = act(protocol, body)
    return body


def fault_in(protocol: str, answered: Record) -> Fault | None:
    """Return the error in an answer, in the forms too that no protocol has; None if it reports none."""
    found = FORMATS[protocol].parse_fault(answered) or FORMATS["chat_completions"].parse_fault(answered)
    if found is not None and found.message:
        return found
    said = answered.get("message") or answered.get("detail") or answered.get("error")
    if not said:
        return found
    return Fault(type=string(answered.get("type")) or "error", message=said if isinstance(said, str) else dumps(said))
