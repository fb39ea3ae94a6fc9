"""What is killed in `test_pump_workers.py`: a worker in a process of its own, with a model that tells what it was asked.

Each request is told to `asked` in the folder before it is answered, as the names of its messages.
"""

import os
import sys
import threading
import time
from pathlib import Path

import everlog
from everlog.memory.interface import Answer, Request
from everlog.memory.tree import Tree, questions
from everlog.pump import Worker
from everlog.testing import EchoModel

MODEL = "echo@kill"
CONTEXT_BYTES = 2_000


class Teller:
    """Answers as `EchoModel` does, after a moment."""

    model = MODEL

    def __init__(self, folder: Path, seconds: float) -> None:
        self._asked = os.open(folder / "asked", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._seconds = seconds
        self._echo = EchoModel(MODEL, line_bytes=300)

    def __call__(self, request: Request) -> Answer:
        os.write(self._asked, b".")
        time.sleep(self._seconds)  # as long as a request takes
        return self._echo(request)


def memory(model: object) -> Tree:
    """Return the tree that the worker builds."""
    return Tree(model=MODEL, prompts=questions.prompts(), context_bytes=CONTEXT_BYTES)


def main(folder: Path, address: str, tenant: str) -> None:
    """Work until killed."""
    with everlog.open(address) as opened:
        model = Teller(folder, 0.01)
        worker = Worker(opened.store, [memory(model)], model, tenant=tenant or None, places=2, poll_s=0.05)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        worker.work(threading.Event())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
