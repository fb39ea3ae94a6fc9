"""`import everlog` in a fresh process: what it costs, and that neither a database nor HTTP comes with it."""

import subprocess
import sys
from collections.abc import Sequence

from benchmarks._sheet import Sheet, fill

HEAVY = ("sqlalchemy", "alembic", "sqlite3", "psycopg", "cryptography", "httpx2", "httpx", "aiohttp", "typer", "rich")
ROUNDS = 15

_TIMED = "import sys, time; c = time.process_time(); {what}; print(time.process_time() - c, *sys.modules)"


def measure(sheet: Sheet) -> None:
    """Measure the import, and what the first use adds."""
    rounds = sheet.pick(ROUNDS, 1)
    cpu_ms, modules = _best("import everlog", rounds)
    heavy = sorted(set(HEAVY) & set(modules))
    size = "a fresh process"
    sheet.row("import everlog, CPU", size, "", cpu_ms, "ms", at_most=60)
    sheet.row("import everlog, modules of others", size, "", len(heavy), at_most=0)
    sheet.row(
        "first use: everlog.open, import alone, CPU", size, "", _best("import everlog; everlog.open", rounds)[0], "ms"
    )
    sheet.row("everlog --version, from start to end, CPU", size, "", _cli(rounds), "ms")


def _best(what: str, rounds: int) -> tuple[float, Sequence[str]]:
    """Return the least CPU time in milliseconds that `what` took, and which modules are loaded after it."""
    runs = [_fresh("-c", _TIMED.format(what=what)).split() for _ in range(rounds)]
    return min(float(run[0]) for run in runs) * 1000, runs[0][1:]


def _cli(rounds: int) -> float:
    last = "import resource; u = resource.getrusage(resource.RUSAGE_SELF); print(u.ru_utime + u.ru_stime)"
    code = f"import atexit; atexit.register(lambda: exec({last!r})); from everlog.surfaces.cli import main; main()"
    return min(float(_fresh("-c", code, "--version").split()[-1]) for _ in range(rounds)) * 1000


def _fresh(*arguments: str) -> str:
    return subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    raise SystemExit(fill("startup", measure))
