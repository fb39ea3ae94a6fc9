"""What a client of one protocol asks for, as a model behind another takes it. Pure.

What a model cannot be told is left out and named, by the client's word for it; a request is not refused for that. What is
too much is made less.
"""

from dataclasses import replace

from everlog.protocols.exchange import Settings, Thinking
from everlog.registry import Model

BUDGETS = {"minimal": 1024, "low": 4096, "medium": 16_384, "high": 32_768, "xhigh": 49_152, "max": 65_536}
"""Tokens of thinking that stand for an effort, and the other way."""

LEAST_BUDGET = 1024
"""Anthropic takes no less."""

MOST_END_USER = 64
"""OpenAI takes no longer id of an end user."""

WORDS: dict[str, dict[str, str]] = {
    "anthropic": {"stop": "stop_sequences", "end_user": "metadata.user_id", "thinking": "thinking"},
    "chat_completions": {
        "end_user": "safety_identifier",
        "caching": "prompt_cache_key",
        "thinking": "reasoning_effort",
    },
    "responses": {"end_user": "safety_identifier", "caching": "prompt_cache_key", "thinking": "reasoning"},
}
"""How clients call what we call otherwise."""


def fitted(settings: Settings, client: str, upstream: str, model: Model) -> tuple[Settings, tuple[str, ...]]:
    """Return what a model behind an upstream's protocol is told, and the client's names of what it is not."""
    out = replace(settings, model=model.id, reasons=bool(model.reasons), max_output_tokens=_limit(settings, model))
    thinking = _thinking(out, client, upstream, model)
    out = replace(out, thinking=thinking)
    out = _for_anthropic(out, model) if upstream == "anthropic" else _for_openai(out, upstream, model)
    return out, _lost(settings, out, client)


def _limit(settings: Settings, model: Model) -> int | None:
    asked, most = settings.max_output_tokens, model.output_tokens
    return asked if asked is None or most is None else min(asked, most)


def _lost(before: Settings, after: Settings, client: str) -> tuple[str, ...]:
    names = WORDS[client]
    lost = [
        names.get(name, name)
        for name in ("temperature", "top_p", "stop", "end_user", "caching")
        if getattr(before, name) not in (None, ()) and getattr(after, name) in (None, ())
    ]
    wants_thinking = before.thinking is not None and before.thinking.enabled
    return (*lost, names["thinking"]) if wants_thinking and after.thinking is None else tuple(lost)


def _thinking(settings: Settings, client: str, upstream: str, model: Model) -> Thinking | None:
    """Return how much the model is to think; a model of which nothing is known is told only in its own words."""
    asked = settings.thinking
    is_foreign = "anthropic" in {client, upstream}
    if asked is None or model.reasons is False or (model.reasons is None and is_foreign):
        return None
    if upstream == "anthropic":
        return _budgeted(asked, settings, model)
    if not asked.enabled and client == "anthropic":
        return Thinking(effort="low")  # the least that each model takes
    effort = asked.effort or _effort(asked.budget_tokens)
    return replace(asked, effort="high" if effort == "max" else effort, budget_tokens=None)


def _effort(budget: int | None) -> str | None:
    if budget is None:
        return None
    return next((name for name in ("low", "medium") if budget <= BUDGETS[name]), "high")


def _budgeted(asked: Thinking, settings: Settings, model: Model) -> Thinking | None:
    """Return thinking for Anthropic, where a tool that must be called rules it out."""
    if not asked.enabled:
        return asked
    if settings.choice is not None and settings.choice not in {"auto", "none"}:
        return None
    if "budget" not in model.reasons_by or "effort" in model.reasons_by:
        efforts = {"minimal": "low", "xhigh": "high"}
        return replace(asked, effort=efforts.get(asked.effort or "", asked.effort), budget_tokens=None)
    budget = BUDGETS.get(asked.effort or "medium", BUDGETS["medium"])
    limit = settings.max_output_tokens or model.output_tokens
    if limit is not None:
        budget = min(budget, limit // 2)
    return replace(asked, effort=None, budget_tokens=budget) if budget >= LEAST_BUDGET else None


def _for_anthropic(settings: Settings, model: Model) -> Settings:
    """Temperatures go to 1, stand alone, and not beside thinking; an answer has a limit; arguments say they are an object."""
    temperature, top_p = settings.temperature, settings.top_p
    if model.temperature is False or (settings.thinking is not None and settings.thinking.enabled):
        temperature = top_p = None
    return replace(
        settings,
        tools=tuple(
            replace(one, strict=one.strict or None, parameters={"type": "object", **one.parameters})
            for one in settings.tools
        ),
        temperature=None if temperature is None else min(temperature, 1.0),
        top_p=top_p if temperature is None else None,
        max_output_tokens=settings.max_output_tokens or model.output_tokens,
        caching=None,
    )


def _for_openai(settings: Settings, upstream: str, model: Model) -> Settings:
    takes_none = model.temperature is False or (upstream == "responses" and bool(model.reasons))
    end_user = settings.end_user
    return replace(
        settings,
        temperature=None if takes_none else settings.temperature,
        top_p=None if takes_none else settings.top_p,
        stop=() if upstream == "responses" else settings.stop,
        end_user=None if end_user is not None and len(end_user) > MOST_END_USER else end_user,
    )
