"""The messages of one wire message, while its parts are read."""

from dataclasses import replace

from everlog.messages import JSON, Call, Kind, Media, Message, Part, Result, Unknown


class Draft:
    """Words and parts that become one message, or several where calls or results stand between them."""

    def __init__(self, protocol: str, kind: Kind, *, author: str | None = None, id: str | None = None) -> None:  # noqa: A002 -- as Message says it
        self.messages: list[Message] = []
        self._protocol = protocol
        self._kind = kind
        self._author = author
        self._id = id
        self.parts: list[Part] = []
        self._words: list[str] = []
        self._size = 0

    @property
    def text(self) -> str:
        """The words so far."""
        return "".join(self._words)

    def say(self, text: str, *, glued: bool = False) -> None:
        """Add words, on a new line unless they are glued to those before."""
        if text:
            words = text if glued or not self._words else "\n" + text
            self._words.append(words)
            self._size += len(words)

    def show(self, media: Media) -> None:
        """Add an image, a sound or a file after the words so far."""
        self.parts.append(replace(media, offset=self._size))

    def keep(self, value: JSON) -> None:
        """Add a part of a form we do not know."""
        self.parts.append(Unknown(source=self._protocol, value=value, offset=self._size))

    def call(self, call: Call) -> None:
        """Add a tool call."""
        self.pause()
        text = f"{call.name} {call.arguments}" if call.arguments else call.name
        self._add(Message(kind="tool_call", text=text, author=self._author, parts=(call,)))

    def answer(self, result: Result, content: "Draft") -> None:
        """Add a tool result with the words and parts of another draft."""
        self.pause()
        parts = (result, *content.parts)
        self._add(Message(kind="tool_result", text=content.text, author=result.name, parts=parts))

    def pause(self) -> None:
        """End the message under way."""
        if self._words or self.parts:
            self._add(Message(kind=self._kind, text=self.text, author=self._author, parts=tuple(self.parts)))
        self._words, self.parts, self._size = [], [], 0

    def ended(self, *, even_empty: bool = False) -> tuple[Message, ...]:
        """Return the messages; where nothing was said that may be one empty message."""
        self.pause()
        if even_empty and not self.messages:
            self._add(Message(kind=self._kind, author=self._author))
        return tuple(self.messages)

    def _add(self, message: Message) -> None:
        place = len(self.messages)
        name = f"{self._id}#{place}" if self._id and place else self._id
        self.messages.append(message if name is None else replace(message, id=name))
