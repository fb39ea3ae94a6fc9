"""Spans of calls, by OpenTelemetry's conventions: names and counts, never a word (D94)."""

import subprocess
import sys

import pytest
from opentelemetry import trace

from everlog.errors import Unauthorized
from everlog.testing.upstream import Answer, Refused, Upstream
from tests.unit.chat.calls import each_protocol, prepared


class Noted(trace.NonRecordingSpan):
    """A span that keeps what it is told."""

    def __init__(self, name, kind, attributes):
        super().__init__(trace.INVALID_SPAN_CONTEXT)
        self.name, self.kind, self.attributes = name, kind, dict(attributes)
        self.events, self.status, self.ended = [], None, 0

    def is_recording(self):
        return True

    def set_attribute(self, key, value):
        self.attributes[key] = value

    def set_attributes(self, attributes):
        self.attributes |= attributes

    def add_event(self, name, attributes=None, timestamp=None):
        self.events.append((name, dict(attributes)))

    def set_status(self, status, description=None):
        self.status = (status, description)

    def end(self, end_time=None):
        self.ended += 1


@pytest.fixture
def spans(monkeypatch):
    made = []

    class Tracer:
        def start_span(self, name, *, kind, attributes):
            made.append(Noted(name, kind, attributes))
            return made[-1]

    monkeypatch.setattr(trace, "get_tracer", lambda name: Tracer())
    return made


@pytest.mark.covers("D94")
@each_protocol
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_is_a_span_with_its_tries(calling, spans, protocol, stream):
    ask = calling.listen if stream else calling.ask
    with Upstream([Refused(status=529), Answer(text="My secret.", cached_tokens=40)]) as upstream:
        ask(upstream.url, protocol)
    (span,) = spans
    assert (span.name, span.kind, span.ended, span.status) == ("chat m-1", trace.SpanKind.CLIENT, 1, None)
    assert span.attributes["gen_ai.operation.name"] == "chat"
    assert span.attributes["gen_ai.provider.name"] == prepared("http://x", protocol).model.provider
    assert (span.attributes["gen_ai.request.model"], span.attributes["gen_ai.response.model"]) == ("m-1", "m-1")
    assert (span.attributes["gen_ai.usage.input_tokens"], span.attributes["gen_ai.usage.output_tokens"]) == (100, 20)
    assert span.attributes["gen_ai.usage.cache_read.input_tokens"] == 40
    assert span.attributes["gen_ai.response.finish_reasons"][0] in {"stop", "completed", "end_turn"}
    assert (span.attributes["server.address"], span.attributes["everlog.attempts"]) == ("127.0.0.1", 2)
    assert span.events == [("attempt failed", {"error.type": "Overloaded", "http.response.status_code": 529})]
    assert not any(word in str(vars(span)) for word in ("secret", "Hello", "key-of"))


@pytest.mark.covers("D94")
def test_a_call_that_fails_is_a_span_with_an_error(calling, spans):
    with Upstream([Refused(status=401, message="Hello?")]) as upstream, pytest.raises(Unauthorized):
        calling.ask(upstream.url, "responses")
    (span,) = spans
    assert (span.attributes["error.type"], span.status, span.ended) == (
        "Unauthorized",
        (trace.StatusCode.ERROR, "Unauthorized"),
        1,
    )
    assert "Hello" not in str(vars(span))


def test_a_program_that_does_not_trace_does_not_load_it():
    code = """
import sys
from tests.unit.chat.calls import Calling
from everlog.testing.upstream import Answer, Upstream
with Upstream([Answer(text="Yes.")]) as upstream:
    print(Calling(is_async=False).ask(upstream.url, "anthropic").text, "opentelemetry" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Yes.", "False"]
