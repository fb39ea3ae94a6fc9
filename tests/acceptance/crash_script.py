"""What is killed in `test_crash.py`: a day in the life of a log, as acts that a caller would do again after a crash.

Each act is told to `acts` in the folder when it has returned: what stands there was acknowledged. What a run finds there
it does not do again, so a second run goes on where the first one was killed. All times and words are fixed, so whatever
was killed and resumed must come to the very same log.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from everlog import (
    Call,
    Conflict,
    Conversation,
    Everlog,
    MasterKeys,
    Media,
    Message,
    Mistake,
    NewTurn,
    Origin,
    Result,
    UnknownThread,
    log,
)
from everlog import open as open_log
from everlog.conversation.alignment import intake
from everlog.messages import Kind
from everlog.store import open_store
from everlog.store.rotation import encrypt

KEYS = MasterKeys(keys=[bytes(range(32))])
NEW_KEYS = MasterKeys(keys=[bytes(range(1, 33)), *KEYS.keys])
START = datetime(2026, 1, 5, 9, tzinfo=UTC)
LETTERS = "GHJKLMNPQRSTVWXYZ"
PAGE = 3
"""Entries appended by one unit of an import, in place of a thousand; fewer than a turn has, so that turns are cut."""


def words(seed: object, size: int = 40) -> str:
    """Return words that stand nowhere else: letters that no id, name or number of ours is made of."""
    return "".join(random.Random(str(seed)).choices(LETTERS, k=size))


def said(kind: Kind, seed: object, minutes: int, **more: object) -> Message:
    return Message(kind=kind, text=words(seed), at=START + timedelta(minutes=minutes), **more)  # type: ignore[arg-type]


def chat(turns: int) -> Conversation:
    """Return a conversation with calls, results and pictures; another length is the same one, grown or shorter."""
    messages = [Message(kind="system", text=words("system"), at=START)]
    for n in range(turns):
        picture = Media(media_type="image/png", content=words(f"picture {n % 2}", 80).encode())
        call = Call(call_id=f"c{n}", name="look", arguments='{"at":"it"}')
        messages += [
            said("user", f"asked {n}", n, parts=(picture,), author=words("author", 16)),
            said("tool_call", f"called {n}", n, parts=(call,)),
            said("tool_result", f"found {n}", n, parts=(Result(call_id=f"c{n}"),)),
            said("assistant", f"answered {n}", n, model="m"),
        ]
    origin = Origin(session="s", user="u1", cwd=words("folder"))
    return Conversation(key="chat", messages=tuple(messages), title=words("title"), origin=origin)


def turn(memory: Everlog, key: str, n: int, user: str) -> None:
    asked = Message(kind="user", text=words(f"{key} {n}", 700), at=START + timedelta(days=n + 1))
    reply = said("assistant", f"{key} {n} answered", 1440 * (n + 1) + 1)
    memory.thread(key).turn([asked, reply], client_key=f"k{n}", origin=Origin(user=user))


def fork(memory: Everlog, key: str, at: int, new: str) -> None:
    """Fork, unless the fork is there: nobody else makes one of that name."""
    with suppress(Conflict):
        memory.thread(key).fork(at, new)


def go_on(memory: Everlog, key: str, at: int) -> None:
    """Continue the last turn of a thread, unless that was done."""
    if memory.thread(key).row().next == at:
        memory.thread(key).extend([NewTurn(messages=(said("assistant", f"{key} goes on", at),), more=True)])


def derive(memory: Everlog) -> None:
    for overview in memory.threads():
        assert memory.thread(overview.key).pump().done
        memory.thread(overview.key).tree.view(1_000)


def forget_thread(memory: Everlog, key: str) -> None:
    """Erase a thread; if it is not known any more, an earlier call began it, and this one has finished it."""
    with suppress(UnknownThread):
        memory.erase(thread=key)


def forget_user(memory: Everlog, user: str) -> None:
    """Erase a user; if nothing of theirs is left, an earlier call has done all of it."""
    with suppress(Mistake):
        memory.erase(user=user)


def acts(memory: Everlog) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield all acts, with a name for each."""
    yield "import", partial(memory.add, chat(4))
    for n in range(2):
        yield f"turn {n}", partial(turn, memory, "own", n, f"u{n + 1}")
    yield "fork inside", partial(fork, memory, "own", 3, "inside")
    yield "go on", partial(go_on, memory, "inside", 3)
    yield "fork of chat", partial(fork, memory, "chat", 6, "branch")
    yield "turn in branch", partial(turn, memory, "branch", 0, "u2")
    yield "grown import", partial(memory.add, chat(5))
    yield "derive", partial(derive, memory)
    yield "retire", partial(memory.retire_media, START)
    yield "erase user", partial(forget_user, memory, "u2")
    yield "erase thread", partial(forget_thread, memory, "chat")
    yield "turn at last", partial(turn, memory, "own", 2, "u1")
    yield "derive again", partial(derive, memory)


def live(memory: Everlog, folder: Path) -> None:
    """Do what was not acknowledged yet."""
    intake.PAGE = PAGE
    done = acknowledged(folder)
    for name, act in acts(memory):
        if name not in done:
            act()
            tell(folder, name)


def tell(folder: Path, name: str) -> None:
    """Note that an act has returned."""
    with (folder / "acts").open("a", encoding="utf-8") as told:
        told.write(name + "\n")


def home(folder: Path) -> Path:
    """Return the folder of the database."""
    (folder / "data").mkdir(exist_ok=True)
    return folder / "data"


def plain(folder: Path) -> None:
    """Live with a plain file, and encrypt it in the end."""
    file = home(folder) / "everlog.db"
    if "encrypting" not in acknowledged(folder):
        with open_log(file) as memory:
            live(memory, folder)
    tell(folder, "encrypting")
    with open_store(file, keys=KEYS, encrypting=True) as store:
        list(encrypt(store))
    tell(folder, "encrypted")


def sealed(folder: Path) -> None:
    """Live with an encrypted file, and give it another master key in the end."""
    with open_log(home(folder) / "everlog.db", keys=NEW_KEYS if "rotating" in acknowledged(folder) else KEYS) as memory:
        live(memory, folder)
    tell(folder, "rotating")
    with open_log(home(folder) / "everlog.db", keys=NEW_KEYS) as memory:
        list(memory.rotate_keys())
    tell(folder, "rotated")


def server(folder: Path) -> None:
    """Live with a database of a server; the folder holds its address, and keys where it is encrypted."""
    keys = KEYS if (folder / "encrypted").exists() else None
    with open_log((folder / "address").read_text(), keys=keys) as memory:
        live(memory, folder)


def acknowledged(folder: Path) -> list[str]:
    file = folder / "acts"
    return file.read_text().splitlines() if file.exists() else []


def everything() -> list[str]:
    """Return all words that are ever said."""
    messages = [*chat(5).messages]
    found = [message.text for message in messages] + [words("title"), words("folder"), words("author", 16)]
    found += [words(f"picture {n}", 80) for n in range(2)]
    for key in ("own", "branch"):
        found += [text for n in range(3) for text in (words(f"{key} {n}", 700), words(f"{key} {n} answered"))]
    return [*found, words("inside goes on")]


def receipts(memory: Everlog) -> list[str]:
    return [receipt.state for receipt in log.receipts(memory.store, memory.name)]
