"""What may be said of a memory when it is attached, checked where it is said."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypedDict, get_args

from everlog import log
from everlog.chat.options import mapping_of, refuse_unknown
from everlog.context import LOW_MARK, MIN_BUDGET_BYTES, Mode
from everlog.conversation.partners import OPTIONS as CHAT_OPTIONS
from everlog.conversation.partners import taken_as
from everlog.errors import BudgetTooSmall, MissingCredentials, Mistake, ProtocolError, expect, expect_number
from everlog.memory.interface import Compactor
from everlog.memory.tree import Mask
from everlog.messages import Origin
from everlog.pump import compactor_of
from everlog.pump.compactors import EXTRACTIVE
from everlog.pump.compactors import Given as Compacting

Pumping: TypeAlias = Literal["thread", "inline", "worker", "none"]
"""Who builds lines after a turn: a thread in the background, the turn itself, another process, nobody."""

DEFAULT_TOKENS = 20_000
MOST = 1 << 40
"""The largest budget: more than any model takes."""
LONGEST_S = 86_400 * 365.0


class Wishes(TypedDict, total=False):
    """What may be said of a memory, beside whose it is; `everlog.attach` says what each means."""

    tokens: int | None
    budget: int | None
    compactor: Compacting
    past: Mode
    tail: int | None
    low_mark: float
    search: bool
    search_mask: Mask | None
    search_cap: int
    pump: "Pumping"
    chat_options: Mapping[str, Any] | None
    compactor_options: Mapping[str, Any] | None
    required_protocol: str | None
    wait_s: float
    spend_cap_usd: float | None
    user: str | None
    session: str | None
    project: str | None


NAMES = ("key", "database", *Wishes.__annotations__)
"""All that may be said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a memory works."""

    budget: int
    unit: Literal["bytes", "tokens"]
    past: Mode
    tail: bool
    low_mark: float
    search: bool
    search_mask: Mask | None = field(repr=False)
    search_cap: int
    pump: Pumping
    wait_s: float
    spend_cap_usd: float | None
    required_protocol: str | None
    origin: Origin
    compactor: Compactor = field(repr=False)


def options_of(wishes: Wishes, *, required: str | None) -> Options:
    """Return how a memory is to work.

    Args:
        wishes: what was said of it.
        required: the only protocol in which anybody may be asked.

    Raises:
        ProtocolError: the compactor speaks another one.
        Mistake: there is no such option, or no such value of it.
    """
    _refuse_misplaced(wishes)
    refuse_unknown(wishes, NAMES, "attach")
    size, unit = _budget(wishes.get("tokens"), wishes.get("budget"))
    made = Options(
        budget=size,
        unit=unit,
        past=wishes.get("past", "tree"),
        tail=wishes.get("tail") is None,
        low_mark=wishes.get("low_mark", LOW_MARK),
        search=wishes.get("search", False),
        search_mask=wishes.get("search_mask"),
        search_cap=wishes.get("search_cap", 3),
        pump=wishes.get("pump", "thread"),
        wait_s=wishes.get("wait_s", 30),
        spend_cap_usd=wishes.get("spend_cap_usd"),
        required_protocol=required,
        origin=Origin(user=wishes.get("user"), session=wishes.get("session"), project=wishes.get("project")),
        compactor=_compactor(wishes, required),
    )
    _check(made, wishes.get("tail"))
    if made.search_mask is not None and "search" not in wishes:
        raise Mistake("`search_mask` hides words from the search of the model, which is off; give search=True, too")
    for value in (made.origin.user, made.origin.session, made.origin.project):
        log.check_id(value)
    return made


def _refuse_misplaced(wishes: Iterable[str]) -> None:
    """Say where it goes what is no matter of the memory: how a model is reached, what it is told, how a database is opened.

    Raises:
        Mistake: something of that was given.
    """
    for name in wishes:
        if name in CHAT_OPTIONS:
            raise Mistake(
                f"attach has no option {name!r}: how the model is reached goes into chat_options={{{name!r}: …}}, "
                "and for the compactor into compactor_options"
            )
        if name in _OF_CHATS:
            raise Mistake(
                f"attach has no option {name!r}: that is said to a chat, as in "
                f"attach(everlog.Chat(…).{_OF_CHATS[name]}(…), key=…)"
            )
        if name in _OF_DATABASES:
            raise Mistake(
                f"attach has no option {name!r}: the database is opened with it, as in "
                f"everlog.open(…, {name}=…).attach(…)"
            )


_OF_CHATS = {
    "instructions": "with_instructions",
    "system": "with_instructions",
    "tools": "with_tools",
    "schema": "with_schema",
    "temperature": "with_temperature",
    "max_output_tokens": "with_max_output_tokens",
    "fallbacks": "with_fallbacks",
}
"""What is said to the chat, and how."""

_OF_DATABASES = ("keys", "tenant", "redactor", "clock", "synchronous", "encrypting")
"""What is said to the database."""


def _compactor(wishes: Wishes, required: str | None) -> Compactor:
    """Return what writes the lines.

    Raises:
        ProtocolError: it speaks another protocol than the required one.
        Mistake: there is no such compactor, model, option or key.
    """
    given, wire = wishes.get("compactor", EXTRACTIVE), mapping_of(wishes.get("compactor_options"), "compactor_options")
    try:
        return compactor_of(given, options=wire, required_protocol=required)
    except (MissingCredentials, ProtocolError) as error:
        if not isinstance(given, str):
            raise
        name = "api_key" if isinstance(error, MissingCredentials) else "protocol"
        raise type(error)(taken_as(error, "compactor_options", name)) from None


def _budget(tokens: object, budget: object) -> tuple[int, Literal["bytes", "tokens"]]:
    """Return what memory may take: tokens, or exactly so many bytes.

    Raises:
        BudgetTooSmall: it is too little for any memory.
        Mistake: both are given, or it is no whole number.
    """
    if tokens is not None and budget is not None:
        raise Mistake("give tokens=, which are estimated, or budget= in bytes, which is exact; not both")
    given = budget if budget is not None else DEFAULT_TOKENS if tokens is None else tokens
    what, least = ("tokens", MIN_BUDGET_BYTES // 4) if budget is None else ("budget", MIN_BUDGET_BYTES)
    if type(given) is not int:
        raise Mistake(f"`{what}` is a whole number, not {type(given).__name__}")
    if given < least:
        raise BudgetTooSmall(f"a memory needs `{what}` of at least {least}, not {given}")
    if given > MOST:
        raise Mistake(f"`{what}` is at most {MOST}")
    return given, "tokens" if budget is None else "bytes"


def _check(options: Options, tail: object) -> None:
    """Make sure that words and numbers are ones that there are.

    Raises:
        Mistake: one is not.
    """
    words = ((options.past, "past", get_args(Mode)), (options.pump, "pump", get_args(Pumping)))
    for value, name, known in words:
        if value not in known:
            raise Mistake(f"`{name}` is one of {', '.join(known)}, not {value!r}")
    if tail is not None and (type(tail) is not int or tail != 0):
        raise Mistake("`tail` is None, for the newest words as they were said, or 0, for the tree alone")
    if not options.tail and options.past != "tree":
        raise Mistake("`tail=0` is for past='tree': without a tail the tree alone is the memory")
    expect_number(options.low_mark, "low_mark")
    if not 0 < options.low_mark <= 1:
        raise Mistake(f"`low_mark` is above 0 and at most 1, not {options.low_mark!r}")
    expect(options.search, bool, "`search` is True or False")
    expect_number(options.wait_s, "wait_s")
    if options.wait_s > LONGEST_S:
        raise Mistake(f"`wait_s` is at most {LONGEST_S:.0f} s, a year")
    if options.search_mask is not None and not callable(options.search_mask):
        raise Mistake(f"`search_mask` is called with a text, so it is no {type(options.search_mask).__name__}")
    expect_number(options.search_cap, "search_cap", whole=True)
    if options.spend_cap_usd is not None:
        expect_number(options.spend_cap_usd, "spend_cap_usd")
