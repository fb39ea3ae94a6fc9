"""A proxy as people run it: `everlog serve` in a process of its own, before upstreams that a test plays.

It stands before a provider that tests script (`Stage`), or before a server of bytes; both stay for the whole session, so
that a proxy has to be started once.
"""

import json
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from everlog.testing.upstream import Answer, Manner, Received, Refused, Upstream
from everlog.testing.upstream.server import Script
from everlog.testing.upstream.streams import PLAIN
from tests.acceptance.cli import PROGRAM, Done, finish, start

UPSTREAM = " warning no whole answer "
"""What is said of an upstream that failed: tests have theirs fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A proxy that runs."""

    url: str
    """Its address, without /v1."""
    process: Any

    def stop(self, number: int = signal.SIGTERM) -> Done:
        """Tell it to stop, and return how it ended."""
        self.process.send_signal(number)
        return finish(self.process)


@contextmanager
def serving(
    upstream: str,
    home: Path,
    *options: str,
    mode: str = "off",
    program: Sequence[str | Path] = PROGRAM,
    **environment: str,
) -> Iterator[Proxy]:
    """Run `everlog serve` while the block runs; it must end well, and say nothing but that an upstream gave no answer."""
    given = ("--upstream", upstream, "--port", 0, "--json", "--mode", mode, *options)
    told = {"EVERLOG_LOG_LEVEL": "warning"} | environment
    process = start("serve", *given, home=home, environment=told, program=program)
    try:
        ready = json.loads(process.stdout.readline() or "{}")
        assert ready, finish(process)
        yield Proxy(url=ready["base_url"].removesuffix("/v1"), process=process)
        if process.returncode is None:
            process.terminate()
            done = finish(process)
            said = [line for line in done.err.splitlines() if UPSTREAM not in line]
            assert (done.status, said) == (0, []), done
    finally:
        if process.returncode is None:
            process.kill()
            finish(process)


def small(home: Path, budget_tokens: int = 1_000) -> dict[str, str]:
    """Return the environment of a proxy whose memory may take so little, as a file of settings says."""
    settings = home / "small.yaml"
    settings.write_text(f"memory:\n  budget_tokens: {budget_tokens}\n")
    return {"EVERLOG_CONFIG": str(settings)}


class Stage:
    """A provider whose script each test gives anew."""

    def __init__(self) -> None:
        self._script: Any = iter(())
        self.upstream = Upstream(self._next)

    def play(self, script: Script, manner: Manner = PLAIN) -> Upstream:
        """Begin a new script, in this manner; nothing of what was before is remembered."""
        self._script = script if callable(script) else iter(script)
        self.upstream.requests.clear()
        self.upstream.gone = 0
        self.upstream._manner = manner
        return self.upstream

    def _next(self, received: Received) -> Any:
        if callable(self._script):
            return self._script(received)
        return next(self._script, Refused(message="The script is over."))


def answers(*texts: str) -> Iterable[Answer]:
    """Return answers that say these texts."""
    return [Answer(text=text) for text in texts]
