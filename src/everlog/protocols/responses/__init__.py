"""OpenAI's Responses."""

from everlog.protocols.faults import render_fault
from everlog.protocols.formats import Format
from everlog.protocols.responses.answers import ResponseAnswer
from everlog.protocols.responses.history import NAME, parse_history, with_history
from everlog.protocols.responses.lawful import repair
from everlog.protocols.responses.replies import parse_fault, parse_reply
from everlog.protocols.responses.requests import render_request
from everlog.protocols.responses.settings import parse_settings
from everlog.protocols.responses.streams import ResponseStream

FORMAT = Format(
    name=NAME,
    path="/responses",
    render_request=render_request,
    parse_history=parse_history,
    with_history=with_history,
    repair=repair,
    parse_reply=parse_reply,
    parse_fault=parse_fault,
    stream=ResponseStream,
    parse_settings=parse_settings,
    answer=ResponseAnswer,
    render_fault=render_fault,
)
