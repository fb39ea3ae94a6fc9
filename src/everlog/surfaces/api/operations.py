"""All that can be asked over HTTP, as one table: routes and document are made of it."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from everlog import access, log
from everlog.access import Role
from everlog.conversation.database import Overview
from everlog.errors import UnknownAddress
from everlog.jsonl import render_entry
from everlog.surfaces import examining
from everlog.surfaces.api import requests, values
from everlog.surfaces.api.home import Home
from everlog.tokens import size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing that can be asked."""

    method: str
    path: str
    """Behind `/everlog/v1`; `{key}` is the key of a thread, `{id}` that of a request."""
    role: Role
    """The least that a caller must be: chat, read, admin."""
    asks: type
    answers: type | None
    """None for lines of JSON, one entry each."""
    act: Callable[[Home, Mapping[str, str], Any], Any]

    @property
    def name(self) -> str:
        """Its name in the document."""
        return self.act.__name__

    @property
    def summary(self) -> str:
        """What it does."""
        return inspect.getdoc(self.act) or ""


def list_threads(home: Home, _: Mapping[str, str], asked: values.Page) -> values.Threads:
    """List threads."""
    found = list(islice(home.threads(asked.cursor), asked.limit + 1))
    more = len(found) > asked.limit
    page = found[: asked.limit]
    beside = home.beside({one.key for one in page})
    threads = [_thread(one, is_beside=one.key in beside) for one in page]
    return values.Threads(threads=threads, next=threads[-1].key if more else None)


def show_thread(home: Home, path: Mapping[str, str], _: values.Nothing) -> values.Thread:
    """Show a thread."""
    thread = home.named(path["key"])
    row = thread.row()
    parent = None if row.parent is None else home.everlog.keys().get(row.parent)
    return values.Thread(
        key=thread.key,
        title=row.title,
        entries=row.next,
        turns=row.turns,
        forked_from=parent,
        is_beside=thread.key in home.beside({thread.key}),
    )


def examine_thread(home: Home, path: Mapping[str, str], _: values.Nothing) -> values.Checks:
    """Say why a thread has no memory in its prompts, or what its next epoch waits for."""
    found = examining.checks(home.everlog.store, home.everlog.name, home.named(path["key"]).id, home.usual)
    return values.Checks(checks=[values.Check(name=one.name, state=one.state, said=one.said) for one in found])


def list_entries(home: Home, path: Mapping[str, str], asked: values.Stretch) -> values.Entries:
    """List messages."""
    thread = home.named(path["key"])
    length = thread.row().next
    start = asked.start if asked.last is None else max(0, length - asked.last)
    stop = min(length, start + (asked.last or asked.limit))
    entries = [render_entry(entry) for entry in thread.entries(start, stop)]
    return values.Entries(entries=entries, next=stop if stop < length else None)


def list_instructions(home: Home, path: Mapping[str, str], _: values.Nothing) -> values.Instructions:
    """List what the model was told before the conversation."""
    return values.Instructions(instructions=home.named(path["key"]).instructions())


def show_view(home: Home, path: Mapping[str, str], asked: values.Budget) -> values.View:
    """Show a thread within a budget."""
    tree = home.tree(path["key"])
    return _view(tree.view(asked.bytes), is_current=tree.is_current)


def zoom(home: Home, path: Mapping[str, str], asked: values.Line) -> values.View:
    """Open a line of a view: its two halves, or the message."""
    tree = home.tree(path["key"])
    return _view(tree.zoom(asked.id, asked.n), is_current=tree.is_current)


def search(home: Home, path: Mapping[str, str], asked: values.Words) -> values.Hits:
    """Find messages by their words: where and when, no text."""
    found = home.named(path["key"]).tree.search(asked.q, asked.before)
    hits = [values.Hit(id=hit.i, words=hit.words, date=hit.date) for hit in found.hits]
    return values.Hits(words=found.words, hits=hits, start=found.start, stop=found.stop)


def export(home: Home, path: Mapping[str, str], _: values.Nothing) -> Iterator[bytes]:
    """Write a thread as lines of JSON, one entry each."""
    return home.named(path["key"]).export()


