"""A first look: load the sample conversation, fold it into a view, and zoom from a line down to the words.

    python examples/first_look.py [DATABASE]

Without an argument the database is `harbour.db` in the current folder. Run it again: nothing is stored twice. Nothing is
asked, and nothing leaves this machine.
"""

import shlex
import shutil
import sys
from pathlib import Path

import everlog

SAMPLE = Path(__file__).with_name("harbour.jsonl")
VIEW_BYTES = 4_000
WANTED = 24
"""The message that is looked for: the first of many quarrels about a port."""
WIDTH = 150


def main(database: Path) -> None:
    """Print what Everlog does with one long conversation."""
    with everlog.open(database) as memory:
        for conversation in everlog.read(SAMPLE):
            if isinstance(conversation, everlog.Conversation):
                added = memory.add(conversation)
                print(f"{database}: {added.entries} messages stored, {added.known} were there already\n")
        thread = memory.thread("harbour")
        thread.pump()
        overview = thread.row()
        print(f"{overview.title!r}: {overview.next} messages. All of it in {VIEW_BYTES:,} bytes:\n")
        lines = thread.tree.view_lines(VIEW_BYTES)
        print("\n".join(map(shortened, lines)))
        first, size = holding(lines)
        print(
            f"\n{first}+{size}| is {size} messages from number {first} on, in one line, with who said what. Each line opens"
        )
        print(f"into the two it was made of, down to the words. The way down to message {WANTED}:\n")
        while size > 1:
            print(f"zoom {first}+{size}")
            lines = thread.tree.zoom(first, size).splitlines()
            first, size = holding(lines)
            for line in lines:
                print(shortened(f"{'>' if line.startswith(f'{first}+{size}|') else ' '} {line}"))
        print(f"zoom {first}+{size}\n\n{thread.tree.zoom(first, size)}\n\nsaid {thread.tree.date(first)}")
    print(f"\nTry next:\n  {command()} --db {shlex.quote(str(database))} search harbour 5432")
    print(
        f"  {command()} import FILE    # your own past: an export of ChatGPT or Claude, sessions of Claude Code or Codex"
    )


def holding(lines: list[str]) -> tuple[int, int]:
    """Return the address of the line that covers the wanted message: `16+8|…` is (16, 8)."""
    labels = [line.partition("|")[0].split("+") for line in lines]
    return next((int(first), int(size)) for first, size in labels if int(first) <= WANTED < int(first) + int(size))


def shortened(line: str) -> str:
    """Cut a line to what a terminal shows."""
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 0)).columns)
    return line if len(line) <= width else line[: width - 1] + "…"


def command() -> str:
    """Return how to call the command that was installed beside this Python."""
    beside = Path(sys.executable).with_name("everlog")
    if not beside.exists():
        return "everlog"
    here = Path.cwd()
    return shlex.quote(str(beside.relative_to(here) if beside.is_relative_to(here) else beside))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "harbour.db"))
