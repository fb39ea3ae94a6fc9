"""What can be typed in `everlog chat` beside words: `/zoom 16+8` and the like."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

import typer

from everlog import Mistake
from everlog.messages import JSON
from everlog.surfaces.cli.chat_talk import Talk
from everlog.surfaces.cli.names import as_label, as_position
from everlog.surfaces.cli.output import account, money

VIEW_BYTES = 8_000

_COMMAND = re.compile(r"/([A-Za-z]*|\?)(?:[ \t]+([^\n]*))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command says."""

    text: str
    value: JSON
    """The same for programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command."""

    usage: str
    about: str
    run: Callable[[Talk, str], Answer]


def is_command(words: str) -> bool:
    """Return whether words are a command, or meant as one: a path such as /etc/hosts is not, nor are several lines."""
    return _COMMAND.fullmatch(words.rstrip()) is not None


def is_end(words: str) -> bool:
    """Return whether a command ends the conversation."""
    return _parsed(words)[0] in {"quit", "exit", "bye"}


def is_retry(words: str) -> bool:
    """Return whether a command asks again for the last turn."""
    return _parsed(words)[0] == "retry"


def run(talk: Talk, words: str) -> Answer:
    """Run a command.

    Raises:
        Mistake: there is none of that name, or it cannot do what it is told.
    """
    name, rest = _parsed(words)
    command = COMMANDS.get(name)
    if command is None:
        near = get_close_matches(name, [*COMMANDS, "retry", "quit"], n=1)
        meant = f"did you mean /{near[0]}?" if near else "/help lists them."
        raise Mistake(f"there is no command /{name}; {meant} To say it to the model, put a blank before it")
    if not talk.length and name != "help":
        raise Mistake("nothing was said in this thread yet")
    try:
        return command.run(talk, rest)
    except typer.BadParameter as error:
        raise Mistake(f"{error.message}; as in {command.usage}") from error


def _parsed(words: str) -> tuple[str, str]:
    found = _COMMAND.fullmatch(words.rstrip())
    assert found is not None, "it is a command"
    return found[1].lower(), (found[2] or "").strip()


def _zoom(talk: Talk, rest: str) -> Answer:
    label = as_label(_wanted(rest, "/zoom 16+8"))
    talk.settle()
    return _words(talk.memory.tree.zoom(label.first, label.size or 1))


def _read(talk: Talk, rest: str) -> Answer:
    position, _, page = _wanted(rest, "/read 24, or /read 24 1 for its second page").partition(" ")
    found = talk.memory.tree.page(as_position(position), _number(page or "0", "a page"))
    return Answer(text=f"{found.words}\n{found.note or ''}", value={"text": found.words, "pages": found.pages})


def _view(talk: Talk, rest: str) -> Answer:
    talk.settle()
    return _words(talk.memory.tree.view(_number(rest or str(VIEW_BYTES), "a budget in bytes")))


def _search(talk: Talk, rest: str) -> Answer:
    found = talk.memory.tree.search(_wanted(rest, "/search ferry timetable"))
    shown = [
        f"{hit.i:>6}  {hit.date}  {'all words' if hit.words == found.words else f'{hit.words} of {found.words} words'}"
        for hit in found.hits
    ]
    return Answer(
        text="\n".join([*shown, "/zoom ID shows one"]) if shown else "no message has any of these words",
        value={"hits": [{"id": hit.i, "words": hit.words, "date": hit.date} for hit in found.hits]},
    )


def _cost(talk: Talk, rest: str) -> Answer:  # noqa: ARG001 -- the interface of commands
    spent = talk.memory.cost()
    return Answer(
        text=f"talk    {money(spent.talk)}\nmemory  {money(spent.memory)}",
        value={"talk": account(spent.talk), "memory": account(spent.memory)},
    )


def _status(talk: Talk, rest: str) -> Answer:  # noqa: ARG001 -- the interface of commands
    status, length = talk.memory.status(), talk.length
    pairs: dict[str, JSON] = {
        "thread": talk.memory.key,
        "messages": length,
        "model": talk.model,
        "epoch": status.epoch,
        "opened for": status.reason,
        "next epoch": status.turns_when,
        "memory bytes": status.memory_bytes,
        "not in the prompt": status.hidden,
        "lines to build": max(status.placeholders, status.unbuilt),
        "hindrance": status.hindrance,
        "not recorded yet": status.waiting,
        "trouble": sum(status.trouble.values()),
        "last error": status.last_error,
    }
    width = max(map(len, pairs))
    shown = [f"{name:<{width}}  {_shown(value)}" for name, value in pairs.items() if value is not None]
    return Answer(text="\n".join(shown), value={name.replace(" ", "_"): value for name, value in pairs.items()})


def _fork(talk: Talk, rest: str) -> Answer:
    parent, length = talk.memory.key, talk.length
    talk.fork(rest or None)
    key = talk.memory.key
    return Answer(
        text=f"this is {key} now; it shares {length:,} messages with {parent}",
        value={"thread": key, "parent": parent, "shared": length},
    )


def _help(talk: Talk, rest: str) -> Answer:  # noqa: ARG001 -- the interface of commands
    rows = [(command.usage, command.about) for command in COMMANDS.values()]
    rows += [
        ("/retry", "Ask again where the last answer failed or broke off."),
        ("/quit", "End; so does Ctrl-D. Ctrl-C stops an answer."),
        ("\\", "At the end of a line: what is said goes on in the next."),
    ]
    width = max(len(usage) for usage, _ in rows)
    return Answer(text="\n".join(f"{usage:<{width}}  {about}" for usage, about in rows), value=dict(rows))


def _words(text: str) -> Answer:
    return Answer(text=text, value={"text": text})


def _shown(value: JSON) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _wanted(rest: str, example: str) -> str:
    if not rest:
        raise Mistake(f"say of what, as in {example}")
    return rest


def _number(word: str, what: str) -> int:
    if not re.fullmatch(r"\d{1,18}", word.strip(), re.ASCII):
        raise Mistake(f"{what} is a whole number, not {word!r}")
    return int(word)


COMMANDS: dict[str, Command] = {
    "zoom": Command(
        usage="/zoom ID[+N]", about="Open a line of the memory: its two halves, or the message.", run=_zoom
    ),
    "read": Command(usage="/read ID [PAGE]", about="Show one message, page by page.", run=_read),
    "view": Command(usage="/view [BYTES]", about="Show the whole thread within a budget.", run=_view),
    "search": Command(usage="/search WORDS", about="Find messages by their words: where and when.", run=_search),
    "cost": Command(usage="/cost", about="What models took, for the talk and for its memory.", run=_cost),
    "status": Command(usage="/status", about="How the memory is, and what is missing.", run=_status),
    "fork": Command(usage="/fork [KEY]", about="Go on in a new thread that shares what was said.", run=_fork),
    "help": Command(usage="/help", about="Show this.", run=_help),
}
