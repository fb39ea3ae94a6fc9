"""The next request of a chat: its body, as it is sent, and the headers that belong to it."""

import logging
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import replace

from everlog.chat.attachments import as_documents, cited, inlined, refuse_large
from everlog.chat.effects import Invoke, Program
from everlog.chat.message import ChatMessage
from everlog.chat.options import refuse_too_much, refuse_unfit
from everlog.chat.prepared import Prepared
from everlog.chat.provider_tools import MCP_BETA, placed
from everlog.chat.state import State
from everlog.messages import JSON
from everlog.protocols import FORMATS
from everlog.protocols.anthropic.requests import render_betas
from everlog.protocols.exchange import Said, Settings
from everlog.protocols.shapes import Record

_LOG = logging.getLogger(__name__)

BETAS = "anthropic-beta"

COMPACTING: dict[str, tuple[str, ...]] = {"anthropic": ("at", "instructions", "pause_after"), "responses": ("at",)}
"""The options of compaction that each protocol has."""


def body_of(state: State, staged: Iterable[ChatMessage] = (), *, stream: bool = False) -> Program[Record]:
    """Return the body of the next request, as the callbacks for it leave it; they get one of their own.

    Raises:
        Mistake: an option or a provider's tool that the protocol does not have, or a budget without room for an answer.
        UnsupportedAttachment: a file that it does not carry.
    """
    protocol = state.route.protocol
    tools = placed(state.provider_tools, protocol)
    settings = replace(settings_of(state, stream=stream), provider_tools=tools.tools)
    body = FORMATS[protocol].render_request(said_of(state, staged), settings)
    refuse_too_much(settings.thinking, body.get("max_tokens"), state.headers.get(BETAS, ""))
    if _cites(state):
        body = cited(body)
    if tools.servers:
        body["mcp_servers"] = [*body.get("mcp_servers", []), *tools.servers]
    hooks = state.hooks["before_request"]
    if hooks:
        body = deepcopy(body)
    for hook in tuple(hooks):
        yield Invoke(hook, (body,))
    return body


def said_of(state: State, staged: Iterable[ChatMessage] = ()) -> tuple[Said, ...]:
    """Return the conversation, as it is rendered: texts that were attached as words, no marks if caching is off."""
    form = as_documents if _cites(state) else inlined
    said = tuple(form(message.said) for message in (*state.messages, *staged))
    for one in said:
        if one.raw_in(state.route.protocol) is None:
            refuse_large(one, state.route.protocol)
    return tuple(replace(one, cached=False) if one.cached else one for one in said) if state.caching is False else said


def settings_of(state: State, *, stream: bool = False) -> Settings:
    """Return all else of the request.

    Raises:
        Mistake: thinking is said in a way that model or protocol do not know.
    """
    route, model = state.route, state.route.model
    temperature = state.temperature
    takes_none = model.temperature is False or (route.protocol == "responses" and model.reasons)
    if temperature is not None and takes_none:
        _LOG.debug("temperature is dropped: the model takes none", extra={"model": model.id})
        temperature = None
    thinking = route.thinking(state.thinking)
    refuse_unfit(thinking, model, route.protocol)
    calls = state.tool_options.calls
    return Settings(
        model=model.id,
        tools=tuple(tool.declared for tool in state.tools.values()),
        choice=state.tool_options.choice,
        parallel=None if calls is None else calls == "many",
        temperature=temperature,
        max_output_tokens=state.max_output_tokens or route.default_limit,
        schema=state.schema,
        thinking=thinking,
        reasons=bool(model.reasons),
        stream=stream,
        end_user=state.end_user,
        caching=None if state.caching is False else state.caching,
        compaction=_compaction(state),
        names=route.provider.names,
        options=state.provider_options,
    )


def prepared_of(state: State, body: Record) -> Prepared:
    """Return the next request, ready to go out."""
    return Prepared(
        endpoint=state.route.endpoint,
        model=state.route.model,
        protocol=state.route.protocol,
        body=body,
        headers=_headers(state),
        timeouts=state.config.timeouts,
        retry=state.config.retry,
    )


def _cites(state: State) -> bool:
    if state.citations and state.route.protocol != "anthropic":
        _LOG.warning("citations are not asked for: the protocol has none", extra={"protocol": state.route.protocol})
    return state.citations and state.route.protocol == "anthropic"


def _compaction(state: State) -> Mapping[str, JSON] | None:
    """Return the options of compaction that the protocol has; None if it has no compaction, or nobody wants it."""
    if state.compaction is None or state.compaction is False:
        return None
    is_plugin = "compaction" in state.route.provider.names
    known = () if is_plugin else COMPACTING.get(state.route.protocol)
    if known is None:
        _LOG.debug("compaction is dropped: the protocol has none", extra={"protocol": state.route.protocol})
        return None
    for name in state.compaction.keys() - known:
        _LOG.debug("an option of compaction is dropped: the protocol has none", extra={"option": name})
    return {name: value for name, value in state.compaction.items() if name in known}


def _headers(state: State) -> dict[str, str]:
    """Return the caller's headers, with the betas that what is set needs joined to theirs."""
    if state.route.protocol != "anthropic":
        return state.headers
    needed = [*render_betas(Settings(model=state.route.model.id, compaction=_compaction(state)))]
    needed += [MCP_BETA] if placed(state.provider_tools, "anthropic").servers else []
    asked = [one.strip() for one in state.headers.get(BETAS, "").split(",") if one.strip()]
    return {**state.headers, BETAS: ",".join(dict.fromkeys([*asked, *needed]))} if needed else state.headers
