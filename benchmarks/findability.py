"""Whether a reader that knows only a question finds what answers it, going down from a view by words alone.

The questions are LoCoMo's, each with the messages that hold its evidence; `EVERLOG_DATA` names the folder with the file
(`locomo/*.json`). The reader sees a view of 8,000 bytes. Of all lines shown to it so far it opens the one that shares
the most with the question, each word counted by how rare it is among those lines: it uses nothing it was not shown. It
opens at most 40. The evidence is opened when each of its messages was shown alone and whole.

`Extractive` is compared with lines that are the first 512 bytes of what they stand for. The intervals are of 2,000
samples of questions, the same ones for both; a second bound draws whole conversations.

A model's lines are measured on the same questions if one is named as for `everlog worker`: by `EVERLOG_COMPACTOR`, as a model
or as `module:name`, or in the file that `EVERLOG_CONFIG` names, which also says where its server is. `EVERLOG_MESSAGES` takes only so many messages of the first conversation of each file,
and the questions whose evidence they hold, since a model may take its time.
"""

import json
import math
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import everlog
from benchmarks._sheet import Sheet, fill, percentile
from benchmarks._stock import folder, opened
from everlog import Conversation, Thread
from everlog.memory.interface import Answer, Compactor, Request
from everlog.memory.tree import Extractive
from everlog.memory.tree.clauses import GAP
from everlog.memory.tree.lines import LIMIT_BYTES, tag_of
from everlog.memory.tree.nodes import children_of, label_of, level_of, parse_label, start_of
from everlog.messages import JSON
from everlog.pump.compactors import EXTRACTIVE
from everlog.surfaces import config, models
from everlog.surfaces.cli.compactors import is_model, named
from everlog.tokens import cut, size_bytes

BUDGET_BYTES = 8_000
ZOOMS = 40
SAMPLES = 2_000
RATIO = 1.3
"""How many times the share of cut-off lines `Extractive` must reach."""

_EVIDENCE = re.compile(r"D\d+:\d+")
_WORD = re.compile(r"[^\W_]+")


class CutOff:
    """Answers with the beginning of the source, and a mark where it was cut."""

    model = "cut-off@1"

    def __call__(self, request: Request) -> Answer:
        pieces: list[JSON] = []
        said: list[str] = []
        room = LIMIT_BYTES
        for message in request.source:
            tag = tag_of(message.kind, message.author)
            room -= size_bytes(f"{tag}: ")
            if room <= size_bytes(GAP):
                break
            fits = size_bytes(message.text) <= room
            words = message.text if fits else cut(message.text, room - size_bytes(GAP)) + GAP
            room -= size_bytes(f"{words}\n")
            pieces.append([tag, words])
            said.append(f"{tag}: {words}")
        return Answer(text="\n".join(said), arguments={"pieces": pieces}, model=self.model)


@dataclass(frozen=True, slots=True)
class Question:
    """A question of one conversation and the positions of the messages that answer it."""

    conversation: str
    text: str
    evidence: frozenset[int]


