"""A model for the rolling summary that needs no network: it answers from what it was asked.

EchoSummary()(request)              # an answer by schema, from the messages that the request shows
EchoSummary(form="markdown")        # the same as Markdown
ScriptedModel(["", None], otherwise=EchoSummary())
"""

import re
from hashlib import sha256
from typing import Literal

from everlog.memory.interface import Answer, Request
from everlog.messages import JSON
from everlog.tokens import utf8

_SHOWN = re.compile(r"^\[#(\d+) [^\]\n]*\] ?(.*)$", re.MULTILINE)
_OPEN = re.compile(r"\(c(\d+)\)")


class EchoSummary:
    """A compactor whose answer is a function of the whole request: what comes first is decided, what comes last is promised.

    An open commitment that it is shown it closes, so each is open for one piece.
    """

    def __init__(
        self, model: str = "summary@1", *, form: Literal["json", "markdown"] = "json", item_chars: int = 60
    ) -> None:
        """Answer as `model`, with items of about `item_chars` characters."""
        self.model = model
        self._form = form
        self._item_chars = item_chars

    def __call__(self, request: Request) -> Answer:
        """Return additions to the summary."""
        hashed = sha256(b"\0".join(utf8(message.text) for message in request.messages)).hexdigest()[:12]
        asked = next(message.text for message in reversed(request.messages) if _SHOWN.search(message.text))
        shown = _SHOWN.findall(asked)
        before = request.messages[1].text if len(request.messages) > 1 else ""
        first, last = (self._item(shown[n][0], shown[n][1], hashed) for n in (0, -1))
        closed: list[JSON] = [
            {"commitment": int(n), "reason": f"done {hashed}", "source": int(shown[-1][0])}
            for n in _OPEN.findall(before)
        ]
        value: dict[str, JSON] = {
            "guide": {
                "topic_horizon": "echoes",
                "last_completed": f"up to {shown[-1][0]}",
                "current_task": hashed,
                "next_steps": "",
            },
            "main_topics": [f"topic {hashed}"],
            "decisions": [first],
            "commitments": [last],
            "closed": closed,
            "uncertainties": [],
            "omitted": [],
            "current_state": f"State {hashed}.",
        }
        if self._form == "markdown":
            return Answer(text=_markdown(value), model=self.model)
        return Answer(text="", arguments=value, model=self.model)

    def _item(self, number: str, words: str, hashed: str) -> dict[str, JSON]:
        return {"text": f"{' '.join(words.split())[: self._item_chars].strip()} {hashed}", "source": int(number)}


def _markdown(value: dict[str, JSON]) -> str:
    guide, closed, state = value["guide"], value["closed"], value["current_state"]
    assert isinstance(guide, dict)
    assert isinstance(closed, list)
    said = {"Topic horizon": "topic_horizon", "Last completed": "last_completed", "Current task": "current_task"}
    blocks = ["\n".join(("### Guide", *(f"- {name}: {guide[key]}" for name, key in said.items())))]
    for heading, key in (("Main Topics", "main_topics"), ("Decisions & Results", "decisions")):
        blocks.append("\n".join((f"### {heading}", *map(_row, _rows(value[key])))))
    closes = [
        f"- closes c{one['commitment']}: {one['reason']} [#{one['source']}]" for one in closed if isinstance(one, dict)
    ]
    blocks.append("\n".join(("### Open Commitments", *map(_row, _rows(value["commitments"])), *closes)))
    blocks.append(f"### Current State\n{state}")
    return "\n\n".join(blocks)


def _rows(value: JSON) -> list[JSON]:
    assert isinstance(value, list)
    return value


def _row(one: JSON) -> str:
    return f"- {one['text']} [#{one['source']}]" if isinstance(one, dict) else f"- {one}"
