"""Errors as servers of OpenAI's protocols give them."""

from everlog.protocols.answering import TOO_LONG
from everlog.protocols.exchange import Fault
from everlog.protocols.shapes import Record

KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    503: "service_unavailable",
    529: "overloaded_error",
}

CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}


def render_fault(fault: Fault, status: int) -> Record:
    """Return the body of an error; clients know a conversation that is too long by its code."""
    kind = KINDS.get(status, "server_error" if status >= 500 else "invalid_request_error")
    code = TOO_LONG if fault.type == TOO_LONG else CODES.get(status)
    return {"error": {"message": fault.message, "type": kind, "param": None, "code": code}}
