"""Spans and log lines of calls: names, counts and times, never a word of what was said.

Spans follow OpenTelemetry's conventions for generative AI. They are made only in a program that has loaded OpenTelemetry
itself; nobody else pays for it, not even by an import.
"""

import logging
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from everlog.chat.ledger import Attempt
from everlog.messages import JSON
from everlog.protocols.exchange import Usage

logger = logging.getLogger(__name__)

PROVIDERS = {"deepseek": "deepseek", "openai": "openai", "anthropic": "anthropic"}
"""Names that the conventions have for providers; others go by ours."""

LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


class Span:
    """The span of one call; nothing, where nobody traces."""

    def __init__(self, *, operation: str, provider: str, model: str, url: str, body: Mapping[str, JSON]) -> None:
        """Begin."""
        self._span: Any = None
        self._tries = 0
        trace = sys.modules.get("opentelemetry.trace")
        if trace is None:
            return
        place = urlsplit(url)
        facts = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": PROVIDERS.get(provider, provider),
            "gen_ai.request.model": model,
            "gen_ai.request.max_tokens": next((body[name] for name in LIMITS if name in body), None),
            "gen_ai.request.temperature": body.get("temperature"),
            "server.address": place.hostname,
            "server.port": place.port,
        }
        span = trace.get_tracer("everlog").start_span(
            f"{operation} {model}", kind=trace.SpanKind.CLIENT, attributes=_said(facts)
        )
        self._span = span if span.is_recording() else None

    def tried(self, attempt: Attempt) -> None:
        """Note that an attempt ended."""
        self._tries += 1
        _log(attempt)
        if self._span is None:
            return
        facts: dict[str, Any] = {"error.type": attempt.error} | _tokens(attempt.usage)
        if attempt.status == "failed":
            self._span.add_event("attempt failed", _said(facts | {"http.response.status_code": attempt.http_status}))
        else:
            self._span.set_attributes(_said(_tokens(attempt.usage)))

    def answered(self, *, model: str | None, id: str | None, finish: str | None) -> None:  # noqa: A002 -- as its field
        """Note what answered."""
        if self._span is not None:
            reasons = [finish] if finish else None
            names = {"model": model, "id": id, "finish_reasons": reasons}
            self._span.set_attributes(_said({f"gen_ai.response.{name}": value for name, value in names.items()}))

    def end(self, error: BaseException | None = None) -> None:
        """End."""
        if self._span is None:
            return
        self._span.set_attribute("everlog.attempts", self._tries)
        if error is not None:
            trace = sys.modules["opentelemetry.trace"]
            self._span.set_attribute("error.type", type(error).__name__)
            self._span.set_status(trace.StatusCode.ERROR, type(error).__name__)
        self._span.end()


def _tokens(usage: Usage | None) -> dict[str, Any]:
    """Return the counts as the conventions have them: input includes what was read from and written into caches."""
    if usage is None:
        return {}
    whole = None if usage.input is None else usage.input + (usage.cache_read or 0) + (usage.cache_write or 0)
    return {
        "gen_ai.usage.input_tokens": whole,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
        "gen_ai.usage.reasoning.output_tokens": usage.thinking,
    }


def _said(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if isinstance(value, str | int | float | list)}


def _log(attempt: Attempt) -> None:
    level = logging.INFO if attempt.status == "failed" else logging.DEBUG
    if not logger.isEnabledFor(level):
        return
    usage = attempt.usage or Usage()
    facts = {
        "provider": attempt.provider,
        "model": attempt.model.id,
        "protocol": attempt.protocol,
        "purpose": attempt.purpose,
        "try": attempt.number,
        "status": attempt.status,
        "http_status": attempt.http_status,
        "error": attempt.error,
        "request_id": attempt.request_id,
        "seconds": (attempt.ended - attempt.began).total_seconds() if attempt.ended else None,
        "input_tokens": usage.input,
        "output_tokens": usage.output,
    }
    ended = "a request to a model failed" if attempt.status == "failed" else "a request to a model ended"
    logger.log(level, ended, extra={name: value for name, value in facts.items() if value is not None})
