"""What a provider's refusal means: one class of error for what callers would do differently. Pure.

The status decides. Where there is none, in mid-stream, the provider's word for the error does. What the provider says is
kept beside the error, in `detail`, and never in its message: it may quote the conversation.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from everlog.chat.retries import request_id, retry_after_s
from everlog.errors import (
    BadRequest,
    ContextTooLong,
    Forbidden,
    Overloaded,
    PaymentRequired,
    ProviderFailed,
    ProviderTimeout,
    ProviderTrouble,
    ProviderUnavailable,
    RateLimited,
    Unauthorized,
)
from everlog.protocols.exchange import Fault

STATUSES: dict[int, type[ProviderTrouble]] = {
    401: Unauthorized,
    402: PaymentRequired,
    403: Forbidden,
    408: ProviderTimeout,
    409: ProviderUnavailable,
    429: RateLimited,
    502: ProviderUnavailable,
    503: ProviderUnavailable,
    504: ProviderUnavailable,
    529: Overloaded,
}

WORDS: tuple[tuple[str, type[ProviderTrouble]], ...] = (
    ("overloaded", Overloaded),
    ("rate_limit", RateLimited),
    ("quota", RateLimited),
    ("timeout", ProviderTimeout),
    ("unavailable", ProviderUnavailable),
    ("authentication", Unauthorized),
    ("invalid_api_key", Unauthorized),
    ("permission", Forbidden),
    ("billing", PaymentRequired),
    ("invalid", BadRequest),
    ("not_found", BadRequest),
    ("too_large", BadRequest),
)
"""Pieces of the words that providers have for errors; the first that fits counts."""

WORD = re.compile(r"[\w.-]{1,60}", re.ASCII)
"""What a word for an error looks like; anything else may quote the conversation."""

RATE = re.compile(r"rate.?limit|per (minute|min|day|hour|second)|\b[TR]P[MD]\b|too many requests|quota", re.IGNORECASE)
CONTEXT = re.compile(
    r"context.?(length|window|limit|size)|maximum (context|prompt|input)|prompt is too long|input is too long"
    r"|too many (input )?tokens|reduce the length|exceeds? the (maximum|limit) .{0,40}tokens|exceed_context",
    re.IGNORECASE,
)
"""How providers say that a conversation is too long; they have no status for it."""


def refusal(
    status: int | None,
    fault: Fault | None,
    *,
    headers: Mapping[str, str],
    now: datetime,
    provider: str,
    model: str,
) -> ProviderTrouble:
    """Return the error for a refused request, or for an error in the middle of a stream, which has no status."""
    kind = fault.type if fault is not None else None
    said = f"{kind or ''} {fault.message if fault is not None else ''}"
    if status is None:
        code = int(kind) if kind is not None and re.fullmatch(r"[45]\d\d", kind, re.ASCII) else None
        found = _by_status(code, said) if code is not None else _by_word(said, kind or "")
    else:
        found = _by_status(status, said)
    wants_wait = found in {RateLimited, Overloaded, ProviderUnavailable, ProviderFailed}
    facts: dict[str, Any] = {
        "provider": provider,
        "model": model,
        "status": status,
        "kind": kind if kind is not None and WORD.fullmatch(kind) else None,
        "detail": fault.message if fault is not None else None,
        "retry_after_s": retry_after_s(headers, now) if wants_wait else None,
        "request_id": request_id(headers),
    }
    return found(_message(found, facts), **facts)


def _by_status(status: int, said: str) -> type[ProviderTrouble]:
    if status == 429 and not RATE.search(said) and CONTEXT.search(said):
        return ContextTooLong
    if status in STATUSES:
        return STATUSES[status]
    if status >= 500:
        return ProviderFailed
    return ContextTooLong if CONTEXT.search(said) else BadRequest


def _by_word(said: str, kind: str) -> type[ProviderTrouble]:
    found = next((one for word, one in WORDS if word in kind.lower()), ProviderFailed)
    if found in {BadRequest, ProviderFailed} and CONTEXT.search(said):
        return ContextTooLong
    return found


ADVICE: dict[type[ProviderTrouble], str] = {
    ContextTooLong: "shorten the conversation, or take a model with a larger context",
    Unauthorized: "check the key",
    RateLimited: "wait, or ask for higher limits",
}


def _message(found: type[ProviderTrouble], facts: Mapping[str, Any]) -> str:
    kind = facts["kind"]
    word = f" ({kind})" if kind else ""
    how = "in the middle of its answer" if facts["status"] is None else f"with status {facts['status']}"
    advice = f"; {ADVICE[found]}" if found in ADVICE else ""
    said = "; `detail` of this error has its words" if facts["detail"] else ""
    return f"{facts['provider']} refused a request to {facts['model']} {how}{word}{advice}{said}"
