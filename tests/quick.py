"""An `everlog` that starts at once: one process loads the program, and forks for each command that it is asked for.

The command is a process of its own, with the arguments, environment, folder and open files of whoever asks. It can be
given less room on disk, fewer rights, or a death at a named failpoint. A test asks by `Quick.run`; shells and tests
that do not wait use `Quick.program`, which asks in their place: it passes signals on, ends as the command does, and where
it is killed the command is. `Quick.python` is the same for `python -m MODULE` and `python -c CODE`.
"""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

STOP_TIMEOUT_S = 60

SERVER = """
import contextlib, importlib, json, os, pathlib, pkgutil, resource, runpy, select, signal, socket, sys, tempfile, traceback, warnings
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

listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
ended, wake = socket.socketpair()
ended.setblocking(False)
wake.setblocking(False)
signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
signal.signal(signal.SIGCHLD, lambda number, frame: None)
asking = {}
print("ready", flush=True)

def command(asked, files):
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for kept in (listener, ended, wake, *filter(None, asking.values())):
        kept.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
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
        def listener_of_points(point):
            met[point] += 1
            if point == name and met[point] == nth:
                os.kill(os.getpid(), asked["signal"])
        failpoints.listen(listener_of_points)
    if os.isatty(1):
        sys.stdout.reconfigure(line_buffering=True)
    sys.path[1:1] = filter(None, asked["env"].get("PYTHONPATH", "").split(os.pathsep))
    if not asked["python"]:
        cli.main()
    kind, what, *sys.argv[1:] = asked["args"]
    sys.path[0] = asked["cwd"]
    if asked["env"].get("PYTHONWARNINGS") == "error":
        warnings.simplefilter("error")
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(what, {"__name__": "__main__"})
    raise SystemExit(0)

def begin():
    caller, _ = listener.accept()
    first, files, _, _ = socket.recv_fds(caller, 1, 3)
    with caller.makefile("rb") as rest:
        asked = json.loads(first + rest.readline())
    child = os.fork()
    if not child:
        status = 70
        try:
            with caller:
                pass
            command(asked, files)
        except SystemExit as end:
            status = end.code or 0
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
            os._exit(status)
    for file in files:
        os.close(file)
    asking[child] = caller
    answer(child, child)

def answer(child, number):
    with contextlib.suppress(OSError):  # whoever has gone is noticed below
        asking[child].sendall(b"%d\\n" % number)

def hang_up(child):
    asking[child].close()
    asking[child] = None
    os.kill(child, signal.SIGKILL)

def tell():
    ended.recv(1024)
    for child in [*asking]:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            if asking[child]:
                answer(child, os.waitstatus_to_exitcode(status))
            if caller := asking.pop(child):
                caller.close()

while True:
    callers = {caller: child for child, caller in asking.items() if caller}
    ready = select.select([listener, ended, sys.stdin, *callers], [], [])[0]
    for caller in callers.keys() & {*ready}:
        hang_up(callers[caller])
    if ended in ready:
        tell()
    if listener in ready:
        begin()
    if sys.stdin in ready:
        break
"""
"""The process that forks. Its argument is where it listens; it ends with its standard input."""

PROGRAM = """#!{python} -IS
import json, os, signal, socket, sys
def pass_on(number, frame):
    try:
        os.kill(command, number)
    except ProcessLookupError:
        pass
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    asked = {{"args": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ), "python": {is_python}}}
    asked |= {{"room": 0, "nobody": False, "dies_at": None, "signal": 9}}
    order = json.dumps(asked).encode() + b"\\n"
    socket.send_fds(server, [order[:1]], [0, 1, 2])
    server.sendall(order[1:])
    told = server.makefile("rb")
    command = int(told.readline())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)
    for file in (0, 1, 2):
        os.close(file)
    status = int(told.readline() or 70)
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status & 255)
"""
"""What stands in for `everlog`, and for Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quick:
    """Where the process that forks is asked."""

    address: Path
    program: Path
    """An executable called `everlog`, alone in its folder."""
    python: Path
    """An executable that does what `python -m` and `python -c` do."""

    def run(self, asked: Mapping[str, Any], files: Sequence[int]) -> int:
        """Run a command with these three files, and return its exit code; negative for the signal that killed it."""
        order = json.dumps(asked).encode() + b"\n"
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(str(self.address))
            socket.send_fds(server, [order[:1]], files)
            server.sendall(order[1:])
            with server.makefile("rb") as told:
                told.readline()
                return int(told.readline())


@contextmanager
def serving(environment: Mapping[str, str]) -> Iterator[Quick]:
    """Start the process that forks, in an environment in which the program is loaded."""
    with TemporaryDirectory(prefix="everlog-quick-") as folder:
        quick = Quick(
            address=Path(folder, "asked"), program=Path(folder, "bin", "everlog"), python=Path(folder, "python")
        )
        quick.program.parent.mkdir()
        for file in (quick.program, quick.python):
            is_python = file == quick.python
            file.write_text(PROGRAM.format(python=sys.executable, address=str(quick.address), is_python=is_python))
            file.chmod(0o755)
        with subprocess.Popen(
            [sys.executable, "-c", SERVER, quick.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                while process.stdout.readline() not in {"ready\n", ""}:
                    pass
                yield quick
            finally:
                process.stdin.close()
                process.wait(STOP_TIMEOUT_S)
