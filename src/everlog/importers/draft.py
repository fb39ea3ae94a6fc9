"""One message while it is gathered: pieces of text, and parts that know where in the text they stand."""

from dataclasses import replace

from everlog.importers.report import Tally, label
from everlog.importers.shapes import unknown
from everlog.messages import JSON, Media, Part


class Draft:
    """Text and parts of a message to come."""

    def __init__(self, source: str, tally: Tally) -> None:
        self.parts: list[Part] = []
        self._source = source
        self._tally = tally
        self._pieces: list[str] = []
        self._length = 0

    def say(self, text: str) -> None:
        """Add a text part; parts are joined by line breaks."""
        if text:
            self._length += len(text) + (1 if self._pieces else 0)
            self._pieces.append(text)

    def show(self, media: Media) -> None:
        """Add an image, a sound or a file after the text so far."""
        self.parts.append(replace(media, offset=self._length))

    def keep(self, value: JSON, name: object) -> None:
        """Add a part of a form we do not know, and count it under its source's name for it."""
        self._tally.unknown[label(name)] += 1
        self.parts.append(unknown(self._source, value, self._length))

    @property
    def text(self) -> str:
        """The text so far."""
        return "\n".join(self._pieces)

    def __bool__(self) -> bool:
        return bool(self._pieces or self.parts)
