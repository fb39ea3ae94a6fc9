"""Each trap of `tests/corpus/alignment`, replayed: what a session sends, step by step, and what is decided.

A file is a story. A step sends a history and states the decision: the `thread` and what becomes of it, or that it is
`new` (the number it gets). `fork` and a regenerated `nothing` name the thread they make by `as`. `answer` is what the
assistant then says. `named` is whether the request names its session; `side` holds replies to side requests seen so far.
`{"of": t, "from": a, "to": b}` repeats messages of a thread as they were logged. `entries` counts each thread at the end.
"""

import base64
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, assert_never

import pytest

from everlog.log.align import Append, Compacted, Decision, Fork, Nothing, Sibling, align, best
from everlog.log.fingerprints import leading, prints, quoted
from everlog.messages import KINDS, Call, Media, Message, Result

CORPUS = sorted((Path(__file__).parents[2] / "corpus" / "alignment").glob("*.json"))
SECRET = b"the corpus of alignment, a key.."


@dataclass
class Session:
    """The threads of a session, carried on the way a caller of `align` would."""

    blocks: list[tuple[str, str]]
    threads: list[list[Message]] = field(default_factory=list)
    erased: dict[int, set[int]] = field(default_factory=dict)
    side: list[str] = field(default_factory=list)

    def decide(self, history: list[Message], named: bool) -> tuple[int, Decision] | None:
        incoming = prints(SECRET, history, blocks=self.blocks)
        newest_first = reversed(range(len(self.threads)))
        return best([(n, self._aligned(n, history, incoming)) for n in newest_first], named=named)

    def _aligned(self, n: int, history: list[Message], incoming) -> Decision:
        log = prints(SECRET, self.threads[n], self.erased.get(n, set()), blocks=self.blocks)
        decision = align(log, incoming)
        if isinstance(decision, Fork | Sibling) or not decision.shown.whole:
            replies = [m.text for m in self.threads[n] if m.kind == "assistant"]
            quote = quoted([m.text for m in history], [*replies, *self.side])
            return decision if quote is None else align(log, incoming, quoted=quote)
        return decision

    def carry_out(self, found: tuple[int, Decision] | None, history: list[Message], answer: list[Message]) -> int:
        """Do what was decided, take the answer in, and return the thread that it is in."""
        if found is None:
            return self._begin([*history, *answer])
        n, decision = found
        thread = self.threads[n]
        match decision:
            case Append(start=start):
                thread += history[start:]
            case Fork(at=at, start=start):
                n = self._begin(thread[:at] + history[start:])
            case Nothing(at=at):
                if at < len(thread) and answer:
                    n = self._begin(thread[:at])
            case Compacted(note=note, start=start):
                thread += [replace(history[note], kind="note", author="client"), *history[start:]]
            case Sibling():
                raise AssertionError("best chooses no sibling")
            case _:
                assert_never(decision)
        self.threads[n] += answer
        return n

    def _begin(self, messages: list[Message]) -> int:
        self.threads.append(messages)
        return len(self.threads) - 1

    def messages(self, forms: list[Any]) -> list[Message]:
        found: list[Message] = []
        for form in forms:
            if isinstance(form, dict) and "of" in form:
                found += self.threads[form["of"]][form["from"] : form["to"]]
            else:
                found.append(message(form))
        return found


def message(form: Any) -> Message:
    if isinstance(form, str):
        said, text = form.split(": ", 1)
        return Message(kind=next(kind for kind in KINDS if kind == said), text=text)
    if "call" in form:
        return Message(
            kind="tool_call", parts=(Call(call_id=form["call"], name=form["name"], arguments=form["arguments"]),)
        )
    if "result" in form:
        return Message(kind="tool_result", text=form["text"], parts=(Result(call_id=form["result"]),))
    text = form["user"] if isinstance(form["user"], str) else "\n".join(form["user"])
    image = base64.b64decode(form["image"]) if "image" in form else None
    return Message(kind="user", text=text, parts=(Media(media_type="image/jpeg", content=image),) if image else ())


def stated(found: tuple[int, Decision] | None, made: int) -> dict[str, int]:
    """Return a decision in the words of the corpus; `made` is the thread that took the history in."""
    if found is None:
        return {"new": made}
    n, decision = found
    other = {} if made == n else {"as": made}
    match decision:
        case Append(start=start):
            return {"thread": n, "append": start}
        case Fork(at=at, start=start):
            return {"thread": n, "fork": at, "start": start, **other}
        case Nothing(at=at):
            return {"thread": n, "nothing": at, **other}
        case Compacted(note=note, start=start):
            return {"thread": n, "compacted": note, "start": start}
        case Sibling():
            raise AssertionError("best chooses no sibling")
        case _:
            assert_never(decision)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_each_step_of_a_trap_is_decided_as_stated(path):
    story = json.loads(path.read_text("utf-8"))
    session = Session([(start, end) for start, end in story.get("blocks", [])])
    for number, step in enumerate(story["steps"]):
        if "erase" in step:
            thread, positions = step["erase"]
            session.erased.setdefault(thread, set()).update(positions)
            continue
        session.side += step.get("side", [])
        _, history = leading(session.messages(step["send"]))
        found = session.decide(list(history), step.get("named", True))
        made = session.carry_out(found, list(history), session.messages(step.get("answer", [])))
        assert stated(found, made) == step["expect"], f"step {number} of {story['title']}"
    assert [len(thread) for thread in session.threads] == story["entries"]


def test_the_corpus_holds_every_trap_of_the_specification():
    assert {path.stem for path in CORPUS} >= {
        "same-first-word-in-two-windows",
        "retry-of-the-identical-request",
        "regenerate-twice-then-continue-the-first",
        "edit-of-message-3-of-40",
        "trim-to-the-last-10",
        "summary-in-front-and-last-4",
        "summary-alone",
        "two-subagents-at-once",
        "images-as-other-jpeg-bytes",
        "arguments-in-other-key-order",
        "string-or-parts",
        "trailing-space-lost",
        "client-echoes-our-block",
        "stranger-sends-the-last-two",
    }
