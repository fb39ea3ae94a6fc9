"""Rules of the source that no other tool checks; import-linter (pyproject.toml) holds the layers."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import everlog
import everlog.pump

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "everlog"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

PUBLIC = sorted(
    [
        "Added",
        "Appended",
        "AsyncChat",
        "AsyncMemory",
        "Attempt",
        "BadImport",
        "BadReply",
        "BadRequest",
        "BudgetTooSmall",
        "Busy",
        "Call",
        "Cancelled",
        "Chat",
        "ChatConfig",
        "ChatMessage",
        "Chunk",
        "Clock",
        "Conflict",
        "ConnectionFailed",
        "ContextTooLong",
        "Conversation",
        "Cost",
        "Costs",
        "Damaged",
        "Entry",
        "Erased",
        "Everlog",
        "EverlogError",
        "Fallback",
        "Forbidden",
        "KeyProvider",
        "KeyTrouble",
        "MasterKeys",
        "Media",
        "Memory",
        "MemoryStatus",
        "Message",
        "MissingCredentials",
        "Mistake",
        "NeverSent",
        "NewTurn",
        "Origin",
        "Overloaded",
        "Overview",
        "PartTooLarge",
        "PaymentRequired",
        "PendingCalls",
        "Problem",
        "ProtocolError",
        "ProviderFailed",
        "ProviderTimeout",
        "ProviderTrouble",
        "ProviderUnavailable",
        "PumpTimeout",
        "RateLimited",
        "Reading",
        "Receipt",
        "Redactor",
        "Result",
        "Retry",
        "SchemaMismatch",
        "SpendCapReached",
        "Spent",
        "Stats",
        "StoreUnavailable",
        "SystemClock",
        "Thread",
        "Timeouts",
        "Tool",
        "ToolCall",
        "Tree",
        "Trouble",
        "TurnState",
        "Unauthorized",
        "Unknown",
        "UnknownAddress",
        "UnknownModel",
        "UnknownThread",
        "UnsupportedAttachment",
        "Usage",
        "__version__",
        "attach",
        "attachment",
        "open",
        "read",
        "tool",
    ]
)
"""All that `everlog` exports: an addition here is a decision about the interface."""

FORBIDDEN_NAMES = {"base", "common", "core", "helper", "helpers", "manager", "managers", "types", "util", "utils"}
HEAVY = {"aiohttp", "alembic", "cryptography", "httpx", "httpx2", "rich", "sqlalchemy", "typer", "uvicorn", "yaml"}
BASE_IMPORTS = {"alembic", "cryptography", "httpx2", "rich", "sqlalchemy", "typer"}
MODULE_LINES = 500
FUNCTION_LINES = 60

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def modules() -> dict[str, ast.Module]:
    return {
        str(path.relative_to(SOURCE)): ast.parse(path.read_bytes(), filename=str(path))
        for path in sorted(SOURCE.rglob("*.py"))
    }


def functions() -> Iterator[tuple[str, Function]]:
    for module, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, Function):
                yield module, node


def test_the_public_names_are_the_pinned_ones():
    assert sorted(everlog.__all__) == PUBLIC
    assert [name for name in PUBLIC if not hasattr(everlog, name)] == []


def test_what_a_program_imports_to_pump_with_a_model_is_where_the_documentation_says():
    """Not among the names of `everlog` itself, where `Result` is a tool's and options could be anything's."""
    assert set(everlog.pump.__all__) == {
        *("Hold", "Options", "Progress", "Ran", "Result", "Worked", "Worker", "run", "compactor_of"),
        *("Calls", "LeaseLost", "mark", "mark_rolling", "mark_tree", "waiting"),
    }


def test_no_module_has_a_name_that_says_nothing():
    named = {part.removesuffix(".py").strip("_") for module in modules() for part in module.split("/")}
    assert named & FORBIDDEN_NAMES == set()


def test_modules_and_functions_are_short_enough_to_read():
    """A migration is a list of tables and may be long."""
    long_modules = {
        module: lines
        for module in modules()
        if (lines := len((SOURCE / module).read_text("utf-8").splitlines())) > MODULE_LINES
    }
    long_functions = {
        f"{module}:{node.lineno} {node.name}": lines
        for module, node in functions()
        if "migrations/" not in module and (lines := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES
    }
    assert (long_modules, long_functions) == ({}, {})


def test_only_optional_extras_are_imported_inside_functions():
    """Ruff asks for a reason at each such import (PLC0415); this checks that the reason is true."""
    required = {*BASE_IMPORTS, *sys.stdlib_module_names, "everlog"}
    unlawful = []
    for module, function in functions():
        lines = (SOURCE / module).read_text("utf-8").splitlines()
        for node in ast.walk(function):
            if isinstance(node, ast.Import | ast.ImportFrom):
                named = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
                roots = {name.split(".")[0] for name in named}
                if roots & required or not lines[node.lineno - 1].endswith("# noqa: PLC0415 -- an optional extra"):
                    unlawful.append(f"{module}:{node.lineno} {ast.unparse(node)}")
    assert unlawful == []


def test_dataclasses_are_frozen_and_slotted_and_public_ones_keyword_only():
    """A name that starts with an underscore may hold state."""
    loose = []
    for module, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                public = node.name in everlog.__all__ or module.startswith(("testing/", "contrib/"))
                wanted = {"frozen=True", "slots=True", "kw_only=True"} if public else {"frozen=True", "slots=True"}
                decorators = [one for one in node.decorator_list if "dataclass" in ast.unparse(one)]
                loose += [f"{module} {node.name}" for one in decorators if not wanted <= options(one)]
    assert loose == []


def options(decorator: ast.expr) -> set[str]:
    return {f"{word.arg}={ast.unparse(word.value)}" for word in getattr(decorator, "keywords", [])}


def test_importing_everlog_loads_nothing_heavy():
    program = f"import sys, everlog; print(*sorted({HEAVY!r} & {{name.split('.')[0] for name in sys.modules}}))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []


def test_the_lock_pins_every_requirement_by_hash_and_names_no_host():
    lock = (ROOT / "requirements" / "lock.txt").read_text()
    blocks = re.findall(r"^([a-z0-9.-]+)(?:\[[a-z,]+\])?==((?:.+\\\n)+.+)$", lock, flags=re.MULTILINE)
    assert [name for name, rest in blocks if "--hash=sha256:" not in rest] == []
    project = PROJECT["project"]
    asked = [*PROJECT["build-system"]["requires"], *project["dependencies"]]
    for group in [*project["optional-dependencies"].values(), *PROJECT["dependency-groups"].values()]:
        asked += group
    names = {re.split(r"[\[<>=~! ]", requirement)[0].lower().replace("_", "-") for requirement in asked}
    assert names - {name for name, _ in blocks} == set()
    assert "://" not in lock


def test_nothing_names_a_place_on_somebodys_machine():
    """People in samples may live under /home/ada; the folders of those who run or wrote this do not occur."""
    places = {str(ROOT), str(Path.home()), "/" + "work/main", "/" + "work/shared"} - {"/"}
    pattern = re.compile(rb"(?<![\w./-])(" + "|".join(map(re.escape, sorted(places))).encode() + rb")(?![\w-])")
    git = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    named = [
        f"{name} names {match[0].decode()}"
        for name in listed.rstrip("\0").split("\0")
        if (ROOT / name).is_file() and (match := pattern.search((ROOT / name).read_bytes()))
    ]
    assert named == []
