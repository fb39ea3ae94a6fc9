"""The door: open a database, pick a tenant, get at its threads.

    import everlog

    memory = everlog.open("chats.db")
    thread = memory.thread("holiday")
    thread.append("user", "Let us go to the sea in June.")
    print(thread.tree.view(4_000))

A program holds one `Everlog` for each database and closes it at the end. It may be shared by threads, and kept across
`fork()`. `tenant(name)` is the same database behind another wall.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, Unpack, overload

from everlog import access, log
from everlog.chat.required import known
from everlog.clock import Clock, SystemClock
from everlog.conversation.alignment.intake import Added, Arrived, add
from everlog.conversation.forgetting import forget, let_go
from everlog.conversation.stats import Stats, due, stats
from everlog.conversation.thread import Thread, verified
from everlog.errors import Damaged, Erased, Mistake, UnknownThread, expect
from everlog.log import Fault, Receipt, ThreadRow, Verified
from everlog.messages import Conversation, Message
from everlog.pump import mark_tree
from everlog.store import Store, Unit, open_store
from everlog.store.backup import BackupReport, backup
from everlog.store.keys import KeyProvider
from everlog.store.rotation import Progress, encrypt, rotate
from everlog.store.store import checked

if TYPE_CHECKING:
    from everlog.chat.async_chat import AsyncChat
    from everlog.chat.chat import Chat
    from everlog.conversation.memory import AsyncMemory, Memory
    from everlog.conversation.options import Wishes

DEFAULT_TENANT = "default"


class Redactor(Protocol):
    """Changes what is said before anything of it is stored: messages, system messages, and titles, which come as notes.

    Of the same message it should always make the same: an import knows by it what is there already.
    """

    def __call__(self, message: Message) -> Message:
        """Return the message to store; an error stops the append, and nothing is stored."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """A thread in a list."""

    key: str
    title: str | None
    entries: int
    turns: int
    forked_from: str | None
    """Key of the thread it shares its beginning with."""


class Everlog:
    """A tenant's threads in one database."""

    def __init__(
        self,
        store: Store,
        *,
        tenant: str = DEFAULT_TENANT,
        redactor: Redactor | None = None,
        required_protocol: str | None = None,
    ) -> None:
        self.store = store
        self.name = tenant
        self.required_protocol = known(required_protocol)
        """The only protocol in which a model may be asked; None where any may."""
        self._redactor = redactor

    def __repr__(self) -> str:
        return f"<Everlog tenant={self.name!r}>"

    def tenant(self, name: str) -> "Everlog":
        """Return the same database for another tenant; its rows never meet this one's.

        Raises:
            Mistake: it is not named by 1 to 64 visible ASCII characters.
        """
        return Everlog(
            self.store, tenant=checked(name), redactor=self._redactor, required_protocol=self.required_protocol
        )

    def thread(self, key: str) -> Thread:
        """Return the thread with a key; a new one is made by its first append."""
        return Thread(
            self.store,
            self.name,
            log.checked_key(key),
            redact=self.redact,
            required_protocol=self.required_protocol,
        )

    @overload
    def attach(
        self, chat: "AsyncChat | Callable[[], AsyncChat]", *, key: str, **wishes: "Unpack[Wishes]"
    ) -> "AsyncMemory": ...
    @overload
    def attach(self, chat: "str | Chat | Callable[[], Chat]", *, key: str, **wishes: "Unpack[Wishes]") -> "Memory": ...

    def attach(self, chat: Any, *, key: str, **wishes: "Unpack[Wishes]") -> "Memory | AsyncMemory":
        """Give a chat an endless memory in this database, as `everlog.attach` does."""
        attach: Any = import_module("everlog.conversation.attach").attach
        memory: Memory | AsyncMemory = attach(chat, key=key, database=self, **wishes)
        return memory

    def threads(self) -> Iterator[Overview]:
        """Yield the tenant's threads in the order they were made."""
        after = ""
        while found := self.store.read(self.name, partial(_page, after=after)):
            yield from (overview for _, overview in found)
            after = found[-1][0]

    def keys(self) -> dict[str, str]:
        """Return the keys of the tenant's threads, by our own ids, in the order they were made; nothing else is read."""
        return dict(self.store.read(self.name, log.names))

    def add(self, conversation: Conversation, *, on_progress: Arrived | None = None) -> Added:
        """Bring in a conversation from elsewhere; what is here already is recognised and not stored again.

        Args:
            conversation: the whole of it, as an importer yields it.
            on_progress: told after each write: messages that are in, and messages in all.

        Raises:
            Mistake: it holds what cannot be stored, such as an id of 300 characters; nothing of it was stored.
            Erased: the thread was erased while it was brought in.
        """
        expect(conversation, Conversation, "what is brought in is a Conversation")
        return add(self.store, self.name, conversation, redact=self.redact, on_progress=on_progress)

    def erase(self, *, thread: str | None = None, user: str | None = None) -> Receipt:
        """Erase a thread, or all turns of an end user, and return the receipt.

        An erasure that was cut off before is finished first, so that the same call, made again, comes to the same. The
        name of a user is gone by then, so where no turn of theirs is left its receipt is taken for theirs.

        Raises:
            Mistake: not exactly one of them is named, or there is no turn of such a user (any more).
            UnknownThread: there is no such thread (any more).
        """
        if (thread is None) == (user is None):
            raise Mistake("name a thread or a user to erase, one of the two")
        finished = self._finish_begun("user")
        waited = self._forget(key=thread, user=user)
        if thread is not None:
            found = self.store.read(self.name, partial(log.find, key=thread))
            receipt = log.erase_thread(self.store, self.name, found.id)
            self._forget(key=thread)  # a turn that was under way may have had more wait
            return receipt
        assert user is not None
        keys = any(key.user == user for key in self.store.read(self.name, access.keys))
        if keys or self.store.read(self.name, partial(access.asked_by, user=user, limit=1)):
            self.store.write(self.name, partial(access.forget_user, user=user), name="erase.keys")
        if not self.store.read(self.name, partial(log.has_turns_of, user=user)):
            if finished is not None:
                return finished
            erased = "but what waited of theirs, and their keys," if waited or keys else "nothing"
            raise Mistake(
                f"no turn of user {user!r} here; {erased} was erased (a user is the id that came with a turn, not the author"
                " of a message)"
            )
        receipt = log.erase_user(self.store, self.name, user, dropped=_due)
        self._forget(user=user)
        return receipt

    def erase_tenant(self) -> Receipt:
        """Erase everything of this tenant; only receipts stay. One that was cut off before is finished.

        Raises:
            Mistake: there is no such tenant (any more).
        """
        finished = self._finish_begun("tenant")
        self._forget()
        if self.name not in self.store.tenants():
            if finished is not None:
                return finished
            raise Mistake(f"no tenant {self.name!r} here; nothing was erased")
        receipt = log.erase_tenant(self.store, self.name)
        self._forget()
        return receipt

    def resume(self) -> list[Receipt]:
        """Go on with erasures that were killed, or had to wait for other connections."""
        return log.resume(self.store, self.name, dropped=_due)

    def receipts(self) -> list[Receipt]:
        """Return the receipts of all erasures, oldest first."""
        return log.receipts(self.store, self.name)

    def retire_media(self, before: datetime) -> int:
        """Drop the bytes of images, sounds and files that no message has brought since a time; return how many.

        Messages keep that they were there, with type, name and url. Bytes that are brought again are stored again.
        """
        return sum(
            self.store.write(self.name, partial(log.retire, thread=thread, before=before), name="log.retire")
            for thread in self.store.read(self.name, log.ids)
        )

    def verify(self, key: str | None = None) -> Iterator[Verified]:
        """Check one thread, or all of them: positions, hashes, turns, large parts, and that trees can be shown.

        What is damaged is said, and not raised. Of all of them, one that is erased meanwhile is left out from there on.
        """
        if key is not None:
            yield from self.thread(key).verify()
            return
        try:
            threads = list(self.keys())
        except Damaged as error:
            threads = []
            yield Verified(thread="", stop=0, of=0, faults=(Fault(thread="", i=None, what=str(error)),))
        for thread in threads:
            with unless_erased():
                yield from verified(self.store, self.name, thread)
        if faults := log.around(self.store, self.name):
            yield Verified(thread="", stop=0, of=0, faults=tuple(faults))

    def encrypt(self) -> Iterator[Progress]:
        """Seal everything that a plain database holds; it must be opened with keys and `encrypting=True`."""
        return encrypt(self.store)

    def rotate_keys(self) -> Iterator[Progress]:
        """Give every tenant and thread of the database a new key, and seal all rows under it."""
        return rotate(self.store)

    def stats(self) -> Stats:
        """Count the tenant's threads, messages and bytes."""
        return self.store.read(self.name, stats)

    def backup(self, target: str | Path) -> BackupReport:
        """Write a copy of the whole database, all tenants, to a new file while it is in use; `everlog restore` reads it.

        Raises:
            Mistake: there is such a file already, or the tools or rights to dump a server's database are missing.
            StoreUnavailable: the disk is full, or the server is away.
        """
        return backup(self.store, Path(target))

    def due(self) -> int:
        """Return how many of the tenant's threads have lines of a tree to build; those whose prompts show none do not count."""
        return self.store.read(self.name, due)

    def close(self) -> None:
        """Finish what is queued and close the database; threads of turns that are under way are free for others."""
        let_go(self.store)
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _finish_begun(self, target: log.Target) -> Receipt | None:
        """Finish what was cut off, and return the receipt of the latest that was of such a target."""
        finished = log.resume(self.store, self.name, dropped=_due, states=["rows", "files"])
        return next((receipt for receipt in reversed(finished) if receipt.target == target), None)

    def _forget(self, *, key: str | None = None, user: str | None = None) -> bool:
        """Drop what waits to be recorded, in this process and beside the database, of what is erased."""
        return forget(self.store, self.name, key=key, user=user)

    def redact(self, message: Message) -> Message:
        """Return a message as it may be stored."""
        if self._redactor is None:
            return message
        redacted: object = self._redactor(message)
        if not isinstance(redacted, Message):
            raise Mistake(f"a redactor returns the message to store, not {type(redacted).__name__}; nothing was stored")
        return redacted


