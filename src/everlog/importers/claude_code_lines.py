"""One line of a Claude Code session: what it says, and where it hangs."""

from dataclasses import dataclass

from everlog.importers.blocks import Speaker, spoken
from everlog.importers.media import media_type
from everlog.importers.report import Tally, label
from everlog.importers.shapes import Record, compact, record, string, unknown
from everlog.importers.times import moment
from everlog.messages import JSON, Kind, Media, Message, Part
from everlog.tokens import utf8

FORMAT = "claude-code"
CLIENT = "client"
"""Author of what neither the person nor the model said."""

BOOKKEEPING = frozenset(
    {
        "agent-color",
        "agent-name",
        "agent-setting",
        "attribution-snapshot",
        "content-replacement",
        "file-history-snapshot",
        "last-prompt",
        "marble-origami-commit",
        "marble-origami-snapshot",
        "mode",
        "permission-mode",
        "pr-link",
        "progress",
        "queue-operation",
        "speculation-accept",
        "tag",
        "worktree-state",
    }
)
"""Types of lines that hold nothing anybody said."""

NOTES = frozenset({"compact_boundary", "local_command"})
"""System lines that are worth keeping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line that has a place in the tree."""

    name: str
    """Its uuid."""
    parent: str | None
    session: str | None
    agent: str | None = None
    """Id of the subagent; `sidechain` without it in versions that do not number them."""
    sidechain: bool = False
    wire_id: str | None = None
    """Id of the assistant's message that it is a block of."""
    boundary: bool = False
    """Whether the client starts a new history here, of which the old one is still the past."""
    messages: tuple[Message, ...] = ()

    @property
    def calls(self) -> frozenset[str]:
        """Ids of the calls it makes."""
        return frozenset(call.call_id for message in self.messages if (call := message.call))

    @property
    def answers(self) -> frozenset[str]:
        """Ids of the calls it answers, if it does nothing else."""
        results = [message.result for message in self.messages]
        return frozenset(result.call_id for result in results if result) if all(results) else frozenset()


def read_line(shape: Record, tally: Tally) -> Line | None:
    """Return the line of a JSON object; None if it has no place in the tree."""
    name, kind = string(shape.get("uuid")), shape.get("type")
    messages: list[Message] = []
    match kind:
        case "user" | "assistant" if isinstance(shape.get("message"), dict):
            messages = _talk(shape, tally)
        case "system":
            messages = _system(shape, tally)
        case "attachment":
            messages = _attachment(shape, tally)
        case str() if kind in BOOKKEEPING:
            tally.skipped[kind] += 1
        case _:
            tally.unknown[f"line {label(kind)}"] += 1
    if name is None:
        return None
    boundary = shape.get("subtype") == "compact_boundary"
    parent = string(shape.get("parentUuid")) or (string(shape.get("logicalParentUuid")) if boundary else None)
    return Line(
        name=name,
        parent=parent,
        session=string(shape.get("sessionId")),
        agent=string(shape.get("agentId")),
        sidechain=shape.get("isSidechain") is True,
        wire_id=string(record(shape.get("message")).get("id")) if kind == "assistant" else None,
        boundary=boundary,
        messages=tuple(messages),
    )


def _talk(shape: Record, tally: Tally) -> list[Message]:
    message = shape["message"]
    kind, author, meta = _who(shape, message)
    speaker = Speaker(
        kind=kind,
        author=author,
        at=moment(shape.get("timestamp"), tally),
        id=string(shape.get("uuid")),
        model=string(message.get("model")) if kind == "assistant" else None,
        meta=meta,
    )
    if "toolUseResult" in shape:
        tally.skipped["toolUseResult"] += 1
    return spoken(message.get("content"), speaker, FORMAT, tally)


def _who(shape: Record, message: Record) -> tuple[Kind, str | None, dict[str, JSON]]:
    """Return kind, author and facts of what a line of talk says."""
    if shape["type"] == "assistant":
        if message.get("model") == "<synthetic>" or shape.get("isApiErrorMessage") is True:
            return "note", CLIENT, compact(error=shape.get("isApiErrorMessage") is True)
        return "assistant", None, compact(message_id=string(message.get("id")))
    origin = string(record(shape.get("origin")).get("kind"))
    if shape.get("isCompactSummary") is True:
        return "note", CLIENT, {"compact": "summary"}
    if shape.get("isMeta") is True or origin not in {None, "human"}:
        return "note", CLIENT, compact(origin=origin)
    return "user", None, compact(git_branch=string(shape.get("gitBranch")))


def _system(shape: Record, tally: Tally) -> list[Message]:
    subtype, text = string(shape.get("subtype")), string(shape.get("content"))
    if subtype not in NOTES or text is None:
        tally.skipped[f"system {label(subtype) if subtype else 'message'}"] += 1
        return []
    facts = record(shape.get("compactMetadata"))
    trigger = string(facts.get("trigger"))
    meta = compact(compact="boundary" if subtype == "compact_boundary" else None, trigger=trigger)
    return [_note(shape, tally, text=text, meta=meta)]


def _attachment(shape: Record, tally: Tally) -> list[Message]:
    """Return what the client attached: a prompt typed ahead, or a file; reminders are counted only."""
    attachment = record(shape.get("attachment"))
    kind = attachment.get("type")
    if kind == "queued_command" and (prompt := attachment.get("prompt")) is not None:
        typed = string(attachment.get("commandMode")) in {None, "prompt"}
        speaker = Speaker(
            kind="user" if typed else "note",
            author=None if typed else CLIENT,
            at=moment(shape.get("timestamp"), tally),
            id=string(shape.get("uuid")),
        )
        return spoken(prompt, speaker, FORMAT, tally)
    if kind == "file":
        return [_note(shape, tally, parts=(_file(attachment, tally),))]
    tally.skipped[f"attachment {label(kind)}"] += 1
    return []


def _file(attachment: Record, tally: Tally) -> Part:
    name = string(attachment.get("filename"))
    text = record(record(attachment.get("content")).get("file")).get("content")
    if isinstance(text, str):
        return Media(media_type=media_type(name, None, None if name else "text/plain"), content=utf8(text), name=name)
    tally.unknown["attachment file"] += 1
    return unknown(FORMAT, attachment)


def _note(
    shape: Record, tally: Tally, *, text: str = "", parts: tuple[Part, ...] = (), meta: dict[str, JSON] | None = None
) -> Message:
    return Message(
        kind="note",
        text=text,
        author=CLIENT,
        at=moment(shape.get("timestamp"), tally),
        parts=parts,
        id=string(shape.get("uuid")),
        meta=meta or {},
    )
