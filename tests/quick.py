"""An `everlog` that starts at once: one process loads the program, and forks for each command that it is asked for.

The command is a process of its own, with the arguments, environment, folder and open files of whoever asks. It can be
given less room on disk, fewer rights, or a death at a named failpoint. A test asks by `Quick.run`; shells and tests
that do not wait use `Quick.program`, which asks in their place. Signals reach that program only, not the command.
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
import importlib, json, os, pathlib, pkgutil, resource, select, signal, socket, sys, tempfile, traceback
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
    for kept in (listener, ended, wake, *asking.values()):
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
    cli.main()

def begin():
    caller, _ = listener.accept()
    first, files, _, _ = socket.recv_fds(caller, 1, 3)
    with caller.makefile("rb") as rest:
        asked = json.loads(first + rest.read())
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

def tell():
    ended.recv(1024)
    for child in [*asking]:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            with asking.pop(child) as caller:
                caller.sendall(str(os.waitstatus_to_exitcode(status)).encode())

while True:
    ready = select.select([listener, ended, sys.stdin], [], [])[0]
    if ended in ready:
        tell()
    if listener in ready:
        begin()
    if sys.stdin in ready:
        break
"""
"""The process that forks. Its argument is where it listens; it ends with its standard input."""

PROGRAM = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    asked = {{"args": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}}
    asked |= {{"room": 0, "nobody": False, "dies_at": None, "signal": 9}}
    order = json.dumps(asked).encode()
    socket.send_fds(server, [order[:1]], [0, 1, 2])
    server.sendall(order[1:])
    server.shutdown(socket.SHUT_WR)
    for file in (0, 1, 2):
        os.close(file)
    os._exit(int(server.recv(16) or 70) & 255)
"""
"""What stands in for `everlog`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quick:
    """Where the process that forks is asked."""

    address: Path
    program: Path
    """An executable called `everlog`, alone in its folder."""

    def run(self, asked: Mapping[str, Any], files: Sequence[int]) -> int:
        """Run a command with these three files, and return its exit code; negative for the signal that killed it."""
        order = json.dumps(asked).encode()
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(str(self.address))
            socket.send_fds(server, [order[:1]], files)
            server.sendall(order[1:])
            server.shutdown(socket.SHUT_WR)
            return int(server.recv(16))


@contextmanager
def serving(environment: Mapping[str, str]) -> Iterator[Quick]:
    """Start the process that forks, in an environment in which the program is loaded."""
    with TemporaryDirectory(prefix="everlog-quick-") as folder:
        quick = Quick(address=Path(folder, "asked"), program=Path(folder, "bin", "everlog"))
        quick.program.parent.mkdir()
        quick.program.write_text(PROGRAM.format(python=sys.executable, address=str(quick.address)))
        quick.program.chmod(0o755)
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