@contextmanager
def unless_erased() -> Iterator[None]:
    """Do something with one of all threads; where it was erased since they were listed, end quietly."""
    with suppress(UnknownThread, Erased):
        yield


def open(  # noqa: A001 -- `everlog.open` reads as it should
    database: str | Path,
    *,
    tenant: str = DEFAULT_TENANT,
    keys: KeyProvider | None = None,
    redactor: Redactor | None = None,
    clock: Clock | None = None,
    synchronous: str = "NORMAL",
    encrypting: bool = False,
    required_protocol: str | None = None,
) -> Everlog:
    """Open a database; a file that is not there is made.

    Args:
        database: a file path, `:memory:`, or `postgresql://user@host/database`.
        tenant: whose threads; 1 to 64 visible ASCII characters.
        keys: master keys, such as `everlog.MasterKeys.parse(text)`; they make a new database encrypted.
        redactor: changes each message before anything of it is stored.
        clock: where time and randomness come from.
        synchronous: SQLite's setting. NORMAL survives a crash of the process, FULL a loss of power as well.
        encrypting: open a plain database with keys, to call `encrypt` on it.
        required_protocol: the only protocol in which models may be asked about its threads, such as `chat_completions`;
            a chat that speaks another is refused before any request.

    Raises:
        Mistake: an argument is of another kind.
        SchemaMismatch: the database is of another version.
        KeyTrouble: keys are missing, or given for a database that is not encrypted.
        StoreUnavailable: it cannot be reached, or the folder does not exist.
    """
    known(required_protocol)
    if keys is not None and not isinstance(keys, KeyProvider):
        raise Mistake(f"`keys` are master keys, as everlog.MasterKeys.parse(text) gives, not {type(keys).__name__}")
    if redactor is not None and not callable(redactor):
        raise Mistake(f"`redactor` is a function of a message, not {type(redactor).__name__}")
    store = open_store(
        database, keys=keys, clock=clock or SystemClock(), synchronous=synchronous, encrypting=encrypting
    )
    return Everlog(store, tenant=tenant, redactor=redactor, required_protocol=required_protocol)


def _due(unit: Unit, thread: str, count: int) -> None:
    mark_tree(unit, thread, upto=count, live=False)


def _page(unit: Unit, after: str) -> list[tuple[str, Overview]]:
    found = log.listed(unit, after=after)
    names = {row.id: row.key for row in found}
    return [(row.id, _overview(unit, row, names)) for row in found]


def _overview(unit: Unit, row: ThreadRow, names: dict[str, str | None]) -> Overview:
    parent = row.parent
    if parent is not None and parent not in names:
        names[parent] = log.key_of(unit, parent)
    return Overview(
        key=row.key or "",
        title=row.title,
        entries=row.next,
        turns=row.turns,
        forked_from=None if parent is None else names[parent],
    )
