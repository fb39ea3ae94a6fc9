"""Anthropic's Messages."""

from everlog.protocols.anthropic.answers import MessageAnswer, render_fault
from everlog.protocols.anthropic.history import NAME, parse_history, with_history
from everlog.protocols.anthropic.lawful import repair
from everlog.protocols.anthropic.replies import parse_fault, parse_reply
from everlog.protocols.anthropic.requests import render_request
from everlog.protocols.anthropic.settings import parse_settings
from everlog.protocols.anthropic.streams import MessageStream
from everlog.protocols.formats import Format

FORMAT = Format(
    name=NAME,
    path="/messages",
    render_request=render_request,
    parse_history=parse_history,
    with_history=with_history,
    repair=repair,
    parse_reply=parse_reply,
    parse_fault=parse_fault,
    stream=MessageStream,
    parse_settings=parse_settings,
    answer=MessageAnswer,
    render_fault=render_fault,
)
