"""What the proxy itself answers when something fails, in the form that the client's own library knows. Pure.

Neither an address of an upstream nor a word of a conversation is in it. What an upstream answers, errors too, is not
made here: it is passed on as it is.
"""

from everlog.errors import NeverSent, ProviderTimeout, ProviderTrouble
from everlog.messages import JSON
from everlog.protocols.shapes import encoded
from everlog.surfaces.proxy.incoming import Headers

JSON_TYPE = (b"content-type", b"application/json")

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    426: "invalid_request_error",
    429: "rate_limit_error",
    431: "request_too_large",
    504: "timeout_error",
}
"""The words that both providers have for a status; for all others it is `api_error`."""


def fault(
    status: int, message: str, code: str, *, is_anthropic: bool, request: str | None = None
) -> tuple[int, Headers, bytes]:
    """Return status, headers and body of an error of ours; `code` is a word for programs, `request` our id, if it has one."""
    kind = KINDS.get(status, "api_error")
    body: dict[str, JSON]
    if is_anthropic:
        body = {"type": "error", "error": {"type": kind, "message": message, "code": code}, "request_id": request}
    else:
        body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return status, (JSON_TYPE,), encoded(body)


def code_of(error: ProviderTrouble) -> str:
    """Return the word for an upstream of which no answer came: clients are told it, and lines and counts have it."""
    if isinstance(error, ProviderTimeout):
        return "upstream_timeout"
    return "upstream_unreachable" if isinstance(error, NeverSent) else "upstream_failed"


def of_upstream(
    error: ProviderTrouble, name: str, *, is_anthropic: bool, request: str | None = None
) -> tuple[int, Headers, bytes]:
    """Return the answer for an upstream of which none came: 504 where it took too long, else 502."""
    code = code_of(error)
    match code:
        case "upstream_timeout":
            said = (
                f"The upstream '{name}' did not answer in time. It may have done the work; ask again, or allow it more."
            )
        case "upstream_unreachable":
            said = f"The upstream '{name}' cannot be reached: {error}. Check that it runs, and its address."
        case _:
            said = (
                f"The upstream '{name}' gave no answer: {error}. Ask again; if it stays so, check that server and its "
                "address."
            )
    status = 504 if code == "upstream_timeout" else 502
    return fault(status, said, code, is_anthropic=is_anthropic, request=request)


def unlisted(status: int, name: str, *, is_anthropic: bool) -> tuple[int, Headers, bytes]:
    """Return the answer where an upstream refuses to list its models."""
    said = (
        f"The upstream '{name}' does not list its models: it answered {status}. Check its address, which ends in /v1 "
        "for most servers, and its key."
    )
    return fault(502, said, "upstream_failed", is_anthropic=is_anthropic)
