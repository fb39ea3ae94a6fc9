"""The proxy as a process of its own, which is killed and started again on the same port and database; what it takes is watched."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.cli import ENVIRONMENT, PROGRAM
from tests.acceptance.proxies import UPSTREAM

START_S = 60
STOP_S = 60
SETTINGS = """\
upstream:
  base_url: {upstream}
  timeout_seconds: 4
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a process takes at one moment."""

    life: int
    rss_mb: float
    files: int


class Server:
    """`everlog serve`, in several lives."""

    def __init__(self, home: Path, upstream: str) -> None:
        """Begin; nothing runs yet."""
        self.home = home
        self.life = 0
        """How often it was killed."""
        self.is_up = False
        self.samples: list[Sample] = []
        self.copies: list[Path] = []
        """The database as each kill left it."""
        self._settings = home / "everlog.yaml"
        self._settings.write_text(SETTINGS.format(upstream=upstream))
        self._errors = home / "errors.txt"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._process: Any = None

    @property
    def url(self) -> str:
        """Its address, without /v1."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def said(self) -> str:
        """What it wrote to standard error, but for what its upstream did."""
        return "\n".join(line for line in self._errors.read_text().splitlines() if UPSTREAM not in line)

    async def start(self) -> None:
        """Start it, and wait until it takes requests."""
        with self._errors.open("ab") as errors:
            self._process = await asyncio.to_thread(
                subprocess.Popen,
                [*PROGRAM, "serve", "--port", str(self._port), "--json", "--mode", "record"],
                cwd=self.home,
                env=ENVIRONMENT | {"EVERLOG_CONFIG": str(self._settings), "EVERLOG_LOG_LEVEL": "warning"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        told = await asyncio.wait_for(asyncio.to_thread(self._process.stdout.readline), START_S)
        assert json.loads(told or "{}"), self.said
        self.is_up = True

    async def kill(self) -> None:
        """Kill it, and keep a copy of what it leaves."""
        self.life += 1
        self.is_up = False
        self._process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(self._ended)
        copy = self.home / f"killed-{self.life}"
        copy.mkdir()
        for file in self.home.glob("everlog.db*"):
            await asyncio.to_thread(shutil.copy, file, copy)
        self.copies.append(copy / "everlog.db")

    async def stop(self) -> int:
        """Tell it to stop; return its exit code."""
        self.is_up = False
        self._process.terminate()
        return await asyncio.to_thread(self._ended)

    def end(self) -> None:
        """Make sure that it does not go on."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._ended()

    def _ended(self) -> int:
        """Wait for its end; return its exit code."""
        self._process.stdout.close()
        return int(self._process.wait(STOP_S))

    def sample(self) -> Sample | None:
        """Look at what it takes; None while it does not run."""
        if not self.is_up:
            return None
        place = Path(f"/proc/{self._process.pid}")
        pages = int((place / "statm").read_text().split()[1])
        found = Sample(self.life, pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len(os.listdir(place / "fd")))  # noqa: PTH208 -- it is counted every second
        self.samples.append(found)
        return found
