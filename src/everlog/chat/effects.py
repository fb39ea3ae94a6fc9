"""What a program may ask of the world: each effect is a value, a driver does it and sends the outcome back.

A program is a generator that yields effects and returns a result. What an effect raises is raised at its `yield`, so
that a program reads like ordinary code; it may catch it and go on, and it cleans up by yielding `Close`.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from everlog.chat.cancel import Cancel
from everlog.errors import expect_number

T = TypeVar("T")

Mode: TypeAlias = str
"""How tools of one round run: `threads`, or `fibers`, which is tasks of one event loop."""


class Abandoned(BaseException):
    """Thrown into a program whose stream nobody reads on: it cleans up and ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """The longest silences of a connection, in seconds."""

    connect_s: float = 10
    read_s: float = 600
    """Between two pieces of an answer, or before the first."""
    write_s: float = 60

    def __post_init__(self) -> None:
        for name in ("connect_s", "read_s", "write_s"):
            expect_number(getattr(self, name), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request, as it goes out."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    method: str = "POST"
    timeouts: Timeouts = Timeouts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What came back: the whole of it, or its beginning."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes = b""
    connection: Any = None
    """To receive the body from; None where `body` is all of it. Only drivers look inside."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request → `Response`. A stream is asked for pieces only if the status is good.

    Raises:
        NeverSent: no connection could be made.
        ConnectionFailed: it broke.
        ProviderTimeout: nothing came in time.
        Cancelled: it was cancelled hard.
    """

    request: Request
    cancel: Cancel
    stream: bool = False


@dataclass(frozen=True, slots=True)
class Receive:
    """Wait for the next bytes of a stream → bytes; empty at its end. Raises what `Send` raises."""

    connection: Any


@dataclass(frozen=True, slots=True)
class Close:
    """Be done with a connection → None; it is used again only if its stream was read to its end."""

    connection: Any
    is_over: bool = False
    """Whether the end must be near, since the answer is whole: it is then waited for, for a moment."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait → None.

    Raises:
        Cancelled: it was cancelled hard.
    """

    seconds: float
    cancel: Cancel


@dataclass(frozen=True, slots=True)
class Invoke:
    """Call a user's function, plain or async → its result. Raises what it raises."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    blocking: bool = False
    """Whether an event loop must not wait for it if it is plain: it runs in a worker thread there."""


@dataclass(frozen=True, slots=True)
class Act:
    """Do something on a database, in a plain function → its result. Event loops have it done in threads of our own."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin programs beside each other → a batch, which only drivers look into. They may yield every effect but `Emit`."""

    programs: "tuple[Callable[[], Program[Any]], ...]"
    mode: Mode = "threads"
    limit: int = 8
    """How many at once."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one program of a batch returned, or raised."""

    index: int
    value: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Next:
    """Wait for the next program of a batch to end → `Outcome`, in the order in which they end; None after the last."""

    batch: Any


@dataclass(frozen=True, slots=True)
class Drop:
    """Give a batch up: what has not begun does not begin, what runs is awaited, tasks are cancelled → None."""

    batch: Any


@dataclass(frozen=True, slots=True)
class Emit:
    """Hand a value to whoever reads the stream → None, once it is taken."""

    value: Any


Effect: TypeAlias = Send | Receive | Close | Sleep | Invoke | Act | Begin | Next | Drop | Emit

Program: TypeAlias = Generator[Effect, Any, T]