@dataclass(slots=True)
class Reader:
    """Goes down the tree of one thread for one question."""

    words: frozenset[str]
    zoom: Callable[[int], Sequence[tuple[int, str]]]
    """Gives the lines that a line opens to."""
    frontier: dict[int, frozenset[str]] = field(default_factory=dict)
    """Lines shown and not opened yet, with those words of the question that they have."""
    found: set[int] = field(default_factory=set)
    """Messages shown alone and whole."""
    _lines_with: Counter[str] = field(default_factory=Counter)
    _shown: int = 0

    def walk(self, view: Sequence[tuple[int, str]], zooms: int) -> set[int]:
        """Return the messages that are found from a view with so many zooms."""
        self._see(view)
        while zooms and self.frontier:
            zooms -= 1
            best = max(self.frontier, key=self._promise)
            del self.frontier[best]
            if level_of(best):
                self._see(self.zoom(best))
            else:
                self.found.add(start_of(best))
        return self.found

    def _see(self, lines: Sequence[tuple[int, str]]) -> None:
        for nid, text in lines:
            shared = self.words & words_of(text)
            self._shown += 1
            self._lines_with.update(shared)
            if level_of(nid) or GAP in text:
                self.frontier[nid] = shared
            else:
                self.found.add(start_of(nid))

    def _promise(self, nid: int) -> tuple[float, int, int]:
        """Rank a line: by the words it shares, then the one nearer to a message, then the later."""
        rarity = math.fsum(math.log((self._shown + 1) / self._lines_with[word]) for word in self.frontier[nid])
        return rarity, -level_of(nid), nid


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text in lower case."""
    return frozenset(_WORD.findall(text.lower()))


def measure(sheet: Sheet) -> None:
    """Measure both kinds of lines on the same questions, and the ratio of their shares."""
    place = os.environ.get("EVERLOG_DATA")
    files = sorted(Path(place).glob("locomo/locomo*.json")) if place else []
    if not files:
        sheet.row("evidence opened", "LoCoMo", "", "no data: EVERLOG_DATA")
        return
    kinds: dict[str, Compactor] = {"Extractive": Extractive(), "cut-off lines": CutOff()}
    chosen = models.compactor_settings(config.settings())
    if chosen.name != EXTRACTIVE:
        options = chosen.options if is_model(chosen.name) else {}
        kinds[chosen.name] = named(chosen.name, options=options, required_protocol=chosen.required_protocol)
    results = {
        name: [one for file in files for one in _opened(file, compactor, sheet)] for name, compactor in kinds.items()
    }
    asked = [question for question, _ in results["Extractive"]]
    hits = {name: [hit for _, hit in found] for name, found in results.items()}
    extractive, other = hits["Extractive"], hits["cut-off lines"]
    size = f"{len(asked):,} questions"
    for name, found in hits.items():
        sheet.row(f"evidence opened, {ZOOMS} zooms", size, name, 100 * sum(found) / len(found), "%")
    sheet.row("ratio of the two", size, "Extractive : cut-off", sum(extractive) / max(1, sum(other)), at_least=RATIO)
    for unit, groups in (("questions", list(range(len(asked)))), ("conversations", [q.conversation for q in asked])):
        low, high = _interval(extractive, other, groups)
        sheet.row(f"ratio, 2.5 % of samples of {unit}", size, "Extractive : cut-off", low, at_least=1.0)
        sheet.row(f"ratio, 97.5 % of samples of {unit}", size, "Extractive : cut-off", high)


def _opened(file: Path, compactor: Compactor, sheet: Sheet) -> list[tuple[Question, bool]]:
    """Return for each question of a file whether its evidence is opened."""
    shapes = json.loads(file.read_text("utf-8"))
    shapes = shapes if isinstance(shapes, list) else [shapes]
    asked = {f"locomo:{shape['sample_id']}": shape["qa"] for shape in shapes}
    few = int(os.environ.get("EVERLOG_MESSAGES", "0"))
    results = []
    with folder() as place, opened(place / "everlog.db") as memory, everlog.read(file) as reading:
        for talk in reading:
            assert isinstance(talk, Conversation), "the file is without fault"
            memory.add(replace(talk, messages=talk.messages[:few]) if few else talk)
            thread = memory.thread(talk.key)
            thread.pump(compactor)
            questions = _questions(talk, asked[talk.key])
            results += _answered(thread, [one for one in questions if not few or max(one.evidence) < few])
            if sheet.quick or few:
                break
    return results


def _questions(talk: Conversation, asked: Sequence[dict[str, object]]) -> list[Question]:
    """Return the questions whose evidence is in the talk; a few name messages that are not there."""
    places = {message.id: i for i, message in enumerate(talk.messages)}
    found = []
    for one in asked:
        named = {name for text in one["evidence"] for name in _EVIDENCE.findall(text)}  # type: ignore[attr-defined]
        evidence = frozenset(places[name] for name in named if name in places)
        if evidence:
            found.append(Question(talk.key, str(one["question"]), evidence))
    return found


def _answered(thread: Thread, asked: Sequence[Question]) -> list[tuple[Question, bool]]:
    view = thread.tree.shown(BUDGET_BYTES).lines
    known: dict[int, Sequence[tuple[int, str]]] = {}

    def zoom(nid: int) -> Sequence[tuple[int, str]]:
        if nid not in known:
            first, _, size = label_of(nid).partition("+")
            known[nid] = list(_lines(thread.tree.zoom(int(first), int(size)), nid))
        return known[nid]

    return [(one, one.evidence <= Reader(words_of(one.text), zoom).walk(view, ZOOMS)) for one in asked]


def _lines(text: str, nid: int) -> list[tuple[int, str]]:
    """Return the two lines that a line opens to, as (node, text)."""
    rows = [row.partition("|") for row in text.split("\n")]
    lines = [(child, said) for label, _, said in rows if (child := parse_label(label)) is not None]
    assert [child for child, _ in lines] == list(children_of(nid)), "a line opens to its halves"
    return lines


def _interval(ours: Sequence[bool], theirs: Sequence[bool], groups: Sequence[object]) -> tuple[float, float]:
    """Return the bounds of 95 % of the ratios over samples of groups, drawn with replacement from a fixed seed."""
    draw = random.Random(7)
    totals: dict[object, tuple[int, int]] = {}
    for group, one, other in zip(groups, ours, theirs, strict=True):
        before = totals.get(group, (0, 0))
        totals[group] = before[0] + one, before[1] + other
    pairs = list(totals.values())
    ratios = []
    for _ in range(SAMPLES):
        sample = draw.choices(pairs, k=len(pairs))
        ratios.append(sum(one for one, _ in sample) / max(1, sum(other for _, other in sample)))
    return percentile(ratios, 0.025), percentile(ratios, 0.975)


if __name__ == "__main__":
    raise SystemExit(fill("findability", measure))
