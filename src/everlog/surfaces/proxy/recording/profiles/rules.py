"""What is asked of a request to know its client, or to know it for a question of the client's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from everlog.errors import Mistake
from everlog.messages import Message
from everlog.protocols.shapes import Record, array, record, string
from everlog.surfaces.proxy.incoming import Headers, values


class Facts:
    """A request, as rules look at it."""

    def __init__(self, headers: Headers, body: Record, messages: Sequence[Message]) -> None:
        self._headers = headers
        self.body = body
        self._messages = messages

    def header(self, name: str) -> str:
        """Return the first value of a header; empty where there is none."""
        return next(values(self._headers, name.encode()), b"").decode("utf-8", "replace")

    @cached_property
    def has_tools(self) -> bool:
        """Whether it offers tools."""
        return bool(array(self.body.get("tools")) or array(self.body.get("functions")))

    @cached_property
    def system(self) -> str:
        """The first instruction."""
        return next((one.text for one in self._messages if one.kind == "system" and one.text), "")

    @cached_property
    def spoken(self) -> list[Message]:
        """The messages that are no instructions."""
        return [one for one in self._messages if one.kind != "system"]

    @cached_property
    def last_block(self) -> str:
        """The last piece of text of the last wire message, if it is the user's."""
        given = self.body.get("messages", self.body.get("input"))
        if isinstance(given, str):
            return given
        last = record(array(given)[-1]) if array(given) else {}
        content = last.get("content") if last.get("role") == "user" else None
        if isinstance(content, str):
            return content
        return next((text for part in reversed(array(content)) if (text := string(record(part).get("text")))), "")

    @cached_property
    def last_type(self) -> str:
        """The type of the last item."""
        given = array(self.body.get("input"))
        return string(record(given[-1]).get("type")) if given else ""

    @cached_property
    def max_tokens(self) -> int | None:
        """The most that may be answered."""
        names = ("max_tokens", "max_completion_tokens", "max_output_tokens")
        return next((value for name in names if type(value := self.body.get(name)) is int), None)

    @cached_property
    def has_schema(self) -> bool:
        """Whether it wants JSON of a given form."""
        forms = (
            self.body.get("response_format"),
            record(self.body.get("text")).get("format"),
            record(self.body.get("output_config")).get("format"),
        )
        return any(record(form).get("type") == "json_schema" for form in forms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Conditions on a request; it holds if all that are stated do."""

    why: str = ""
    """What such a request is for."""
    header: str | None = None
    """Name of a header, in lower case, for `begins` and `contains`."""
    begins: str | None = None
    contains: str | None = None
    tools: bool | None = None
    """Whether it offers any."""
    stream: bool | None = None
    schema: bool | None = None
    """Whether it wants JSON of a given form."""
    max_tokens_at_most: int | None = None
    messages_at_most: int | None = None
    """Messages that are no instructions."""
    system_begins: str | None = None
    first_begins: str | None = None
    """Of the first message that is no instruction."""
    last_begins: str | None = None
    """Of the last piece of text of the last message, if that is the user's."""
    last_contains: str | None = None
    last_type: str | None = None
    """Of the last item."""

    @classmethod
    def parse(cls, name: str, found: Mapping[str, Any]) -> "Rule":
        """Return the rule that a table of a profile states.

        Raises:
            Mistake: it asks for something that rules do not know, or for nothing.
        """
        known = {one.name for one in fields(cls)}
        if not found.keys() - {"why"} or found.keys() - known:
            raise Mistake(f"a rule of the profile {name} asks for {', '.join(sorted(found)) or 'nothing'}")
        return cls(**found)

    def holds(self, facts: Facts) -> bool:
        """Return whether a request meets all conditions."""
        return self._form(facts) and self._words(facts)

    def _form(self, facts: Facts) -> bool:
        return (
            (self.header is None or self._header(facts.header(self.header)))
            and self.tools in (None, facts.has_tools)
            and self.stream in (None, facts.body.get("stream") is True)
            and self.schema in (None, facts.has_schema)
            and self.last_type in (None, facts.last_type)
            and (self.messages_at_most is None or len(facts.spoken) <= self.messages_at_most)
            and (
                self.max_tokens_at_most is None
                or (facts.max_tokens is not None and facts.max_tokens <= self.max_tokens_at_most)
            )
        )

    def _header(self, value: str) -> bool:
        return bool(value) and value.startswith(self.begins or "") and (self.contains or "") in value

    def _words(self, facts: Facts) -> bool:
        return (
            (self.system_begins is None or facts.system.lstrip().startswith(self.system_begins))
            and (self.last_begins is None or facts.last_block.lstrip().startswith(self.last_begins))
            and (self.last_contains is None or self.last_contains in facts.last_block)
            and (self.first_begins is None or _first(facts).lstrip().startswith(self.first_begins))
        )


def _first(facts: Facts) -> str:
    return facts.spoken[0].text if facts.spoken else ""
