"""The next request of a chat: its body, as it is sent, and the headers that belong to it."""

import logging
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace

from everlog.chat.attachments import inlined
from everlog.chat.attempts import Prepared
from everlog.chat.effects import Invoke, Program
from everlog.chat.message import ChatMessage
from everlog.chat.state import State
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Said, Settings
from everlog.protocols.shapes import Record

_LOG = logging.getLogger(__name__)


def body_of(state: State, *, stream: bool = False) -> Program[Record]:
    """Return the body of the next request, as the callbacks for it leave it; nothing of the chat is in it by reference.

    Raises:
        Mistake: an option that the protocol does not have.
        UnsupportedAttachment: a file that it does not carry.
    """
    route = state.route
    body = FORMATS[route.protocol].render_request(said_of(state), settings_of(state, stream=stream))
    hooks = state.hooks["before_request"]
    if hooks:
        body = deepcopy(body)
    for hook in tuple(hooks):
        yield Invoke(hook, (body,))
    return body


def said_of(state: State, staged: Iterable[ChatMessage] = ()) -> tuple[Said, ...]:
    """Return the conversation, as it is rendered: texts that were attached as words, no marks if caching is off."""
    said = tuple(inlined(message.said) for message in (*state.messages, *staged))
    return tuple(replace(one, cached=False) if one.cached else one for one in said) if state.caching is False else said


def settings_of(state: State, *, stream: bool = False) -> Settings:
    """Return all else of the request."""
    route, model = state.route, state.route.model
    temperature = state.temperature
    if temperature is not None and model.temperature is False:
        _LOG.debug("temperature is dropped: the model takes none", extra={"model": model.id})
        temperature = None
    calls = state.tool_options.calls
    return Settings(
        model=model.id,
        tools=tuple(tool.declared for tool in state.tools.values()),
        choice=state.tool_options.choice,
        parallel=None if calls is None else calls == "many",
        temperature=temperature,
        max_output_tokens=state.max_output_tokens or route.default_limit,
        schema=state.schema,
        thinking=route.thinking(state.thinking),
        reasons=bool(model.reasons),
        stream=stream,
        end_user=state.end_user,
        caching=None if state.caching is False else state.caching,
        names=route.provider.names,
        options=deepcopy(state.provider_options),
    )


def prepared_of(state: State, body: Record) -> Prepared:
    """Return the next request, ready to go out."""
    return Prepared(
        endpoint=state.route.endpoint,
        model=state.route.model,
        protocol=state.route.protocol,
        body=body,
        headers=state.headers,
        timeouts=state.config.timeouts,
        retry=state.config.retry,
    )
