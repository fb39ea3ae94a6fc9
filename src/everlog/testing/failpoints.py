"""Dying at every commit, to prove that a crash loses nothing.

Everlog hits a named point before and after each commit and each call to the outside: `log.append.before_commit`. A
script is run once to hear which points it hits, and then once for each of them and killed right there, without a
chance to clean up; a check then looks at what is left. The script must be a function of its folder, and belong to a
module that can be imported.

    def script(folder: Path) -> None:
        with open_store(folder / "chats.db") as store: ...

    def check(folder: Path, death: Death) -> None:
        with open_store(folder / "chats.db") as store: ...

    print(run(script, check))     # killed at 14 failpoints, 30 times
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

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
    script: Script, check: Check, *, hits: int = 2, only: str = "", prepare: Script | None = None, timeout_s: float = 60
) -> Report:
    """Kill a script at each failpoint that it hits, and check what is left each time.

    Args:
        script: a function of a module that can be imported; run in a process of its own with an empty folder.
        check: called here with the folder and the death after each.
        hits: how often, at most, to kill at the same point: at its first hits, and at its last one.
        only: kill only at points whose name begins so.
        prepare: called here with the folder before the script.
        timeout_s: how long one run may take.

    Raises:
        Survived: a run ended by itself though it should have been killed.
        RuntimeError: the script failed.
    """
    deaths = []
    for death in _deaths(_heard(script, prepare, timeout_s), hits, only):
        with _folder(prepare) as folder:
            ended = _start(script, folder, timeout_s, f"{death.point}\n{death.hit}")
            if ended.returncode != -signal.SIGKILL:
                raise Survived(f"not killed at {death}: exit {ended.returncode}\n{ended.stderr}")
            check(folder, death)
        deaths.append(death)
    return Report(deaths=tuple(deaths))


@contextlib.contextmanager
def heard() -> Iterator[list[str]]:
    """Collect the names of the points that this process hits inside the block."""
    names: list[str] = []
    with _listening(names.append):
        yield names


@contextlib.contextmanager
def raising(point: str, error: BaseException, *, hit: int = 1) -> Iterator[None]:
    """Raise an error at one hit of a point, counted from 1, inside the block."""
    left = Counter({point: hit})

    def listen(name: str) -> None:
        if name == point:
            left[point] -= 1
            if not left[point]:
                raise error

    with _listening(listen):
        yield


def kill_at(point: str, hit: int = 1) -> None:
    """Kill this process at a hit of a point, counted from 1."""
    left = Counter({point: hit})

    def listen(name: str) -> None:
        if name == point:
            left[point] -= 1
            if not left[point]:
                os.kill(os.getpid(), signal.SIGKILL)

    failpoints.listen(listen)


@contextlib.contextmanager
def _listening(listener: failpoints.Listener) -> Iterator[None]:
    failpoints.listen(listener)
    try:
        yield
    finally:
        failpoints.listen(None)


def _heard(script: Script, prepare: Script | None, timeout_s: float) -> list[str]:
    with _folder(prepare) as folder:
        names = Path(f"{folder}.heard")
        try:
            ended = _start(script, folder, timeout_s, str(names))
            if ended.returncode:
                raise RuntimeError(f"the script failed with {ended.returncode}:\n{ended.stderr}")
            return names.read_text().split()
        finally:
            names.unlink(missing_ok=True)


def _deaths(names: Sequence[str], hits: int, only: str) -> list[Death]:
    counts = Counter(name for name in names if name.startswith(only))
    return [
        Death(point=name, hit=hit)
        for name, count in counts.items()
        for hit in sorted({*range(1, min(hits, count + 1)), count} if hits > 1 else {1})
    ]


def _start(script: Script, folder: Path, timeout_s: float, death: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", _PROGRAM, script.__module__, script.__qualname__, str(folder), death]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(  # noqa: S603 -- our own program
        command, env=environment, capture_output=True, text=True, check=False, timeout=timeout_s
    )


@contextlib.contextmanager
def _folder(prepare: Script | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="everlog-crash-") as name:
        folder = Path(name)
        if prepare is not None:
            prepare(folder)
        yield folder


_PROGRAM = """
import importlib, sys
from pathlib import Path
from everlog.store import failpoints
from everlog.testing.failpoints import kill_at
module, name, folder, death = sys.argv[1:]
script = getattr(importlib.import_module(module), name)
if "\\n" in death:
    point, hit = death.split("\\n")
    kill_at(point, int(hit))
else:
    heard = open(death, "a")
    failpoints.listen(lambda name: (heard.write(name + "\\n"), heard.flush()))
script(Path(folder))
"""
