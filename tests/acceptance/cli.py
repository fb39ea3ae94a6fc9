"""Runs `everlog` in real processes, quickly: one process loads the program once and forks for each command.

What a test sees is what a user sees: arguments, environment, folder, exit code, bytes on both outputs. A command can
be given less room on disk, fewer rights, or a death at a named failpoint. Where the start of a process is the subject,
`start` runs a fresh interpreter instead.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

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

SERVER = """
import importlib, json, os, pathlib, pkgutil, resource, sys, tempfile, traceback
from collections import Counter
import everlog
import everlog.surfaces.cli as cli
from everlog.store import failpoints
from everlog.surfaces.cli.entry import run

for found in pkgutil.iter_modules(cli.__path__, cli.__name__ + "."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
with tempfile.TemporaryDirectory() as scratch, everlog.open(pathlib.Path(scratch, "warm.db")) as memory:
    memory.thread("x").append("user", "x")
    memory.thread("x").pump()
    run(["read", "x", "0", "--json", "--db", str(pathlib.Path(scratch, "warm.db"))])
print("ready", flush=True)

def command(asked):
    for number, name in ((0, asked["stdin"]), (1, asked["stdout"]), (2, asked["stderr"])):
        os.dup2(os.open(name, os.O_RDWR if number == 0 else os.O_WRONLY | os.O_APPEND), number)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.argv[1:] = asked["args"]
    if asked["room"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (asked["room"], resource.RLIM_INFINITY))
    if asked["nobody"] and os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    if asked["dies_at"]:
        name, nth = asked["dies_at"]
        met = Counter()
        def listener(point):
            met[point] += 1
            if point == name and met[point] == nth:
                os.kill(os.getpid(), asked["signal"])
        failpoints.listen(listener)
    cli.main()

for line in sys.stdin:
    child = os.fork()
    if not child:
        status = 70
        try:
            command(json.loads(line))
        except SystemExit as ended:
            status = ended.code or 0
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


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

    def __init__(
        self, server: "subprocess.Popen[str]", home: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._server = server
        self.home = home
        self.environment = dict(environment or {})

    def at(self, home: Path, **environment: str) -> "Everlog":
        """Return the same from another folder, with more environment."""
        return Everlog(self._server, home, self.environment | environment)

    def __call__(
        self,
        *args: object,
        stdin: bytes = b"",
        stdout: str | None = None,
        room: int = 0,
        nobody: bool = False,
        dies_at: tuple[str, int] | None = None,
        by: int = 9,
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
            environment: variables for this command only.
        """
        with TemporaryDirectory() as scratch:
            given, out, err = (Path(scratch, name) for name in ("in", "out", "err"))
            given.write_bytes(stdin)
            out.touch()
            err.touch()
            asked = {
                "args": [str(arg) for arg in args],
                "cwd": str(self.home),
                "env": ENVIRONMENT | self.environment | environment,
                "stdin": str(given),
                "stdout": stdout or str(out),
                "stderr": str(err),
                "room": room,
                "nobody": nobody,
                "dies_at": dies_at,
                "signal": by,
            }
            assert self._server.stdin is not None
            assert self._server.stdout is not None
            self._server.stdin.write(json.dumps(asked) + "\n")
            self._server.stdin.flush()
            status = int(self._server.stdout.readline())
            return Done(status=status, out=out.read_bytes(), err=err.read_text())

    def good(self, *args: object, **options: Any) -> Done:
        """Run a command that must succeed in silence on standard error."""
        done = self(*args, **options)
        assert (done.status, done.err) == (0, ""), f"everlog {args}: {done}"
        return done


@contextmanager
def server() -> Iterator["subprocess.Popen[str]"]:
    """Start the process that forks."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as process:
        try:
            assert process.stdout is not None
            while process.stdout.readline() not in {"ready\n", ""}:
                pass
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(TIMEOUT_S)


def start(*args: object, home: Path, environment: Mapping[str, str] | None = None, **options: Any) -> Any:
    """Start a fresh interpreter that runs a command; it is not waited for."""
    return subprocess.Popen(
        [*PROGRAM, *map(str, args)],
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
