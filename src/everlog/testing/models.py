"""Models that need no network: one that answers from what it was asked, and one that does as it is told.

Both are compactors, so they can stand wherever a model does.

    EchoModel()(request)                        # its line shows the beginning of the source, and a hash of all it saw
    ScriptedModel([Bad.TOO_LONG, "user: hi"])   # first a line that is too long, then this one, then as EchoModel

Answers of `EchoModel` differ as soon as one byte of the request does. So if two ways to bring a memory up to date end
in the same bytes, every request was the same in both.
"""

import threading
from collections.abc import Callable, Iterable
from enum import Enum
from hashlib import sha256

from everlog.memory.interface import Answer, Failure, Reply, Request
from everlog.memory.tree.lines import LIMIT_BYTES, tag_of
from everlog.tokens import cut, size_bytes, utf8


class EchoModel:
    """A compactor whose answer is a function of the whole request, and of nothing else."""

    def __init__(self, model: str = "echo@1", *, line_bytes: int = 200) -> None:
        """Answer as `model`.

        Args:
            model: the name under which its lines are stored.
            line_bytes: about how long its lines are, in UTF-8 bytes.
        """
        self.model = model
        self._line_bytes = line_bytes

    def __call__(self, request: Request) -> Answer:
        """Return the beginning of the source's first message with a hash of the request."""
        first = request.source[0]
        hashed = sha256()
        for message in (*request.messages, *request.source):
            hashed.update(utf8(f"{message.kind}\0{message.author}\0{message.text}\1"))
        words = " ".join(first.text.split())
        text = f"{tag_of(first.kind, first.author)}: {cut(words, self._line_bytes).strip()} #{hashed.hexdigest()[:16]}"
        return Answer(text=text, model=self.model, usage={"input": len(request.messages), "output": 1})


class Bad(Enum):
    """Ways in which a model fails."""

    TOO_LONG = "its line is over the limit"
    NO_SHORTER = "its line is as long as the source"
    EMPTY = "it says nothing, as one that only reasons"
    LABELLED = "its line, a good one, begins with a copied label"
    RULER = "it copies the ruler"
    TRUNCATED = "its answer ends in the middle"
    TOOL_CALL = "it calls a tool"
    FILTERED = "a filter withholds its answer"
    ERROR_TEXT = "its server's error message comes as an answer"
    UNTAGGED = "its line does not say whose words it has"
    WRONG_KIND = "it says that somebody else said it"
    REFUSED = "it refuses"
    TIMEOUT = "it takes too long"
    UNUSABLE = "its answer cannot be read"
    UNAVAILABLE = "its server is down"


Said = Bad | str | Answer | Failure | BaseException | None


class ScriptedModel:
    """A compactor that goes through a script, one entry a request, and then answers as another one. Thread-safe.

    An entry is a way to fail, the text of an answer, a whole answer or failure, an error to raise, or None for the
    answer of the other one.
    """

    def __init__(
        self,
        script: Iterable[Said] = (),
        *,
        otherwise: Callable[[Request], Reply] | None = None,
        model: str = "scripted@1",
        when: Callable[[Request], Said] | None = None,
    ) -> None:
        """Follow a script.

        Args:
            script: what to do at each request, in order.
            otherwise: answers the rest; `EchoModel`, if None.
            model: the name under which its lines are stored.
            when: asked first for each request; what it returns, unless it is None, is done in place of the script, such
                as failing at every request about one message.
        """
        self.model = model
        self.requests: list[Request] = []
        """What it was asked, in order."""
        self._script = iter(script)
        self._otherwise = otherwise or EchoModel(model)
        self._when = when
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Reply:
        """Do what comes next."""
        with self._lock:
            self.requests.append(request)
        said = self._when(request) if self._when is not None else None
        if said is None:
            with self._lock:
                said = next(self._script, None)
        if said is None:
            return self._otherwise(request)
        if isinstance(said, BaseException):
            raise said
        if isinstance(said, Answer | Failure):
            return said
        return Answer(text=said, model=self.model) if isinstance(said, str) else self._fail(said, request)

    def _fail(self, bad: Bad, request: Request) -> Reply:
        limit = request.limit_bytes or LIMIT_BYTES
        head = tag_of(request.source[0].kind, request.source[0].author)
        good = self._otherwise(request)
        line = good.text if isinstance(good, Answer) else f"{head}: words"
        match bad:
            case Bad.REFUSED | Bad.TIMEOUT | Bad.UNUSABLE | Bad.UNAVAILABLE:
                kinds = {Bad.REFUSED: "refused", Bad.TIMEOUT: "timeout", Bad.UNUSABLE: "unusable"}
                return Failure(kind=kinds.get(bad, "unavailable"))  # type: ignore[arg-type]
            case Bad.TRUNCATED | Bad.TOOL_CALL | Bad.FILTERED:
                finish = {Bad.TRUNCATED: "length", Bad.TOOL_CALL: "tool_calls", Bad.FILTERED: "filtered"}[bad]
                return Answer(text=line, finish=finish, model=self.model)  # type: ignore[arg-type]
            case Bad.WRONG_KIND:
                kinds_there = {message.kind for message in request.source}
                other = next(kind for kind in ("user", "assistant", "note", "system") if kind not in kinds_there)
                return Answer(text=f"{other}: it was said", model=self.model)
            case _:
                return Answer(text=self._bad_text(bad, line, head, request, limit), model=self.model)

    def _bad_text(self, bad: Bad, line: str, head: str, request: Request, limit: int) -> str:
        source = "\n".join(f"{tag_of(message.kind, message.author)}: {message.text}" for message in request.source)
        return {
            Bad.TOO_LONG: cut(f"{head}: {'word ' * limit}", limit + 1).ljust(limit + 1, "."),
            Bad.NO_SHORTER: f"{head}: {'w' * size_bytes(source)}",
            Bad.EMPTY: "",
            Bad.LABELLED: f"0+1|{line}",
            Bad.RULER: "-" * limit,
            Bad.ERROR_TEXT: 'API Error: 529 {"type":"error","error":{"type":"overloaded_error"}}',
            Bad.UNTAGGED: "somebody said something",
        }[bad]
