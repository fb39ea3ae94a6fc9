"""Claude Code's sessions: a JSONL file each, of lines that name their parent.

A line is a message of the wire history or part of one: the blocks of one assistant message are written one by one under
the same message id, and each tool result hangs under the block that asked. Both are put in a row here, so that calls
made at once do not look like branches. Subagents (`isSidechain`) are conversations beside the session. The form is not
documented by its maker; this follows versions 1.0 to 2.1 as users describe them.
"""

from collections.abc import Iterable, Iterator

from everlog.importers.branches import Branch, Node, Tree
from everlog.importers.claude_code_lines import BOOKKEEPING, FORMAT, Line, read_line
from everlog.importers.claude_code_rows import in_rows, roots
from everlog.importers.records import Value
from everlog.importers.report import Malformed, Problem, Tally
from everlog.importers.shapes import Record, record, string
from everlog.importers.source import Source
from everlog.importers.titles import titled
from everlog.messages import JSON, Conversation, Origin

KEY = FORMAT
TALK = frozenset({"user", "assistant"})
TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle"}
SIGNS = BOOKKEEPING | set(TITLES) | {"summary", "system", "attachment"}
IDENTITIES = frozenset({"sessionId", "leafUuid", "messageId", "uuid"})


def knows(value: JSON) -> bool:
    """Whether value is a line of this form."""
    shape = record(value)
    kind = shape.get("type")
    if not isinstance(kind, str):
        return False
    if kind in TALK:
        return isinstance(shape.get("message"), dict) and ("uuid" in shape or "sessionId" in shape)
    return kind in SIGNS and not IDENTITIES.isdisjoint(shape)


def conversations(records: Iterable[Value | Problem], source: Source, tally: Tally) -> Iterator[Conversation | Problem]:
    """Yield the session's newest branch, its other branches as forks, then its subagents' conversations."""
    session = _Session(tally)
    for item in records:
        if isinstance(item, Problem):
            yield item
        elif isinstance(item.value, dict):
            session.add(item.value)
        else:
            yield Problem(where=item.where, reason="it is not an object", position=item.position)
    try:
        yield from session.conversations(source.path.stem)
    except Malformed as error:
        yield Problem(where=source.path.name, reason=str(error), position=0)


class _Session:
    """What the lines of one file add up to."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._lines: dict[str, Line] = {}
        self._titles: dict[str, str] = {}
        self._summaries: dict[str, str] = {}
        self._cwds: dict[str | None, str] = {}

    def add(self, shape: Record) -> None:
        """Take in one line."""
        kind = string(shape.get("type"))
        if kind in TITLES and (title := string(shape.get(TITLES[kind]))):
            self._titles[kind] = title
        elif kind == "summary":
            self._summaries[str(shape.get("leafUuid"))] = string(shape.get("summary")) or ""
        elif line := read_line(shape, self._tally):
            known = self._lines.setdefault(line.name, line)
            if known is not line:
                self._tally.skipped["repeated message"] += 1
            elif cwd := string(shape.get("cwd")):
                self._cwds.setdefault(line.session, cwd)

    def conversations(self, stem: str) -> Iterator[Conversation]:
        """Yield what was said, once all lines are in."""
        lines = in_rows(self._lines)
        beginnings = roots(lines)
        trees: dict[tuple[str | None, str | None], Tree] = {}
        last: dict[tuple[str | None, str | None], str] = {}
        for line in lines:
            root = self._lines[beginnings[line.name]]
            place = root.session, (root.agent or root.name) if root.sidechain else None
            trees.setdefault(place, Tree(self._tally)).add(line.name, Node(parent=line.parent, messages=line.messages))
            last[place] = line.name
        sessions = {session for session, _ in trees}
        renamed = len(sessions) == 1 and any(line.session == stem for line in self._lines.values())
        for (session, agent), tree in sorted(trees.items(), key=lambda item: item[0][1] is not None):
            identity = stem if renamed or session is None else session
            key = f"{KEY}:{identity}" if agent is None else f"{KEY}:{identity}#{agent}"
            origin = Origin(session=identity, cwd=self._cwds.get(session))
            for branch in tree.branches(last[session, agent]):
                yield branch.conversation(key, self._title(branch, main=agent is None), origin, self._tally)
        for leaf in self._summaries:
            if leaf not in self._lines:
                self._tally.skipped["summary of another session"] += 1

    def _title(self, branch: Branch, *, main: bool) -> str | None:
        """Return the title of a branch: as given, else the summary that ends in it, else another one of the session.

        Where there is none, it is what the person said first.
        """
        own = [title for leaf, title in self._summaries.items() if leaf in branch.nodes]
        given = [self._titles[kind] for kind in TITLES if kind in self._titles]
        other = [title for leaf, title in self._summaries.items() if leaf in self._lines]
        found = next(filter(None, [*given, *reversed(own), *reversed(other)] if main else reversed(own)), None)
        return found or titled(branch.messages)
