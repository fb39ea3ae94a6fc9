"""Runs `everlog` in real processes, quickly: `tests.quick` forks for each command.

What a test sees is what a user sees: arguments, environment, folder, exit code, bytes on both outputs. Where the start
of a process or a signal to it is the subject, `start` runs a fresh interpreter instead.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.quick import Quick

ROOT = Path(__file__).parents[2]
HARBOUR = ROOT / "examples" / "harbour.jsonl"
PROGRAM = [sys.executable, "-m", "everlog.surfaces.cli"]
TIMEOUT_S = 60

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nowhere",
    "COLUMNS": "100",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "LC_ALL": "C.UTF-8",
    **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
}
"""What a command sees of the environment, if a test adds nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A command that ended."""

    status: int
    """Exit code; negative for the signal that killed it."""
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Everlog:
    """The command line, from one folder."""

    def __init__(self, quick: Quick, home: Path, environment: Mapping[str, str] | None = None) -> None:
        self._quick = quick
        self.home = home
        self.environment = dict(environment or {})

    def at(self, home: Path, **environment: str) -> "Everlog":
        """Return the same from another folder, with more environment."""
        return Everlog(self._quick, home, self.environment | environment)

    def __call__(
        self,
        *args: object,
        stdin: bytes = b"",
        stdout: str | None = None,
        room: int = 0,
        nobody: bool = False,
        dies_at: tuple[str, int] | None = None,
        by: int = 9,
        module: str = "",
        **environment: str,
    ) -> Done:
        """Run a command and wait for its end.

        Args:
            args: what follows `everlog`.
            stdin: what it reads; it is never a terminal.
            stdout: a file or device to write to instead of what is returned.
            room: the most bytes that a file may have (RLIMIT_FSIZE).
            nobody: run without the rights of root.
            dies_at: a failpoint and how many times it must be met; there the process gets the signal `by`.
            by: number of the signal.
            module: what is run instead of a command, as `python -m` does.
            environment: variables for this command only.
        """
        with TemporaryDirectory() as scratch:
            given, out, err = (Path(scratch, name) for name in ("in", "out", "err"))
            given.write_bytes(stdin)
            asked = {
                "args": ["-m", module, *map(str, args)] if module else [*map(str, args)],
                "python": bool(module),
                "cwd": str(self.home),
                "env": ENVIRONMENT | self.environment | environment,
                "room": room,
                "nobody": nobody,
                "dies_at": dies_at,
                "signal": by,
            }
            out.touch()
            with given.open("r+b") as no_terminal, Path(stdout or out).open("ab") as taken, err.open("ab") as said:
                status = self._quick.run(asked, [file.fileno() for file in (no_terminal, taken, said)])
            return Done(status=status, out=out.read_bytes(), err=err.read_text())

    def begin(self, *args: object) -> Any:
        """Start a command that is not waited for."""
        return start(*args, program=[self._quick.program], home=self.home, environment=self.environment)

    def good(self, *args: object, **options: Any) -> Done:
        """Run a command that must succeed in silence on standard error."""
        done = self(*args, **options)
        assert (done.status, done.err) == (0, ""), f"everlog {args}: {done}"
        return done


def start(
    *args: object,
    home: Path,
    environment: Mapping[str, str] | None = None,
    program: Sequence[str | Path] = PROGRAM,
    **options: Any,
) -> Any:
    """Start a command that is not waited for: in a fresh interpreter, unless another program stands in for it."""
    return subprocess.Popen(
        [*program, *map(str, args)],
        cwd=home,
        env=ENVIRONMENT | dict(environment or {}),
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options,
    )


def finish(process: Any) -> Done:
    """Wait for a process that was started."""
    out, err = process.communicate(timeout=TIMEOUT_S)
    return Done(status=process.returncode, out=out or b"", err=(err or b"").decode())


def jsonl(messages: Sequence[Mapping[str, Any]]) -> bytes:
    """Return messages in the form of OpenAI's chat API, one a line."""
    return b"".join(json.dumps(message, ensure_ascii=True).encode() + b"\n" for message in messages)


def said(*texts: str) -> bytes:
    """Return a conversation in which a user and an assistant take turns."""
    roles = ("user", "assistant")
    return jsonl([{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)])
