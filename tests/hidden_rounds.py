"""What happens when a model calls tools of ours: cases for any protocol, streamed or not, pure or over a connection.

Each case is what the model says round by round, what of it the client is shown, and which calls of ours are run. Words
are told in no protocol's own; texts of different rounds are lines of their own in all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from everlog.messages import JSON, Message
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Settings, Tool, said
from everlog.testing.upstream.answers import Answer

Calls = tuple[tuple[str, str, JSON], ...]

TOOLS = (Tool(name="read", description="Read a file."), Tool(name="list", description="List files."))
"""The client's own tools."""

PROTOCOLS = tuple(sorted(FORMATS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One answer to a client."""

    rounds: tuple[Answer, ...]
    """What the model says, one answer of each round."""
    text: str = ""
    """The words that the client is shown."""
    thinking: str = ""
    calls: Calls = ()
    """The calls that the client is shown."""
    finish: str = "stop"
    """stop, length or tool_calls."""
    run: tuple[tuple[str, ...], ...] = ()
    """Ids of the calls of ours that are run, for each round that has any of ours that is answered."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the client asks beside, as fields of `Settings`."""


def body_of_client(protocol: str, case: Case, *, stream: bool) -> dict[str, Any]:
    """Return the request of a client."""
    settings = Settings(model="m-1", tools=TOOLS, stream=stream, **case.settings)
    talk = said([Message(kind="system", text="Be brief."), Message(kind="user", text="What did I say of herons?")])
    return FORMATS[protocol].render_request(talk, settings)


def zoom(call_id: str, number: int = 7) -> tuple[str, str, JSON]:
    """Return a call of ours."""
    return (call_id, "everlog_zoom", {"id": number, "n": 2})


def _looks(*ids: str, text: str = "", thinking: str = "") -> Answer:
    return Answer(text=text, thinking=thinking, calls=tuple(map(zoom, ids)))


A: tuple[str, str, JSON] = ("call_a", "read", {"path": "ü"})
B: tuple[str, str, JSON] = ("call_b", "list", {})
SAYS = Answer(text="You like herons.", input_tokens=150, output_tokens=7)
LOOKS = tuple(_looks(f"our_{n}") for n in range(1, 7))
THIRTEEN = tuple(f"our_{n}" for n in range(13))


def _cut(text: str = "") -> Answer:
    return Answer(text=text, calls=(("our_9", "everlog_zoom", '{"id": 1'),), finish="length")


CASES: dict[str, Case] = {
    "ours only": Case(rounds=(_looks("our_1"), SAYS), text=SAYS.text, run=(("our_1",),)),
    "mixed": Case(rounds=(Answer(calls=(zoom("our_1"), A)),), calls=(A,), finish="tool_calls", run=(("our_1",),)),
    "mixed, two and two": Case(
        rounds=(Answer(text="I look.", calls=(A, zoom("our_1"), B, zoom("our_2"))),),
        text="I look.",
        calls=(A, B),
        finish="tool_calls",
        run=(("our_1", "our_2"),),
    ),
    "text before": Case(
        rounds=(_looks("our_1", text="I look."), SAYS), text="I look.\nYou like herons.", run=(("our_1",),)
    ),
    "thinking before": Case(
        rounds=(_looks("our_1", thinking="Herons?"), SAYS), text=SAYS.text, thinking="Herons?", run=(("our_1",),)
    ),
    "the cap is reached": Case(
        rounds=(*LOOKS[:5], SAYS), text=SAYS.text, run=(("our_1",), ("our_2",), ("our_3",), ("our_4",), ())
    ),
    "cut within ours": Case(rounds=(_cut("I look."),), text="I look.", finish="length"),
    "none of ours": Case(
        rounds=(Answer(text="I read.", calls=(A, B)),), text="I read.", calls=(A, B), finish="tool_calls"
    ),
    "only words": Case(rounds=(SAYS,), text=SAYS.text),
    "two rounds with words between": Case(
        rounds=(_looks("our_1", text="I look."), _looks("our_2", text="Again."), SAYS),
        text="I look.\nAgain.\nYou like herons.",
        run=(("our_1",), ("our_2",)),
    ),
    "a round of ours, then a mixed one": Case(
        rounds=(_looks("our_1"), Answer(text="Read this.", calls=(zoom("our_2"), A))),
        text="Read this.",
        calls=(A,),
        finish="tool_calls",
        run=(("our_1",), ("our_2",)),
    ),
    "a round of ours, then calls of the client": Case(
        rounds=(_looks("our_1", thinking="Hm."), Answer(thinking="So.", calls=(A, B))),
        thinking="Hm.\nSo.",
        calls=(A, B),
        finish="tool_calls",
        run=(("our_1",),),
    ),
    "ours first where a call is required": Case(
        rounds=(_looks("our_1"), Answer(calls=(A,))),
        calls=(A,),
        finish="tool_calls",
        run=(("our_1",),),
        settings={"choice": "required"},
    ),
    "the cap is reached where a call is required": Case(
        rounds=(*LOOKS[:5], Answer(calls=(B,))),
        calls=(B,),
        finish="tool_calls",
        run=(("our_1",), ("our_2",), ("our_3",), ("our_4",), ()),
        settings={"choice": "required"},
    ),
    "three of ours at once": Case(
        rounds=(_looks("our_1", "our_2", "our_3"), SAYS), text=SAYS.text, run=(("our_1", "our_2", "our_3"),)
    ),
    "a thirteenth call": Case(rounds=(_looks(*THIRTEEN), SAYS), text=SAYS.text, run=(THIRTEEN[:12],)),
    "it goes on calling behind the cap": Case(
        rounds=(*LOOKS[:5], _looks("our_6", text="I look.")),
        text="I look.",
        run=(("our_1",), ("our_2",), ("our_3",), ("our_4",), ()),
    ),
    "no arguments": Case(
        rounds=(Answer(calls=(("our_1", "everlog_date", {}),)), SAYS), text=SAYS.text, run=(("our_1",),)
    ),
    "arguments that are no object": Case(
        rounds=(Answer(calls=(("our_1", "everlog_zoom", "seven"), zoom("our_2"))), SAYS),
        text=SAYS.text,
        run=(("our_2",),),
    ),
    "a tool of ours that is none": Case(
        rounds=(Answer(calls=(("our_1", "everlog_x", {}),)), SAYS), text=SAYS.text, run=((),)
    ),
    "nothing left for another round": Case(
        rounds=(_looks("our_1", text="I look."),), text="I look.", finish="length", settings={"max_output_tokens": 20}
    ),
    "cut in a later round": Case(
        rounds=(_looks("our_1"), Answer(text="You like", finish="length")),
        text="You like",
        finish="length",
        run=(("our_1",),),
        settings={"max_output_tokens": 100},
    ),
    "cut within ours in a later round": Case(
        rounds=(_looks("our_1", thinking="Hm."), _cut("You")),
        text="You",
        thinking="Hm.",
        finish="length",
        run=(("our_1",),),
    ),
    "the same ids in each round": Case(
        rounds=(_looks("call_0"), _looks("call_0"), Answer(calls=(("call_0", "read", {}),))),
        calls=(("call_0", "read", {}),),
        finish="tool_calls",
        run=(("call_0",), ("call_0",)),
    ),
    "it says nothing at the end": Case(rounds=(_looks("our_1"), Answer()), run=(("our_1",),)),
}


def results_of(ids: Sequence[str]) -> dict[str, str]:
    """Return what our tools answer."""
    return {one: f"what {one} found: ä" for one in ids}
