"""`everlog chat`: an endless conversation in the terminal, or through pipes."""

from typing import Annotated, Any

import typer

from everlog import Cancelled, Chat, EverlogError, Mistake
from everlog.context import MIN_BUDGET_BYTES, Mode
from everlog.pump.compactors import EXTRACTIVE
from everlog.surfaces import models
from everlog.surfaces.cli import chat_commands, chat_lines, compactors, session
from everlog.surfaces.cli.chat_screen import Documents, Plain, Terminal
from everlog.surfaces.cli.chat_talk import Talk
from everlog.surfaces.cli.compactors import Assume, BaseUrl, Protocol, Provider
from everlog.surfaces.cli.console import is_terminal, note
from everlog.surfaces.cli.entry import DONE
from everlog.surfaces.cli.names import as_key
from everlog.surfaces.cli.session import Session
from everlog.surfaces.models import ChatSettings

_PASTS: dict[str, Mode] = {kind: kind for kind in models.PASTS}

_NO_MODEL = (
    "no model is named: everlog chat --model PROVIDER/MODEL, as in anthropic/claude-sonnet-5-5; or set EVERLOG_MODEL, "
    "or `model` under [chat] in everlog.toml"
)


def as_past(word: str) -> Mode:
    """Return what is to stand for older words.

    Raises:
        BadParameter: it is nothing of that kind.
    """
    if word not in _PASTS:
        raise typer.BadParameter(f"--past is one of {', '.join(_PASTS)}, not {word!r}")
    return _PASTS[word]


Named = Annotated[str, typer.Argument(metavar="THREAD", parser=as_key, help="Key of the thread; a new one is made.")]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="Whom to talk with. Else EVERLOG_MODEL, else [chat] in everlog.toml.",
        show_default=False,
    ),
]
Tokens = Annotated[
    int | None,
    typer.Option(
        "--tokens",
        metavar="N",
        min=MIN_BUDGET_BYTES // 4,
        help="What memory may take of each prompt; 20,000 if nothing is said.",
        show_default=False,
    ),
]
Past = Annotated[
    Any,
    typer.Option(
        "--past", metavar="KIND", parser=as_past, help="Older words are shown as: tree (the default), rolling, none."
    ),
]
Search = Annotated[
    bool | None,
    typer.Option("--search/--no-search", help="Let the model search for words, too.", show_default=False),
]
Builder = Annotated[
    str | None,
    typer.Option(
        "--compactor",
        metavar="NAME",
        help="What writes the lines of the memory, as for `everlog pump`; extractive, without a model, if nothing is said.",
        show_default=False,
    ),
]
Once = Annotated[str | None, typer.Option("--once", metavar="TEXT", help="Say this, and end.", show_default=False)]


def chat(
    context: typer.Context,
    thread: Named = "chat",
    model: Model = None,
    provider: Provider = None,
    protocol: Protocol = None,
    base_url: BaseUrl = None,
    assume_model_exists: Assume = False,
    tokens: Tokens = None,
    past: Past = None,
    search: Search = None,
    compactor: Builder = None,
    once: Once = None,
) -> int:
    """Talk with a model that forgets nothing.

    Every word is kept in THREAD, and goes on there next time. /help lists what can be typed beside words; Ctrl-C stops
    an answer, Ctrl-D ends. Without a terminal each line is a turn, and the answers are the output.

    Examples:
      everlog chat --model anthropic/claude-sonnet-5-5
      everlog chat holiday --model qwen3:8b --base-url http://localhost:11434/v1
      everlog chat holiday --once "Which sea is warm in June?" --json
    """
    here = session.of(context)
    wire: dict[str, Any] = {"provider": provider, "protocol": protocol, "base_url": base_url}
    found = models.chat_settings(
        here.settings,
        model=model,
        tokens=tokens,
        past=past,
        search=search,
        assume_model_exists=assume_model_exists or None,
        **wire,
    )
    if once is not None and not once.strip():
        raise Mistake("--once is empty; give the words to say")
    partner, asked = _partner(found), compactors.asked(here, compactor)
    if found.past == "rolling" and compactors.configured(here, compactor).name == EXTRACTIVE:
        note("a summary needs a model, which --compactor names; without one older words are left out")
    with here.open(create=True) as home:
        memory = home.attach(
            partner.fresh,
            key=thread,
            tokens=found.tokens,
            past=found.past,
            search=found.search,
            compactor=asked,
        )
        with Talk(home, memory) as talk:
            return _held(talk, here, once)


def _partner(found: ChatSettings) -> Chat:
    """Return a chat with the model of the settings; nothing is opened or made before that is known to work.

    Raises:
        Mistake: no model is named, nobody knows it, or its key is missing.
    """
    if found.model is None:
        raise Mistake(_NO_MODEL)
    return Chat(found.model, **found.options)


def _held(talk: Talk, here: Session, once: str | None) -> int:
    """Hold a conversation, and return the exit code."""
    screen = Documents() if here.json else Terminal() if is_terminal() else Plain()
    is_live = once is None and not here.json and chat_lines.is_live()
    if is_live:
        note(talk.greeting)
    status = DONE
    for words in [once] if once is not None else chat_lines.lines(is_live=is_live):
        is_command = once is None and chat_commands.is_command(words)
        try:
            if not is_command:
                _answered(talk, words, screen)
            elif chat_commands.is_end(words):
                break
            elif chat_commands.is_retry(words):
                _again(talk, screen)
            else:
                screen.show(chat_commands.run(talk, words))
        except Cancelled:
            if not is_live:
                raise KeyboardInterrupt from None
        except EverlogError as error:
            status = max(status, screen.failed(error))
    return DONE if is_live else status


def _again(talk: Talk, screen: Plain) -> None:
    """Ask again for the answer of the last turn.

    Raises:
        Mistake: it is whole, or nothing was said yet.
        EverlogError: nothing came of it again, or not all; what came is shown.
    """
    if not talk.memory.status().can_resume:
        raise Mistake("there is nothing to ask again: no answer failed or broke off")
    _answered(talk, None, screen)


def _answered(talk: Talk, words: str | None, screen: Plain) -> None:
    """Say something, or nothing to have the last turn go on, and show what comes of it.

    Raises:
        EverlogError: nothing did, or not all; what came is shown.
    """
    screen.begin()
    try:
        talk.say(words, screen.piece)
    finally:
        screen.end(talk.last)
