"""Makes what a source says fit to be kept: names of a lawful form, attachments of a bearable size.

Names stand beside the words, so an odd one is no reason to lose them: what does not print is replaced, what is too long
is cut, and a digest keeps two of them apart. The one name that stays as it is, is the end user's: whose words something
is must be found by that very name when they are to be erased. Where it cannot be kept, the conversation is refused.
"""

from dataclasses import replace
from hashlib import sha256

from everlog.importers.report import Tally
from everlog.importers.source import Limits
from everlog.jsonl import Transcript
from everlog.messages import Conversation, Media, Message, Origin, Part
from everlog.tokens import utf8

NAME_LENGTH = 200
"""Characters of the longest name that every database can look up by."""

CHANGED = "name too long or not printable, cut"
TOO_LARGE = "attachment above the limit"

_DIGEST_LENGTH = 8


def fitted(name: str) -> str:
    """Return a name as it can be kept; the same one always becomes the same."""
    if name and name.isprintable() and len(name) <= NAME_LENGTH:
        return name
    shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in name[:NAME_LENGTH])
    return f"{shown[: NAME_LENGTH - _DIGEST_LENGTH - 1]}~{sha256(utf8(name)).hexdigest()[:_DIGEST_LENGTH]}"


def fit(conversation: Conversation, limits: Limits, tally: Tally) -> Conversation:
    """Return a conversation that can be kept; what was changed is counted, unless it is its parent's."""
    fitting = _Fitting(limits, tally)
    key = fitting.name(conversation.key)
    parent = None if conversation.parent is None else fitted(conversation.parent)
    origin = fitting.origin(conversation.origin)
    shared, own = conversation.messages[: conversation.shared], conversation.messages[conversation.shared :]
    messages = (*map(_Fitting(limits, Tally()).message, shared), *map(fitting.message, own))
    if isinstance(conversation, Transcript):
        origins = {entry.origin: fitting.origin(entry.origin) for entry in conversation.entries}
        entries = tuple(
            entry
            if entry.message is message and entry.origin is origins[entry.origin]
            else replace(entry, message=message, origin=origins[entry.origin])
            for entry, message in zip(conversation.entries, messages, strict=True)
        )
        conversation = replace(conversation, entries=entries)
    return replace(conversation, key=key, parent=parent, origin=origin, messages=messages)


class _Fitting:
    def __init__(self, limits: Limits, tally: Tally) -> None:
        self._limits = limits
        self._tally = tally

    def name(self, name: str) -> str:
        found = fitted(name)
        if found != name:
            self._tally.assumed[CHANGED] += 1
        return found

    def origin(self, origin: Origin) -> Origin:
        names = {field: getattr(origin, field) for field in ("request", "session", "project")}
        found = {field: name if name is None else self.name(name) for field, name in names.items()}
        return origin if found == names else replace(origin, **found)

    def message(self, message: Message) -> Message:
        if message.model is not None and (model := self.name(message.model)) != message.model:
            message = replace(message, model=model)
        if message.parts and any(map(self._is_too_large, message.parts)):
            message = replace(message, parts=tuple(map(self._part, message.parts)))
        return message

    def _part(self, part: Part) -> Part:
        if not isinstance(part, Media) or not self._is_too_large(part):
            return part
        self._tally.skipped[TOO_LARGE] += 1
        return replace(part, content=None)

    def _is_too_large(self, part: Part) -> bool:
        return isinstance(part, Media) and len(part.content or b"") > self._limits.attachment_bytes
