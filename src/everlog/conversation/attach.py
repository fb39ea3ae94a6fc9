"""Attaching a memory to a chat: two lines make it endless.

memory = everlog.attach("anthropic/claude-sonnet-5-5", key="holiday")
memory.turn("Which sea is warm in June?")
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, overload

from everlog.chat.required import known
from everlog.conversation.database import Everlog, open  # noqa: A004 -- reads as it should
from everlog.conversation.memory import AsyncMemory, Memory, made
from everlog.conversation.options import Wishes, options_of
from everlog.conversation.partners import Given, Partner
from everlog.conversation.turn.toolbox import names
from everlog.errors import KeyTrouble, Mistake

if TYPE_CHECKING:
    from everlog.chat.async_chat import AsyncChat
    from everlog.chat.chat import Chat

DEFAULT_DATABASE = "everlog.db"

Database = str | Path | Everlog


@overload
def attach(
    chat: "AsyncChat | Callable[[], AsyncChat]", *, key: str, database: Database = ..., **wishes: Unpack[Wishes]
) -> AsyncMemory: ...
@overload
def attach(
    chat: "str | Chat | Callable[[], Chat]", *, key: str, database: Database = ..., **wishes: Unpack[Wishes]
) -> Memory: ...


def attach(
    chat: Given, *, key: str, database: Database = DEFAULT_DATABASE, **wishes: Unpack[Wishes]
) -> Memory | AsyncMemory:
    """Give a chat an endless memory: a thread of a database that keeps every word, shown within a budget.

    Args:
        chat: the name of a model; a `Chat` or an `AsyncChat` that is ready, whose instructions, tools, settings and
            callbacks count, and nothing that was said in it; or a function without arguments that makes one for each turn.
        key: the name of the thread; a new one is made by the first turn.
        database: a file, which is made if it is not there, a URL, or an open `Everlog`.
        wishes: how it works; one that is misspelt is refused with the one that is nearest.

            tokens: what memory may take of each prompt, estimated, and learned from what the provider counts; 20,000 if neither
                this nor `budget` is given.
            budget: the same in bytes, exactly.
            compactor: writes the lines: the name of a model, a `Chat`, a function that makes one, or any compactor; by default
                the built-in one, which needs no model.
            past: what stands for older words: `tree`, lines that open again; `rolling`, a summary; `none`.
            tail: None, for the newest words as they were said; 0, for the tree alone.
            low_mark: the share of the budget that memory is brought down to when it is full, inside a turn of many rounds two
                thirds of that; 0.45 by default, measured.
            search: whether the model may also search for words.
            search_mask: gets each text that is searched, and returns it with what must not be found replaced by spaces.
            search_cap: searches that one turn may run.
            pump: who builds lines after a turn: `thread`, in the background; `inline`, the turn itself; `worker`, another
                process (`everlog worker`); `none`.
            chat_options: how to reach a model that is named: `provider`, `protocol`, `assume_model_exists`, `base_url`,
                `api_key`, `config`, as `Chat` takes them.
            compactor_options: the same for the compactor.
            required_protocol: the only protocol in which anybody may be asked, such as `chat_completions`.
            wait_s: how long a turn waits for another one of the same thread, in seconds.
            spend_cap_usd: what may be spent on the thread, by talking and by memory; from there on nothing is asked.
            user: id of the end user, for `erase(user=…)`.
            session: id of the session.
            project: id of the project.

    Raises:
        BudgetTooSmall: memory needs more than that.
        ProtocolError: the chat, a fallback of it or the compactor speaks another protocol than the required one.
        Mistake: there is no such option, model or key, or the chat has what does not go together with a memory.
        StoreUnavailable: the database cannot be reached.
    """
    required = _required(wishes.get("required_protocol"), database)
    options = options_of(wishes, required=required)
    partner = Partner(chat, options=wishes.get("chat_options"), required=required, reserved=names(options))
    if isinstance(database, Everlog):
        return made(database, key, partner, options, owns=False)
    try:
        home = open(database)
    except KeyTrouble as error:
        raise KeyTrouble(f"{error}; attach to it by everlog.open(…, keys=…).attach(…)") from None
    try:
        return made(home, key, partner, options, owns=True)
    except BaseException:
        home.close()
        raise


def _required(protocol: str | None, database: object) -> str | None:
    """Return the protocol that is required, here or for the whole database.

    Raises:
        Mistake: there is no such protocol, or another one is required for the database.
    """
    of_all = database.required_protocol if isinstance(database, Everlog) else None
    if known(protocol) is not None and of_all is not None and protocol != of_all:
        raise Mistake(
            f"the database was opened with required_protocol={of_all!r}; {protocol!r} cannot be required here"
        )
    return protocol or of_all
