"""Every fenced example of README.md and docs/ runs, in the order of its page, in an empty folder.

The info string says what a block is:

- `python`: run here; the blocks of a page share one namespace. An example proves itself with `assert`.
- `console`: lines that start with `$ ` are commands (a line that ends with a backslash goes on in the next); what stands
  below a command is its output, standard error included, and must be what it prints; `…` stands for anything. The
  `everlog` of README.md's first commands is the installed one; all others are the same program, loaded once (`tests.quick`).
- `sh`: a script without output.
- `text` is not run, and neither are the formats of data in `DATA`. Any other word fails.

A command must succeed, unless its output is given: then the page shows what failure looks like. The `examples` folder of
the project is there, as it is for a reader in a clone. Keys and addresses of providers lead to one that `answering` speaks
for.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from everlog.testing.upstream import Upstream
from tests.docs.answering import answer
from tests.quick import serving

ROOT = Path(__file__).parents[2]
PAGES = [path for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if path.exists()]
DATA = {"text", "json", "jsonl", "toml", "yaml", "sql", "mermaid"}
FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<info>[^`\n]*)\n(?P<body>.*?)^ *(?P=fence) *$", re.MULTILINE | re.DOTALL
)
COMMAND = re.compile(r"^\$ (?P<command>(?:.*\\\n)*.*)\n?(?P<output>(?:(?!\$ ).*\n?)*)", re.MULTILINE)
TIMEOUT_S = 60
INSTALLED = Path(sys.executable).parent
SHELL = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "PYTHONWARNINGS": "error"}
"""What the shell of an example has in its environment, besides ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced example."""

    page: Path
    line: int
    info: str
    body: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    found = []
    for match in FENCE.finditer(text):
        indent = len(match["indent"])
        body = "".join(line[indent:] if line.strip() else line for line in match["body"].splitlines(keepends=True))
        line = text.count("\n", 0, match.start()) + 2
        found.append(Block(page=page, line=line, info=match["info"].strip(), body=body))
    return found


def run(block: Block, namespace: dict[str, Any], programs: Path = INSTALLED) -> None:
    """Run a block; `programs` is the folder where its shell looks first."""
    match block.info:
        case "python":
            source = "\n" * (block.line - 1) + block.body
            exec(compile(source, str(block.page), "exec"), namespace)
        case "sh":
            status, printed = shell(f"set -e\n{block.body}", programs)
            assert status == 0, f"{block}: ended with {status} and printed\n{printed}"
        case "console":
            assert block.body.startswith("$ "), f"{block}: a console block starts with a command"
            for match in COMMAND.finditer(block.body):
                check(f"{block}: {match['command']}", *shell(match["command"], programs), expected=match["output"])
        case info:
            assert info in DATA, f"{block}: no rule for a block of {info!r}"


def shell(script: str, programs: Path) -> tuple[int, str]:
    search = os.pathsep.join(map(str, [programs, INSTALLED, os.environ["PATH"]]))
    finished = subprocess.run(
        ["/bin/sh", "-c", script],
        env=os.environ | SHELL | {"PATH": search},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TIMEOUT_S,
        text=True,
        check=False,
    )
    return finished.returncode, finished.stdout


def check(where: str, status: int, printed: str, *, expected: str) -> None:
    if not tidy(expected):
        assert status == 0, f"{where} ended with {status} and printed\n{printed}"
        return
    pattern = re.escape(tidy(expected)).replace("…", ".*")
    assert re.fullmatch(pattern, tidy(printed), re.DOTALL), f"{where} printed\n{printed}\nbut the page says\n{expected}"


def tidy(output: str) -> str:
    return "\n".join(line.rstrip() for line in output.strip("\n").splitlines())


@pytest.fixture(scope="module")
def loaded() -> Iterator[Path]:
    """Return the folder of an `everlog` that is loaded already."""
    with serving(os.environ | SHELL) as quick:
        yield quick.program.parent


@pytest.mark.timeout(360)  # a guide runs many commands, each with a limit of its own
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_example_of_the_page_runs(page: Path, tmp_path: Path, loaded: Path, monkeypatch: pytest.MonkeyPatch):
    if (ROOT / "examples").exists():
        shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with Upstream(answer) as upstream:
        for provider in ("OPENAI", "ANTHROPIC"):
            monkeypatch.setenv(f"{provider}_API_KEY", "key-of-the-test")
            monkeypatch.setenv(f"{provider}_BASE_URL", upstream.url)
        programs = INSTALLED if page.name == "README.md" else loaded
        for block in blocks(page):
            run(block, namespace, programs)
            programs = loaded if block.info == "console" else programs


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("$ echo one two\none three\n", "the page says"),
        ("$ false\n", "ended with 1"),
        ("$ echo a\n$ echo b\nb\nc\n", "the page says"),
        ("echo a\n", "starts with a command"),
    ],
)
def test_an_example_that_is_not_true_fails(body: str, complaint: str):
    with pytest.raises(AssertionError, match=complaint):
        run(Block(page=Path("page.md"), line=1, info="console", body=body), {})


@pytest.mark.parametrize(
    "body",
    [
        "$ echo one two\none …\n",
        "$ echo a \\\n  b\na b\n\n$ true\n",
        "$ printf '1\\n2\\n3\\n'\n1\n…\n3\n",
        "$ ls nowhere\nls: …\n",
    ],
)
def test_an_example_that_is_true_passes(body: str):
    run(Block(page=Path("page.md"), line=1, info="console", body=body), {})


def test_a_block_of_an_unknown_kind_fails():
    with pytest.raises(AssertionError, match="no rule for a block of 'python no-run'"):
        run(Block(page=Path("page.md"), line=1, info="python no-run", body=""), {})


def test_blocks_of_a_page_keep_their_lines_and_lose_their_indent(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("# T\n\n```python\nx = 1\n```\n\n- a\n\n  ```sh\n  true\n\n  ```\n")
    assert [(block.line, block.info, block.body) for block in blocks(page)] == [
        (4, "python", "x = 1\n"),
        (10, "sh", "true\n\n"),
    ]
