"""What is killed in `test_crash_models.py`: a log whose lines a model makes, badly at first, and the end of a tenant.

Acts are told, and not done again, as in `crash_script.py`.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

from everlog import Everlog, Message
from everlog import open as open_log
from everlog.testing import Bad, EchoModel, ScriptedModel
from tests.acceptance.crash_script import KEYS, START, acknowledged, home, tell, words

MODEL = "echo@1"
MESSAGES = 4


def everything() -> list[str]:
    """Return all words that are ever said; lines of the model begin with them."""
    return [*said(), words("after", 60)]


def said() -> list[str]:
    return [words(f"said {n}", 700) for n in range(MESSAGES)]


def say(memory: Everlog, key: str, texts: list[str]) -> None:
    for n, text in enumerate(texts):
        message = Message(kind="user", text=text, at=START + timedelta(days=n))
        memory.thread(key).turn([message], client_key=f"k{n}")


def dig(memory: Everlog) -> None:
    with memory.thread("long").tree.tools() as tools:
        tools.zoom(0, 2)


def rebuild(memory: Everlog) -> None:
    memory.thread("long").tree.rebuild()


def acts(memory: Everlog) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield all acts, with a name for each."""
    flaky = ScriptedModel([Bad.TOO_LONG, Bad.EMPTY, Bad.UNTAGGED, Bad.TOO_LONG, Bad.UNAVAILABLE], model=MODEL)
    yield "said", partial(say, memory, "long", said())
    yield "asked", partial(memory.thread("long").pump, flaky)
    yield "asked again", partial(memory.thread("long").pump, EchoModel(MODEL))
    yield "dug", partial(dig, memory)
    yield "rebuilt", partial(rebuild, memory)
    yield "made again", partial(memory.thread("long").pump, EchoModel(MODEL))
    yield "erased", memory.erase_tenant
    yield "said after", partial(say, memory, "after", [words("after", 60)])


def live(folder: Path, *, keyed: bool) -> None:
    """Do what was not acknowledged yet; an erasure that was begun is finished first."""
    with open_log(home(folder) / "everlog.db", keys=KEYS if keyed else None) as memory:
        memory.resume()
        done = acknowledged(folder)
        for name, act in acts(memory):
            if name not in done:
                act()
                tell(folder, name)


def plain(folder: Path) -> None:
    live(folder, keyed=False)


def sealed(folder: Path) -> None:
    live(folder, keyed=True)
