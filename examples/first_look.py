"""A first look: load the sample conversation, fold it into a view, and zoom from a line down to the words.

    python examples/first_look.py [DATABASE]

Without an argument the database is `harbour.db` in the current folder. Run it again: nothing is stored twice.
"""

import sys
from pathlib import Path

import everlog

SAMPLE = Path(__file__).with_name("harbour.jsonl")
VIEW_BYTES = 4_000
LINE_CHARACTERS = 150


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
        print(shortened(thread.tree.view(VIEW_BYTES)))
        print("\nEach line opens into the two it was made of, down to the words. From the oldest line:\n")
        first, size = opened(thread.tree.view_lines(VIEW_BYTES)[0])
        while size > 1:
            lines = thread.tree.zoom(first, size)
            print(f"zoom({first}, {size})\n{shortened(lines)}\n")
            first, size = opened(lines.splitlines()[1])
        print(f"zoom({first}, 1)\n{thread.tree.zoom(first, 1)}\n")
        print(f"said {thread.tree.date(first)}")
    print(f"\nGo on yourself: .venv/bin/everlog --db {database} view harbour --bytes 2000")


def opened(line: str) -> tuple[int, int]:
    """Return the address at the head of a line: `16+8|…` is (16, 8)."""
    first, _, size = line.partition("|")[0].partition("+")
    return int(first), int(size)


def shortened(text: str) -> str:
    """Cut each line to what a terminal shows."""
    return "\n".join(
        line if len(line) <= LINE_CHARACTERS else line[: LINE_CHARACTERS - 1] + "…" for line in text.splitlines()
    )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "harbour.db"))
