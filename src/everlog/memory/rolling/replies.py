"""What a model's answer is worth: additions to a summary, or a reason why it cannot be kept.

By schema, or as Markdown under the headings of the outline, read strictly: what is neither is no answer. The number of a
message that the piece does not have is taken out, and so is a number that stands in the words of an item.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from everlog.memory.escapes import disclose
from everlog.memory.interface import Answer
from everlog.memory.rolling.markdown import SECTIONS, TITLE
from everlog.memory.rolling.outline import GUIDE, ITEM_CHARS, Additions, Closing, Item, Outline, shortened
from everlog.memory.rolling.questions import unescaped
from everlog.messages import JSON

EMPTY = "it says nothing"
CUT_OFF = "it was cut off before its end"
TOOL = "it calls a tool, and there are none here"
FILTERED = "it was withheld by a filter"
FORM = "it does not have the form that was asked for"
LONG_ITEM = "an item is longer than allowed"
NO_SMALLER = "the summary with it is no smaller than what it stands for; say less"

_FINISH = {"length": CUT_OFF, "tool_calls": TOOL, "filtered": FILTERED}
_GUIDE_KEYS = ("topic_horizon", "last_completed", "current_task", "next_steps")
_LOCATOR = re.compile(r"\s*\[#(\d{1,12})(?: [^\]\n]{0,60})?\]")
_SPACE = re.compile(r"\s+")
_CLOSES = re.compile(r"closes c(\d{1,9}): *(.+)")
_FENCED = re.compile(r"```(?:json|markdown|md)?\s*\n(.*)\n```", re.DOTALL)
_MOST_TOPICS = 24
_TOPIC_CHARS = 100
_LINE_CHARS = 300
_STATE_CHARS = 1_000


class _Unusable(Exception):
    """The answer cannot be kept; the message says why."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What an answer is held against."""

    before: Outline
    start: int
    stop: int
    """The piece is `[start, stop)`."""
    cap: int

    @property
    def item_chars(self) -> int:
        """The most that an item may say."""
        return min(ITEM_CHARS, self.cap // 4)

    def source(self, number: object) -> int | None:
        """Return the number of a message, if the piece has it."""
        known = isinstance(number, int) and not isinstance(number, bool) and self.start <= number < self.stop
        return number if known else None  # type: ignore[return-value]


def read(answer: Answer, asked: Asked) -> tuple[Additions | None, str]:
    """Return what an answer adds, or the reason why it cannot be kept."""
    reason = _FINISH.get(answer.finish)
    if reason is not None:
        return None, reason
    try:
        found = _additions(answer, asked)
    except _Unusable as error:
        return None, str(error)
    return (None, EMPTY) if found.is_empty else (found, "")


def _additions(answer: Answer, asked: Asked) -> Additions:
    if isinstance(answer.arguments, dict):
        return _of_json(answer.arguments, asked)
    text = answer.text.strip()
    if (fenced := _FENCED.fullmatch(text)) is not None:
        text = fenced[1].strip()
    if not text:
        raise _Unusable(EMPTY)
    if not text.startswith("{"):
        return _of_markdown(text, asked)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise _Unusable(FORM) from None
    return _of_json(value, asked)


def _of_json(value: dict[str, JSON], asked: Asked) -> Additions:
    known = {"guide", "main_topics", "decisions", "commitments", "closed", "uncertainties", "omitted", "current_state"}
    if not value.keys() <= known:
        raise _Unusable(FORM)
    guide = value.get("guide", {})
    if not isinstance(guide, dict) or not guide.keys() <= {*_GUIDE_KEYS}:
        raise _Unusable(FORM)
    items = partial(_json_items, asked, value)
    lines = [_flat(_str(guide.get(key, "")), _LINE_CHARS) for key in _GUIDE_KEYS]
    return Additions(
        guide=(lines[0], lines[1], lines[2], lines[3]),
        topics=_topics([_str(one) for one in _list(value.get("main_topics", []))]),
        decisions=items("decisions"),
        commitments=items("commitments"),
        uncertainties=items("uncertainties"),
        closings=tuple(_json_closings(_list(value.get("closed", [])), asked)),
        strands=items("omitted"),
        state=_flat(_str(value.get("current_state", "")), _STATE_CHARS),
    )


def _json_items(asked: Asked, value: dict[str, JSON], name: str) -> tuple[Item, ...]:
    found = []
    for one in _list(value.get(name, [])):
        if not isinstance(one, dict) or not one.keys() <= {"text", "source"}:
            raise _Unusable(FORM)
        found.append(_item(_str(one.get("text")), one.get("source"), asked))
    return tuple(item for item in found if item.text)


def _json_closings(values: Sequence[JSON], asked: Asked) -> Iterator[Closing]:
    for one in values:
        if not isinstance(one, dict) or not one.keys() <= {"commitment", "reason", "source"}:
            raise _Unusable(FORM)
        closing = _closing(one.get("commitment"), _str(one.get("reason")), one.get("source"), asked)
        if closing is not None:
            yield closing


def _of_markdown(text: str, asked: Asked) -> Additions:
    sections = dict(_sections(text))
    commitments = sections.get("Open Commitments", [])
    closes = [match for line in commitments if (match := _CLOSES.fullmatch(line)) is not None]
    items = partial(_lines_as_items, asked)
    closings = [_closing(int(one[1]), one[2], _last_number(one[2]), asked) for one in closes]
    return Additions(
        guide=_guide_lines(sections.get("Guide", [])),
        topics=_topics(sections.get("Main Topics", [])),
        decisions=items(sections.get("Decisions & Results", [])),
        commitments=items([line for line in commitments if _CLOSES.fullmatch(line) is None]),
        uncertainties=items(sections.get("Uncertainties", [])),
        closings=tuple(one for one in closings if one is not None),
        strands=items(sections.get("Omitted", [])),
        state=_flat(" ".join(sections.get("Current State", [])), _STATE_CHARS),
    )


def _sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the sections of an answer in Markdown: known headings, in their order, each once, with list items below."""
    rows = [row.strip() for row in text.splitlines() if row.strip()]
    if rows[0] == TITLE:
        rows = rows[1:]
    last = -1
    lines: list[str] = []
    for row in rows:
        if row.startswith("#"):
            name = row.removeprefix("### ")
            if not row.startswith("### ") or name not in SECTIONS or SECTIONS.index(name) <= last:
                raise _Unusable(FORM)
            last, lines = SECTIONS.index(name), []
            yield name, lines
        elif last < 0 or (SECTIONS[last] != "Current State" and not row.startswith("- ")):
            raise _Unusable(FORM)
        else:
            lines.append(row.removeprefix("- "))


def _guide_lines(lines: Sequence[str]) -> tuple[str, str, str, str]:
    found = dict.fromkeys(GUIDE, "")
    for line in lines:
        name, colon, said = line.partition(":")
        if not colon or name not in found:
            raise _Unusable(FORM)
        found[name] = _flat(said, _LINE_CHARS)
    first, second, third, fourth = found.values()
    return first, second, third, fourth


def _lines_as_items(asked: Asked, lines: Sequence[str]) -> tuple[Item, ...]:
    items = [_item(line, _last_number(line), asked) for line in lines]
    return tuple(item for item in items if item.text)


def _item(text: str, source: JSON, asked: Asked) -> Item:
    words = _words(text)
    if len(words) > asked.item_chars:
        raise _Unusable(LONG_ITEM)
    return Item(text=words, source=asked.source(source), first=asked.start)


def _closing(number: JSON, reason: str, source: JSON, asked: Asked) -> Closing | None:
    """Return a closing; none of a commitment that is not there, or is closed already."""
    words = _words(reason)
    if not words:
        raise _Unusable(FORM)
    if len(words) > asked.item_chars:
        raise _Unusable(LONG_ITEM)
    known = isinstance(number, int) and not isinstance(number, bool) and 0 <= number < len(asked.before.commitments)
    if not known or asked.before.commitments[number].closed is not None:  # type: ignore[index]
        return None
    return Closing(item=number, reason=words, source=asked.source(source))  # type: ignore[arg-type]


def _topics(lines: Sequence[str]) -> tuple[str, ...]:
    found = dict.fromkeys(_flat(line, _TOPIC_CHARS) for line in lines)
    return tuple(line for line in found if line)[-_MOST_TOPICS:]


def _last_number(text: str) -> int | None:
    found = _LOCATOR.findall(text)
    return int(found[-1]) if found else None


def _words(text: str) -> str:
    """Return the words of an item on one line, without numbers of messages."""
    return _line(_LOCATOR.sub("", text))


def _flat(text: str, chars: int) -> str:
    return shortened(_line(text), chars)


def _line(text: str) -> str:
    return _SPACE.sub(" ", unescaped(disclose(text))).strip()


def _str(value: JSON) -> str:
    if not isinstance(value, str):
        raise _Unusable(FORM)
    return value


def _list(value: JSON) -> list[JSON]:
    if not isinstance(value, list):
        raise _Unusable(FORM)
    return value
