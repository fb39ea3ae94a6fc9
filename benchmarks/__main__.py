"""Runs each benchmark in a process of its own and puts their rows under one heading."""

import argparse
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

from benchmarks._sheet import HEADING

NAMES = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))


def main() -> int:
    """Return 1 if a benchmark missed a bound or failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {' '.join(NAMES)}; all if none is given")
    parser.add_argument("--quick", action="store_true", help="the short forms, which judge nothing")
    chosen = parser.parse_args()
    unknown = set(chosen.names) - set(NAMES)
    if unknown:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    began = time.monotonic()
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; run one of them: ", end=""
    )
    print(f"python -m benchmarks NAME\n\n{HEADING}", flush=True)
    options = ["--no-heading", *(["--quick"] if chosen.quick else [])]
    failed = [name for name in chosen.names or NAMES if subprocess.call([*_command(name), *options])]
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    print(
        f"\n{minutes} min {seconds} s; " + (f"missed or failed: {', '.join(failed)}" if failed else "all within bounds")
    )
    return 1 if failed else 0


def _command(name: str) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.{name}"]


if __name__ == "__main__":
    raise SystemExit(main())
