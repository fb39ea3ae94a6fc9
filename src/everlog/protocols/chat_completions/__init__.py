"""Chat Completions, which OpenAI began and most servers speak."""

from everlog.protocols.chat_completions.answers import ChatAnswer
from everlog.protocols.chat_completions.history import NAME, parse_history, with_history
from everlog.protocols.chat_completions.lawful import repair
from everlog.protocols.chat_completions.replies import parse_fault, parse_reply
from everlog.protocols.chat_completions.requests import render_request
from everlog.protocols.chat_completions.settings import parse_settings
from everlog.protocols.chat_completions.streams import ChatStream
from everlog.protocols.faults import render_fault
from everlog.protocols.formats import Format

FORMAT = Format(
    name=NAME,
    path="/chat/completions",
    render_request=render_request,
    parse_history=parse_history,
    with_history=with_history,
    repair=repair,
    parse_reply=parse_reply,
    parse_fault=parse_fault,
    stream=ChatStream,
    parse_settings=parse_settings,
    answer=ChatAnswer,
    render_fault=render_fault,
)
