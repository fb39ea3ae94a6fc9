"""A summary as text: the outline of seed 002, each section under its heading, empty ones left out.

The same headings are what an answer in Markdown is read by.
"""

from collections.abc import Sequence

from everlog.memory.rolling.outline import GUIDE, Item, Outline, pointed

TITLE = "## Chat Summary"
SECTIONS = (
    "Guide",
    "Main Topics",
    "Decisions & Results",
    "Open Commitments",
    "Uncertainties",
    "Tool Calls",
    "Omitted",
    "Current State",
)
"""Headings, in their order."""


def render(outline: Outline) -> str:
    """Return a summary as it is shown to a reader; nothing at all for an empty one."""
    return _joined(outline, [shown(item) for item in outline.commitments])


def numbered(outline: Outline) -> str:
    """Return a summary as it is shown to the model that goes on with it: commitments by number, to be closed by."""
    said = [
        f"(c{n}) {shown(item)}" if item.closed is None else shown(item) for n, item in enumerate(outline.commitments)
    ]
    return _joined(outline, said)


def shown(item: Item) -> str:
    """Return one item: its words, then the message it comes from."""
    text = item.text if item.source is None else f"{item.text} [#{item.source}]"
    if item.closed is None:
        return text
    by = "" if item.closed_by is None else f" [#{item.closed_by}]"
    return f"closed: {item.closed}{by} — {text}"


def _joined(outline: Outline, commitments: Sequence[str]) -> str:
    guide = [f"{name}: {line}" for name, line in zip(GUIDE, outline.guide, strict=True) if line]
    omitted = [*map(shown, outline.strands), *([pointed(outline.pointers)] if outline.pointers else [])]
    listed: Sequence[Sequence[str]] = (
        guide,
        outline.topics,
        [*map(shown, outline.decisions)],
        commitments,
        [*map(shown, outline.uncertainties)],
        outline.tools,
        omitted,
    )
    blocks = [
        "\n".join((f"### {heading}", *(f"- {line}" for line in lines)))
        for heading, lines in zip(SECTIONS, listed, strict=False)
        if lines
    ]
    if outline.state:
        blocks.append(f"### {SECTIONS[-1]}\n{outline.state}")
    return "\n\n".join((TITLE, *blocks)) if blocks else ""
