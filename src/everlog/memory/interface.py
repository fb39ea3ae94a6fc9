"""What a memory is to the pump: four verbs over plain data.

`read` takes one bounded snapshot, `plan` says what is pending, `judge` says what an answer is worth, `write` keeps
what was accepted. `plan` and `judge` are pure; a `Step` holds no closure, so it survives a restart or a day in a
provider's batch. A step's identity is its subject and name, never the bytes of its request; `inputs` tells an answer
to today's question from an answer to yesterday's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, Self, TypeAlias, TypeVar

from everlog.messages import JSON, Message
from everlog.protocols.exchange import Usage
from everlog.store import Unit

Digest: TypeAlias = str
"""32 hex digits over everything that an answer depends on: source, context, prompt id, model id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is kept current and leased."""

    tenant: str
    memory: str
    """Name of the memory: tree, rolling, facts."""
    key: str
    """A thread, a fact scope, a topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of one thread's log: entries `start` up to, not including, `stop`."""

    thread: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of a compactor: our own messages, not a wire body; the driver picks protocol and model."""

    source: tuple[Message, ...]
    """What the answer is to be made of, oldest first. A compactor without a model needs nothing else."""
    messages: tuple[Message, ...] = ()
    """The whole conversation with a model: instructions, context, and the source as it is shown to it."""
    shared: int = 0
    """How many of `messages`, from the first, other requests begin with too, so that a provider may cache them."""
    schema: Mapping[str, JSON] | None = None
    """JSON schema of the answer's `arguments`, where it is to be structured."""
    limit_bytes: int | None = None
    """The most UTF-8 bytes that the answer may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """An earlier answer to an unfinished step."""

    text: str
    size_bytes: int
    reason: str = ""
    """Why it could not be kept, in words that a model can be told."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """Tokens by kind, as the provider counted them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One pending unit of derivation."""

    subject: Subject
    name: str
    """Natural and the same for ever: `node 3:17`, `turn 41`."""
    span: Span | None
    """The stretch of the log that it derives from."""
    request: Request | None
    """None where no model is needed."""
    tries: tuple[Try, ...] = ()
    inputs: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What one request to a provider took, that is or may be paid for."""

    model: str
    """Provider and id of the model."""
    usage: Usage | None = None
    """Tokens; None where nobody knows."""
    cost_usd: float | None = None
    """None where nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a compactor answered."""

    text: str
    arguments: JSON = None
    """The structured form, where one was asked for or is natural to the compactor."""
    finish: Literal["stop", "length", "tool_calls", "filtered"] = "stop"
    usage: Mapping[str, int] = field(default_factory=dict)
    """Tokens by kind, as the provider counted them."""
    model: str
    """Which model, or which version of a compactor without one, it was."""
    bills: tuple[Bill, ...] = ()
    """One for each request that it took; none where nothing is to be paid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why there is no answer. `unavailable` counts against nobody; the others count against the step."""

    kind: Literal["unavailable", "refused", "timeout", "unusable"]
    retry_at: datetime | None = None
    """When the provider asked to be tried again."""
    bills: tuple[Bill, ...] = ()
    """One for each request that was made in vain, and is or may be paid for."""


Reply: TypeAlias = Answer | Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A note that a subject has something to do: when to look, and how far it should come."""

    subject: Subject
    due_at: datetime
    upto: int = 0
    """The position, or count, that its consumer asked for; 0 where nobody did."""
    live: bool = True
    """Whether somebody waits for it; an import is not live."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accept:
    """The step is done; its rows are to be written."""

    rows: tuple[Any, ...]
    """The memory's own row values; only its `write` looks into them."""
    events: tuple[Any, ...] = ()
    outcome: Any = None
    """What came of a learned turn, also when nothing did."""
    marks: tuple[Mark, ...] = ()
    """Subjects that read these rows."""
    fallback: bool = False
    """Whether none of the answers could be used, and the rows only stand in for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """The answer cannot be used as it is; the step carries it along as one more try."""

    step: Step
    rows: tuple[Any, ...] = ()
    """The memory's own row values that keep the tries; only its `write` looks into them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """Nothing can be made of the reply, and nothing is written."""

    reason: str
    retry_at: datetime | None = None
    """When to look at the subject again, where the reply said so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """The answer is to a question that is no longer asked."""


Verdict: TypeAlias = Accept | Again | Reject | Stale


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is pending now."""

    steps: tuple[Step, ...]
    """In an order in which any beginning of them can be written without the rest."""
    next_due: datetime | None = None
    """When to look again, where time alone makes something due."""
    remaining: int
    """How much there is to do in all, these steps included: an estimate, for progress bars."""


class State(Protocol):
    """A memory's snapshot of one subject: bounded, and opaque to the pump but for this."""

    def after(self, verdicts: Sequence[Verdict]) -> Self | None:
        """Return the snapshot as it stands once the verdicts are written, or None where it must be read anew."""
        ...


S = TypeVar("S", bound=State)


class Memory(Protocol[S]):
    """Something derived from the log."""

    name: str

    def read(self, unit: Unit, subject: Subject) -> S:
        """Take a bounded snapshot: a few statements, never a scan of the log.

        Raises:
            Erased: the subject is gone.
        """
        ...

    def plan(self, state: S, now: datetime, room: int) -> Plan:
        """Return at most `room` steps that can be done now. Pure."""
        ...

    def judge(self, state: S, step: Step, reply: Reply | None) -> Verdict:
        """Return what a reply is worth; None is the reply to a step without a request. Pure."""
        ...

    def write(self, unit: Unit, subject: Subject, verdicts: Sequence[Accept | Again]) -> None:
        """Keep what was accepted, within the caller's unit; what is there already stays as it is.

        Of a step that is to be asked again its tries are kept, so that a crash does not pay for them twice.

        Raises:
            Erased: the subject, or what it read, was erased meanwhile; nothing is written.
        """
        ...


class Compactor(Protocol):
    """Anything that answers a request: a model behind an adapter, or code.

    It is asked by several threads at once. One that is code, needs no waiting and takes a fraction of a millisecond may
    have an attribute `inline = True`; then it is asked in the thread that works on the subject, one request after the
    other, and no limit in time holds for it.

    Where one protocol is required (`everlog.open`), one that is not `inline` must name what it speaks as `protocol`.

    What it raises is a fault of its own, not an answer: trouble of a provider is a `Failure`. A `Mistake`, such as a
    model that does not exist, ends the run.
    """

    model: str
    """Stored with what it makes; it changes when the same request may be answered otherwise."""

    def __call__(self, request: Request) -> Reply: ...
