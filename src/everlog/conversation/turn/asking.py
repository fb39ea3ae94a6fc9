"""On which terms a request is compiled: what a model takes, how its provider caches, and what memory adds. Pure."""

from functools import cache

from everlog.chat.state import State
from everlog.context import Consumer, Head, Marking, Mode, Terms
from everlog.conversation.options import Options
from everlog.conversation.partners import declared, instructions
from everlog.memory.prompts import Prompt, load
from everlog.messages import Message
from everlog.protocols.exchange import Said

FORM = "1"
"""Changes when the same parts make other bytes."""


@cache
def prompt(*, tools: bool) -> Prompt:
    """Return what a model is told of its memory."""
    return load("everlog.context", "memory" if tools else "memory_without_tools")


def ours() -> tuple[str, ...]:
    """Return all that a model may have been told of its memory."""
    return (prompt(tools=True).text, prompt(tools=False).text)


def takes_tools(state: State, mode: Mode) -> bool:
    """Return whether the model is given the tools that open lines."""
    return mode == "tree" and state.route.model.tools is not False


def terms_of(state: State, options: Options, *, too_long: bool = False) -> Terms:
    """Return the terms of the next request of a chat, whose tools are those that are sent."""
    tools = takes_tools(state, options.past)
    route = state.route
    marking = _marking(state)
    told = prompt(tools=tools)
    head = instructions(state, ours())
    renderer = f"{FORM} {route.protocol} {marking}"
    if options.past == "tree":
        head = (*head, Said(messages=(Message(kind="system", text=told.text),)))
        renderer += f" {told.id[:12]}"
    return Terms(
        consumer=Consumer(
            mode=options.past,
            budget=options.budget,
            unit=options.unit,
            renderer=renderer,
            family=route.name,
            tail=options.tail,
        ),
        head=Head(instructions=head, tools=declared(state)),
        low_mark=options.low_mark,
        window_tokens=_window(state),
        idle_s=_idle(state),
        marking=marking,
        tools=tools,
        too_long=too_long,
    )


def cached(state: State, marking: Marking) -> State:
    """Return the state of a request with options of caching that go with its marks."""
    if marking == "none" or state.caching is False:
        return state
    if marking == "breakpoints":
        state.caching = {"mode": "implicit", **(state.caching or {})}
    else:
        state.caching = None  # a mark of the provider's own at the end would be a fifth
    return state


def _marking(state: State) -> Marking:
    if state.caching is False:
        return "none"
    marks = state.route.registry.caching(state.route.model).marks
    if marks == "blocks":
        # Marks with a longer life must stand before those with a shorter one, and ours have the shorter.
        return "none" if state.route.protocol != "anthropic" or (state.caching or {}).get("ttl") else "blocks"
    return marks


def _idle(state: State) -> float | None:
    found = state.route.registry.caching(state.route.model)
    options = state.caching or {}
    if state.provider_options.get("prompt_cache_retention") == "24h":
        return None
    return found.long_s if options.get("ttl") == "1h" and found.long_s is not None else found.idle_s


def _window(state: State) -> int | None:
    """Return the tokens that the model takes in beside its answer."""
    model = state.route.model
    known = [model.input_tokens] if model.input_tokens else []
    if model.context_tokens:
        answer = state.max_output_tokens or state.route.default_limit or model.output_tokens or 0
        known.append(model.context_tokens - min(answer, model.context_tokens // 2))
    return min(known, default=None)
