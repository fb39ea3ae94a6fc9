"""What may be set on a chat, checked when it is set: a wrong value never reaches a provider.

None stands for what was never said; False for what is switched off on purpose.
"""

import difflib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar

from everlog.chat.tools import Tool, name_of
from everlog.errors import Mistake, expect
from everlog.messages import JSON
from everlog.protocols.exchange import Thinking
from everlog.registry import Model

T = TypeVar("T")

Concurrency: TypeAlias = Literal["threads", "fibers"]

TOOL_OPTIONS = ("choice", "calls", "concurrency")
THINKING_OPTIONS = ("effort", "budget", "display")
COMPACTION_OPTIONS = ("at", "instructions", "pause_after")

_CHOICES = ("auto", "none", "required")

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FRAMING = frozenset({"content-length", "transfer-encoding"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """How the model uses its tools; None is the default."""

    choice: str | None = None
    """auto, none, required, or the name of a tool."""
    calls: Literal["many", "one"] | None = None
    """How many calls one reply may hold."""
    concurrency: Concurrency | None = None
    """How the calls of one reply run; None is one after the other."""


def refuse_unknown(given: Iterable[str], valid: tuple[str, ...], what: str, hint: str = "") -> None:
    """Make sure that all names are valid ones.

    Raises:
        Mistake: one is not; the message names the valid ones, and the one that is nearest.
    """
    for name in given:
        if name not in valid:
            raise Mistake(f"{what} has no option {name!r}; it has {', '.join(valid)}{meant(name, valid)}{hint}")


def meant(name: object, valid: Iterable[str]) -> str:
    """Return the question whether the nearest of the valid names is meant; empty where none is near."""
    near = difflib.get_close_matches(str(name), list(valid), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def switched(given: Any, options: Mapping[str, Any], what: str) -> Literal[False] | dict[str, Any]:
    """Return the options that are meant by True, False, a mapping or keywords.

    Raises:
        Mistake: it is none of these, or False with options.
    """
    if given is False:
        if options:
            raise Mistake(f"{what}(False) takes no options")
        return False
    if given is not True and not isinstance(given, Mapping):
        raise Mistake(f"{what} takes True, False or options, not {type(given).__name__}; False switches it off")
    return {**(given if isinstance(given, Mapping) else {}), **options}


def caching_of(given: Any, options: Mapping[str, JSON]) -> Literal[False] | Mapping[str, JSON]:
    """Return the caching that is meant; which options there are is for the protocol to say."""
    found = json_of(switched(given, options, "with_caching"), "options of caching")
    return found if found is False else MappingProxyType(found)


def compaction_of(given: Any, options: Mapping[str, JSON]) -> Literal[False] | Mapping[str, JSON]:
    """Return the compaction that is meant."""
    found = switched(given, options, "with_compaction")
    if found is False:
        return False
    refuse_unknown(found, COMPACTION_OPTIONS, "with_compaction", "; others go into with_provider_options")
    return MappingProxyType(json_of(found, "options of compaction"))


def thinking_of(given: Any, options: Mapping[str, Any]) -> Thinking:
    """Return the thinking that is meant."""
    found = switched(given, options, "with_thinking")
    if found is False:
        return Thinking(enabled=False)
    refuse_unknown(found, THINKING_OPTIONS, "with_thinking")
    for name, value in found.items():
        wanted = int if name == "budget" else str
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise Mistake(
                f"{name} of with_thinking is {wanted.__name__}, not {type(value).__name__}; False switches off"
            )
    if found.get("budget", 1) < 1:
        raise Mistake("budget of with_thinking is a number of tokens, at least 1")
    return Thinking(effort=found.get("effort"), budget_tokens=found.get("budget"), display=found.get("display"))


def refuse_unfit(thinking: Thinking | None, model: Model, protocol: str) -> None:
    """Make sure that a model can be told of its thinking in this way; one of which nothing is known is told anything.

    Raises:
        Mistake: it cannot; the message says how it can.
    """
    if thinking is None or not thinking.enabled:
        return
    if thinking.budget_tokens is not None and protocol != "anthropic":
        raise Mistake(f"{protocol} has no budget of thinking; give an effort, such as low, medium or high")
    if protocol != "anthropic" or not model.reasons_by or thinking.effort == "none":
        return
    given = "an effort, or nothing" if thinking.budget_tokens is None else "a budget"
    if ("effort" if thinking.budget_tokens is None else "budget") not in model.reasons_by:
        wanted = " or ".join(WAYS[way] for way in model.reasons_by)
        raise Mistake(f"{model.id} is told how much to think by {wanted}, not by {given}")


WAYS = {
    "effort": "an effort, as in with_thinking(effort='high')",
    "budget": "a budget, as in with_thinking(budget=2000)",
}


def refuse_too_much(thinking: Thinking | None, most: Any, betas: str) -> None:
    """Make sure that a budget of thinking leaves room for an answer.

    Args:
        thinking: what is said of it.
        most: the tokens that thinking and answer may have together.
        betas: those of Anthropic's that are asked for; with one of them, thinking between calls of tools may have more.

    Raises:
        Mistake: it does not.
    """
    budget = thinking.budget_tokens if thinking is not None else None
    if budget is None or type(most) is not int or budget < most or "interleaved-thinking" in betas:
        return
    raise Mistake(
        f"a budget of {budget} tokens of thinking leaves no room for an answer within {most}; "
        "give a smaller one, or more by with_max_output_tokens"
    )


def choice_of(given: Any, tools: Mapping[str, Tool]) -> str | None:
    """Return the choice that is meant: a word, or the name of a tool that there is.

    Raises:
        Mistake: it is neither; the message names what there is.
    """
    if given is None:
        return None
    name = name_of(given)
    if name in _CHOICES or name in tools:
        return name
    raise Mistake(f"choice is one of {', '.join((*_CHOICES, *tools))}, or a tool that was added, not {name or given!r}")


def calls_of(given: Any) -> Literal["many", "one"] | None:
    """Return how many calls are meant."""
    if given is None or given == "many":
        return given  # type: ignore[no-any-return]
    if given == "one" or (given == 1 and not isinstance(given, bool)):
        return "one"
    raise Mistake(f"calls is many, one or None, not {given!r}")


def concurrency_of(given: Any, default: Concurrency | None) -> Concurrency | None:
    """Return how calls run: None is what is configured, False one after the other, True threads."""
    if given is None:
        return default
    if given is False:
        return None
    if given is True:
        return "threads"
    if given in ("threads", "fibers"):
        return given  # type: ignore[no-any-return]
    raise Mistake(f"concurrency is True, False, None, threads or fibers, not {given!r}")


def changed(
    old: ToolOptions, given: Mapping[str, Any], tools: Mapping[str, Tool], default: Concurrency | None
) -> ToolOptions:
    """Return options with some of them set anew."""
    refuse_unknown(given, TOOL_OPTIONS, "with_tool_options")
    new: dict[str, Any] = {}
    if "choice" in given:
        new["choice"] = choice_of(given["choice"], tools)
    if "calls" in given:
        new["calls"] = calls_of(given["calls"])
    if "concurrency" in given:
        new["concurrency"] = concurrency_of(given["concurrency"], default)
    return replace(old, **new)


def errors_of(given: Any) -> tuple[type[BaseException], ...]:
    """Return the classes of errors that are meant by one or many."""
    found = tuple(given) if isinstance(given, list | tuple) else (given,)
    for one in found:
        if not (isinstance(one, type) and issubclass(one, Exception)):
            raise Mistake(f"on= takes classes of errors, such as everlog.RateLimited, not {one!r}")
    return found


def number_of(given: Any, what: str, *, least: float, whole: bool = False) -> Any:
    """Return a number, or None.

    Raises:
        Mistake: it is none, or too small.
    """
    if given is None:
        return None
    is_number = type(given) is int or (type(given) is float and not whole)
    if not is_number or not least <= given < math.inf:
        raise Mistake(f"{what} is None or {'a whole' if whole else 'a'} number of at least {least}, not {given!r}")
    return given


def mapping_of(given: Any, what: str) -> dict[str, Any]:
    """Return a copy of a mapping with names that are str; None is an empty one."""
    expect(given, (Mapping, type(None)), f"{what} are a mapping or None")
    found = dict(given or {})
    for name in found:
        expect(name, str, f"a name in {what} is a str")
    return found


def headers_of(given: Any) -> dict[str, str]:
    """Return headers, in lower case.

    Raises:
        Mistake: HTTP cannot carry one, or it is about the length of a body that is not known yet.
    """
    found = mapping_of(given, "headers")
    for name, value in found.items():
        expect(value, str, f"the header {name} is a str")
        if not _HEADER.fullmatch(name):
            raise Mistake(f"the name of a header is letters, digits and -, not {name!r}")
        if name.lower() in _FRAMING:
            raise Mistake(f"the header {name} is set by whoever sends the body; leave it out")
        if not (value.isascii() and value.isprintable() and value == value.strip()):
            raise Mistake(f"the value of the header {name} is printable ASCII without spaces around it")
    return {name.lower(): value for name, value in found.items()}


def json_of(value: T, what: str) -> T:
    """Return a value that can be sent as JSON.

    Raises:
        Mistake: it cannot.
    """
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Mistake(
            f"{what} are what JSON can say: texts, finite numbers, lists, mappings, True, False, None"
        ) from error
    return value
