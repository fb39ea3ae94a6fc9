"""Who asks, in which session, about which project: read from headers and body, pure.

`X-Everlog-*` headers come first, then the older names `X-Infinitum-*` and `X-Context-*`, then header names that the
operator added, then what the client is known to send (`profiles/`). An id says which threads to look at; it is never
proof of who asks, which is for the key to say.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from everlog.log.threads import KEY_LENGTH
from everlog.names import is_name
from everlog.protocols.shapes import Record, loads, record
from everlog.surfaces.proxy.incoming import Headers, values

FIELDS = ("session", "user", "project", "cwd")

OWN = ("x-everlog-", "x-infinitum-", "x-context-")
"""How our own headers begin, the first of which counts."""

HEADERS = {"session": "session-id", "user": "user-id", "project": "project-id", "cwd": "cwd"}
"""What they are called behind that, by field."""

CWD_LENGTH = 2048
_BASENAME_LENGTH = 48
_NO_LABEL = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One place where a client says something of itself."""

    place: str
    """`header` or `body`."""
    path: tuple[str, ...]
    """Name of the header, or the fields of the body from the outermost in."""
    key: str | None = None
    """Field of the JSON that the value is."""
    behind: str | None = None
    """What stands before the id in the value."""
    plain: bool = False
    """Whether only a value that is no JSON, and holds no other id, will do."""

    @classmethod
    def parse(cls, text: str) -> "Source":
        """Read `header:name`, `body:field.field`, with `#key` of the JSON that stands there, `@words` before the id, or `!`."""
        place, _, rest = text.partition(":")
        path, _, key = rest.partition("#")
        path, _, behind = path.partition("@")
        plain = path.endswith("!")
        return cls(
            place=place, path=tuple(path.rstrip("!").split(".")), key=key or None, behind=behind or None, plain=plain
        )

    def read(self, headers: Headers, body: Record) -> str | None:
        """Return what stands there."""
        value = self._value(headers, body)
        if value is None:
            return None
        if self.key is not None:
            found = record(loads(value)).get(self.key)
            return found if isinstance(found, str) else None
        if self.behind is not None:
            return value.rpartition(self.behind)[2] if self.behind in value else None
        return None if self.plain and (value.startswith("{") or "_session_" in value) else value

    def _value(self, headers: Headers, body: Record) -> str | None:
        if self.place == "header":
            found = next(values(headers, self.path[0].encode()), None)
            return None if found is None else found.decode("utf-8", "replace")
        *outer, last = self.path
        for name in outer:
            body = record(body.get(name))
        value = body.get(last)
        return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a request says of who sends it."""

    session: str | None = None
    user: str | None = None
    project: str | None = None
    cwd: str | None = None
    is_project_derived: bool = False
    """Whether the project is made of the working directory."""


def identify(
    headers: Headers,
    body: Record,
    *,
    sources: Mapping[str, Sequence[Source]],
    aliases: Mapping[str, Sequence[str]] | None = None,
) -> Identity:
    """Return who sends a request.

    Args:
        headers: those of the request, names in lower case.
        body: the parsed body.
        sources: where the client says what, by field.
        aliases: further names of headers, by field.
    """
    found: dict[str, str] = {}
    for name in FIELDS:
        places = [*_own(name), *(Source(place="header", path=(one.lower(),)) for one in (aliases or {}).get(name, ()))]
        said = (one.read(headers, body) for one in (*places, *sources.get(name, ())))
        value = next((words for one in said if one is not None and (words := one.strip())), None)
        if value is not None:
            found[name] = value
    cwd = _directory(found.pop("cwd", ""))
    ids = {name: opaque(value) for name, value in found.items()}
    stated = ids.get("project")
    return Identity(
        session=ids.get("session"),
        user=ids.get("user"),
        project=_project(cwd) if cwd is not None and stated is None else stated,
        cwd=cwd,
        is_project_derived=cwd is not None and stated is None,
    )


def opaque(value: str) -> str:
    """Return an id as it can be stored; one that cannot stand as it is, as its hash."""
    if is_name(value, KEY_LENGTH):
        return value
    return "sha256:" + hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _own(name: str) -> Iterator[Source]:
    return (Source(place="header", path=(start + HEADERS[name],)) for start in OWN)


def _directory(path: str) -> str | None:
    """Return a working directory in one spelling; None where it is none."""
    if not path or len(path) > CWD_LENGTH or "\0" in path:
        return None
    steps: list[str] = []
    for step in path.replace("\\", "/").split("/"):
        if step == ".." and steps and steps[-1] not in ("", ".."):
            steps.pop()
        elif step not in ("", ".") or not steps:
            steps.append(step)
    return "/".join(steps) or "/"


def _project(cwd: str) -> str:
    label = _NO_LABEL.sub("-", cwd.rpartition("/")[2])[:_BASENAME_LENGTH] or "root"
    return f"cwd:{label}:{hashlib.sha256(cwd.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