def erase_thread(home: Home, path: Mapping[str, str], _: values.Nothing) -> values.Receipt:
    """Erase a thread."""
    return _receipt(home.everlog.erase(thread=home.thread(path["key"]).key))


def erase_user(home: Home, _: Mapping[str, str], asked: values.Whom) -> values.Receipt:
    """Erase all turns of an end user."""
    return _receipt(home.everlog.erase(user=asked.user))


def list_receipts(home: Home, _: Mapping[str, str], __: values.Nothing) -> values.Receipts:
    """List receipts of erasures."""
    return values.Receipts(receipts=[_receipt(one) for one in home.everlog.receipts()])


def show_stats(home: Home, _: Mapping[str, str], __: values.Nothing) -> values.Stats:
    """Count what is in the log, what models took, and what became of the prefixes of requests."""
    found = home.everlog.stats()
    models = home.everlog.store.read(home.everlog.name, access.by_model)
    return values.Stats(
        threads=found.threads,
        entries=found.entries,
        erased=found.erased,
        text_bytes=found.text_bytes,
        kinds=dict(found.kinds),
        media=found.media,
        media_bytes=found.media_bytes,
        models=[requests.model_use(one) for one in models],
        since_start=home.since,
    )


def list_requests(home: Home, _: Mapping[str, str], asked: values.Which) -> values.Requests:
    """List requests to models: what became of each, and what it took."""
    return requests.found(home.everlog, home.principal, asked)


def show_request(home: Home, path: Mapping[str, str], _: values.Nothing) -> values.Request:
    """Show a request to a model."""
    found = requests.one(home.everlog, home.principal, path["id"])
    if found is None:
        raise UnknownAddress("no request of this id here")
    return found


def list_events(home: Home, _: Mapping[str, str], asked: values.Which) -> values.Events:
    """List the messages of the newest requests; `limit` counts requests."""
    return requests.events(home.everlog, home.principal, asked)


def _thread(one: Overview, *, is_beside: bool) -> values.Thread:
    return values.Thread(
        key=one.key,
        title=one.title,
        entries=one.entries,
        turns=one.turns,
        forked_from=one.forked_from,
        is_beside=is_beside,
    )


def _view(text: str, *, is_current: bool) -> values.View:
    return values.View(text=text, bytes=size_bytes(text), is_current=is_current)


def _receipt(one: log.Receipt) -> values.Receipt:
    return values.Receipt(
        id=one.id, target=one.target, state=one.state, threads=len(one.threads), entries=one.entries, rows=one.rows
    )


def _operation(method: str, path: str, role: Role, asks: type, answers: type | None, act: Any) -> Operation:
    return Operation(method=method, path=path, role=role, asks=asks, answers=answers, act=act)


OPERATIONS = (
    _operation("GET", "/threads", "chat", values.Page, values.Threads, list_threads),
    _operation("GET", "/threads/{key}", "chat", values.Nothing, values.Thread, show_thread),
    _operation("DELETE", "/threads/{key}", "admin", values.Nothing, values.Receipt, erase_thread),
    _operation("GET", "/threads/{key}/doctor", "chat", values.Nothing, values.Checks, examine_thread),
    _operation("GET", "/threads/{key}/entries", "chat", values.Stretch, values.Entries, list_entries),
    _operation("GET", "/threads/{key}/instructions", "chat", values.Nothing, values.Instructions, list_instructions),
    _operation("GET", "/threads/{key}/view", "chat", values.Budget, values.View, show_view),
    _operation("GET", "/threads/{key}/zoom", "chat", values.Line, values.View, zoom),
    _operation("GET", "/threads/{key}/search", "chat", values.Words, values.Hits, search),
    _operation("GET", "/threads/{key}/export", "chat", values.Nothing, None, export),
    _operation("POST", "/erase", "admin", values.Whom, values.Receipt, erase_user),
    _operation("GET", "/receipts", "read", values.Nothing, values.Receipts, list_receipts),
    _operation("GET", "/requests", "chat", values.Which, values.Requests, list_requests),
    _operation("GET", "/requests/{id}", "chat", values.Nothing, values.Request, show_request),
    _operation("GET", "/events", "read", values.Which, values.Events, list_events),
    _operation("GET", "/stats", "read", values.Nothing, values.Stats, show_stats),
)
"""All of it, in the order in which the document shows it."""
