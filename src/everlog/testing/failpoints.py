"""Dying at every commit, to prove that a crash loses nothing.

Everlog hits a named point before and after each commit and each call to the outside: `log.append.before_commit`. A
script is run once to hear which points it hits, and then once for each of them and killed right there, without a
chance to clean up; a check then looks at what is left. The script must be a function of its folder, end what it began,
and belong to a module that can be imported.

    def script(folder: Path) -> None:
        with open_store(folder / "chats.db") as store: ...

    def check(folder: Path, death: Death) -> None:
        with open_store(folder / "chats.db") as store: ...

    print(run(script, check))     # killed at 14 failpoints, 30 times
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from everlog.store import failpoints

Script = Callable[[Path], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """Where a run was killed."""

    point: str
    """Name of the failpoint."""
    hit: int
    """The how-manieth hit of it, from 1."""


Check = Callable[[Path, Death], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a whole series came to."""

    deaths: tuple[Death, ...]
    """Every death, in the order of the first run."""

    @property
    def points(self) -> int:
        """How many names of failpoints there were."""
        return len({death.point for death in self.deaths})

    def __str__(self) -> str:
        return f"killed at {self.points} failpoints, {len(self.deaths)} times"


class Survived(AssertionError):
    """A run did not die where it should: it is not a function of its folder."""


def run(
    script: Script,
    check: Check,
    *,
    hits: int = 2,
    only: str | Callable[[str], bool] = "",
    prepare: Script | None = None,
    timeout_s: float = 60,
) -> Report:
    """Kill a script at each failpoint that it hits, and check what is left each time.

    Args:
        script: a function of a module that can be imported, which leaves nothing open and no thread; run in a process
            of its own, from which that of each death is forked, with an empty folder each time.
        check: called here with the folder and the death after each.
        hits: how often, at most, to kill at the same point: at its first hits, and at its last one.
        only: kill only at points whose name begins so, or of whose name this is true.
        prepare: called here with the folder before the script.
        timeout_s: how long one run may take.

    Raises:
        Survived: a run ended by itself though it should have been killed.
        RuntimeError: the script failed.
    """
    with _Nursery(script, timeout_s) as nursery:
        with _folder(prepare) as folder, _folder(None) as notes:
            ended = nursery.run(folder, heard=notes / "heard")
            if ended.code:
                raise RuntimeError(f"the script failed with {ended.code}:\n{ended.said}")
            names = (notes / "heard").read_text().split()
        deaths = _deaths(names, hits, only)
        for death in deaths:
            with _folder(prepare) as folder:
                ended = nursery.run(folder, death=death)
                if ended.code != -signal.SIGKILL:
                    raise Survived(f"not killed at {death}: exit {ended.code}\n{ended.said}")
                check(folder, death)
    return Report(deaths=tuple(deaths))


@contextlib.contextmanager
def heard() -> Iterator[list[str]]:
    """Collect the names of the points that this process hits inside the block."""
    names: list[str] = []
    with _listening(names.append):
        yield names


@contextlib.contextmanager
def calling(point: str, act: Callable[[], object], *, hit: int = 1) -> Iterator[None]:
    """Call a function at one hit of a point, counted from 1, inside the block; what it raises is raised there."""
    with _listening(_at(point, hit, act)):
        yield


@contextlib.contextmanager
def raising(point: str, error: BaseException, *, hit: int = 1) -> Iterator[None]:
    """Raise an error at one hit of a point, counted from 1, inside the block."""

    def act() -> None:
        raise error

    with calling(point, act, hit=hit):
        yield


def kill_at(point: str, hit: int = 1) -> None:
    """Kill this process at a hit of a point, counted from 1."""
    failpoints.listen(_at(point, hit, lambda: os.kill(os.getpid(), signal.SIGKILL)))


def _at(point: str, hit: int, act: Callable[[], object]) -> failpoints.Listener:
    hits = count(1)

    def listen(name: str) -> None:
        if name == point and next(hits) == hit:
            act()

    return listen


@contextlib.contextmanager
def _listening(listener: failpoints.Listener) -> Iterator[None]:
    _listeners.append(listener)
    failpoints.listen(_tell)
    try:
        yield
    finally:
        _listeners.remove(listener)
        failpoints.listen(_tell if _listeners else None)


_listeners: list[failpoints.Listener] = []


def _tell(name: str) -> None:
    for listener in tuple(_listeners):
        listener(name)


def _deaths(names: Sequence[str], hits: int, only: str | Callable[[str], bool]) -> list[Death]:
    counts = Counter(name for name in names if (name.startswith(only) if isinstance(only, str) else only(name)))
    return [
        Death(point=name, hit=hit)
        for name, last in counts.items()
        for hit in sorted({*range(1, min(hits, last + 1)), last} if hits > 1 else {1})
    ]


@contextlib.contextmanager
def _folder(prepare: Script | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="everlog-crash-") as name:
        folder = Path(name)
        if prepare is not None:
            prepare(folder)
        yield folder


@dataclass(frozen=True, slots=True)
class _Ended:
    code: int
    said: str


class _Nursery:
    """A process that runs the script once, to hear its points, and then forks a child for each death.

    So a child has loaded and prepared all that it uses before it begins, which takes longer than most scripts.
    """

    def __init__(self, script: Script, timeout_s: float) -> None:
        command = [sys.executable, "-c", _PROGRAM, script.__module__, script.__qualname__]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._timeout_s = timeout_s
        self._process = subprocess.Popen(  # noqa: S603 -- our own program
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def run(self, folder: Path, *, heard: Path | None = None, death: Death | None = None) -> _Ended:
        """Run the script once: tell the points it hits to a file, or kill it at one."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = [str(folder), str(heard), death and [death.point, death.hit]]
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], self._timeout_s)[0]:
            raise TimeoutError(f"a run took longer than {self._timeout_s} s (death: {death})")
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the script's module cannot be imported; see above")
        return _Ended(*json.loads(answer))


_PROGRAM = """
import importlib, json, os, sys, tempfile
from pathlib import Path
from everlog.store import failpoints
from everlog.testing.failpoints import kill_at
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
script = getattr(importlib.import_module(sys.argv[1]), sys.argv[2])

def run(folder, said):
    os.dup2(said.fileno(), 1)
    os.dup2(said.fileno(), 2)
    try:
        script(Path(folder))
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0

def listen(folder, said, heard):
    kept = os.dup(1)
    with open(heard, "a", buffering=1) as notes:
        failpoints.listen(lambda name: notes.write(name + "\\n"))
        code = run(folder, said)
        failpoints.listen(None)
    os.dup2(kept, 1)
    os.dup2(kept, 2)
    os.close(kept)
    return code

def die(folder, said, death):
    child = os.fork()
    if child == 0:
        kill_at(*death)
        os._exit(run(folder, said))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

for order in sys.stdin:
    folder, heard, death = json.loads(order)
    with tempfile.TemporaryFile() as said:
        code = listen(folder, said, heard) if death is None else die(folder, said, death)
        said.seek(0)
        print(json.dumps([code, said.read().decode(errors="replace")]), file=answers, flush=True)
"""
