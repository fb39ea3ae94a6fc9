"""What `test_pump_interrupts.py` interrupts: a program that goes on after Ctrl-C, and lives as long as it is wanted.

It reads lines of `point thread` and pumps the thread; at the first hit of the point the thread that pumps gets SIGINT,
as it does at Ctrl-C. It answers with what came out of the pump.
"""

import signal
import sys
import threading
from time import monotonic
from types import FrameType

import everlog
from everlog.memory.interface import Answer, Request
from everlog.pump import Options
from everlog.store import failpoints
from everlog.testing import EchoModel

WAIT_S = 30
AGAIN_S = 0.01
ANSWERS_TOO_LONG = 3


class Wordy:
    """Answers as `EchoModel` does, but for its first answers, which are too long."""

    model = "wordy@1"

    def __init__(self) -> None:
        self._echo = EchoModel(self.model)
        self._left = ANSWERS_TOO_LONG

    def __call__(self, request: Request) -> Answer:
        self._left -= 1
        kind = request.source[0].kind
        return Answer(text=f"{kind}: " + "w" * 600, model=self.model) if self._left >= 0 else self._echo(request)


def interrupted(memory: everlog.Everlog, point: str, key: str) -> str:
    """Pump a thread and return the name of what was raised."""
    heard = threading.Event()
    pumping = threading.get_ident()

    def told(number: int, frame: FrameType | None) -> None:
        if not heard.is_set():
            heard.set()
            raise KeyboardInterrupt

    def listener(name: str) -> None:
        if name == point and not heard.is_set():
            until = monotonic() + WAIT_S
            while not heard.wait(AGAIN_S):  # lost on a thread that is just about to wait
                assert monotonic() < until, "the thread that pumps is interrupted while this one is at the point"
                signal.pthread_kill(pumping, signal.SIGINT)

    signal.signal(signal.SIGINT, told)
    failpoints.listen(listener)
    held = point.startswith("pump.release")
    options = Options(before_pass=lambda count: not held)
    try:
        memory.thread(key).pump(Wordy(), options=options)
    except KeyboardInterrupt:
        return "interrupted"
    finally:
        failpoints.listen(None)
    return "ended"


def main(address: str) -> None:
    """Answer until there is nothing more to read."""
    with everlog.open(address) as memory:
        for line in sys.stdin:
            point, key = line.split()
            sys.stdout.write(interrupted(memory, point, key) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
