"""Tables of the log, and all of its SQL.

A row belongs to its *owner*, the thread that first wrote it; a fork lists whose rows it shares in `segment`. Columns
marked `sealed` hold text, sealed under the owner's key. Ids of users, sessions, projects and requests are opaque and
stand as they are, since they are looked up by.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Column,
    Index,
    Integer,
    LargeBinary,
    Select,
    SmallInteger,
    String,
    Table,
    UniqueConstraint,
    and_,
    bindparam,
    case,
    func,
    or_,
)

from everlog.log.purposes import Purpose
from everlog.log.turns import TurnState
from everlog.messages import KINDS
from everlog.store.rows import ID, KEY, TENANT
from everlog.store.sealed import Share
from everlog.store.shapes import COUNT, FLAG, SIZE, TIME
from everlog.store.statements import among, joined, metadata, scoped

SEALED = {"sealed": True}
POSITION = {"holds": range(1 << 40)}
COUNTED = {"holds": range((1 << 40) + 1)}
"""Positions and numbers of entries, of which a thread can have as many as the addresses of its tree can name."""
BY_THREAD: dict[str, object] = {"erase": "thread"}

thread = Table(
    "thread",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("thread", ID, primary_key=True),
    Column("key", KEY),
    Column("title", LargeBinary, info=SEALED),
    Column("created_at", BigInteger, nullable=False, info=TIME),
    Column("next", BigInteger, nullable=False, info=COUNTED),
    Column("turns", Integer, nullable=False, info=COUNT),
    Column("generation", Integer, nullable=False, info=COUNT),
    Column("erased_at", BigInteger, info=TIME),
    Column("parent", ID),
    Column("head", LargeBinary(16)),
    UniqueConstraint("tenant", "key"),
    info={"erase": "tombstone", "clear": ("key", "title", "parent", "head")},
)
"""A conversation. `next` is how many entries it has, shared ones included; `generation` rises with each erasure; `head` is
a keyed hash over its id, key, `next`, `turns` and segments."""

segment = Table(
    "segment",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("thread", ID, primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False, info=COUNT),
    Column("owner", ID, nullable=False),
    Column("upto", BigInteger, nullable=False, info=COUNTED),
    Index(None, "tenant", "owner"),
    info=BY_THREAD,
)
"""Whose rows a fork shares: entries below `upto` that are not in an earlier segment belong to `owner`."""

entry = Table(
    "entry",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("thread", ID, primary_key=True),
    Column("i", BigInteger, primary_key=True, autoincrement=False, info=POSITION),
    Column("kind", SmallInteger, nullable=False, info={"holds": range(len(KINDS))}),
    Column("turn", Integer, nullable=False, info=COUNT),
    Column("at", BigInteger, nullable=False, info=TIME),
    Column("size", Integer, nullable=False, info=COUNT),
    Column("fp", LargeBinary(16)),
    Column("chain", LargeBinary(16)),
    Column("call", LargeBinary(16)),
    Column("hash", LargeBinary(16)),
    Column("request", KEY),
    Column("model", KEY),
    Column("body", LargeBinary, info=SEALED),
    Index(None, "tenant", "chain"),
    info={
        "erase": "tombstone",
        "clear": ("fp", "chain", "call", "hash", "request", "model", "body"),
        "share": Share(column="i"),
        "large": True,
    },
)
"""A message. `size` is the UTF-8 bytes of `kind: text`; an erased one keeps position, kind, turn and time."""

turn = Table(
    "turn",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("thread", ID, primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False, info=COUNT),
    Column("first", BigInteger, nullable=False, info=POSITION),
    Column("state", SmallInteger, nullable=False, info={"holds": range(len(TurnState))}),
    Column("learn", SmallInteger, nullable=False, info=FLAG),
    Column("at", BigInteger, nullable=False, info=TIME),
    Column("client_key", KEY),
    Column("content", LargeBinary(16)),
    Column("session", KEY),
    Column("user", KEY),
    Column("project", KEY),
    Column("scope", KEY),
    Column("model", KEY),
    Column("timezone", String(64)),
    Column("body", LargeBinary, info=SEALED),
    UniqueConstraint("tenant", "thread", "client_key"),
    Index(None, "tenant", "user"),
    info=BY_THREAD | {"share": Share(column="first", blank=("client_key",))},
)
"""A user message and everything until the final reply. `content` tells a repeated client key from a misused one."""

blob = Table(
    "blob",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("thread", ID, primary_key=True),
    Column("name", ID, primary_key=True),
    Column("size", BigInteger, nullable=False, info=SIZE),
    Column("created_at", BigInteger, nullable=False, info=TIME),
    Column("body", LargeBinary, info=SEALED),
    info=BY_THREAD,
)
"""The bytes of an image, sound or file, once per thread; `name` is a keyed hash. A NULL body has been retired."""

blob_use = Table(
    "blob_use",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("thread", ID, primary_key=True),
    Column("name", ID, primary_key=True),
    Column("i", BigInteger, primary_key=True, autoincrement=False, info=POSITION),
    info=BY_THREAD,
)
"""Which entries show a blob: the last one to be erased takes it along."""

instruction = Table(
    "instruction",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("thread", ID, primary_key=True),
    Column("fp", String(32), primary_key=True),
    Column("created_at", BigInteger, nullable=False, info=TIME),
    Column("body", LargeBinary, info=SEALED),
    info=BY_THREAD,
)
"""Leading system messages, once for each distinct content; they are not part of the conversation."""

session = Table(
    "session",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("principal", KEY, primary_key=True),
    Column("id", KEY, primary_key=True),
    Column("thread", ID, primary_key=True),
    Column("at", BigInteger, nullable=False, info=TIME),
    Index(None, "tenant", "thread"),
    Index(None, "tenant", "principal", "id", "at"),
    info=BY_THREAD,
)
"""The threads of a client's session, and with them whose they are. The id is '' for those of requests that name none."""

aside = Table(
    "aside",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("thread", ID, primary_key=True),
    Column("fp", String(32), primary_key=True),
    Column("created_at", BigInteger, nullable=False, info=TIME),
    Column("body", LargeBinary, info=SEALED),
    info=BY_THREAD,
)
"""What a model answered beside the conversation, such as a summary that a client asked for: it may come back in it."""

response = Table(
    "response",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("principal", KEY, primary_key=True),
    Column("id", KEY, primary_key=True),
    Column("thread", ID, nullable=False),
    Column("i", BigInteger, nullable=False, info=POSITION),
    Column("at", BigInteger, nullable=False, info=TIME),
    Index(None, "tenant", "thread"),
    info=BY_THREAD,
)
"""Where in a thread a response id stands."""

spend = Table(
    "spend",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("thread", ID, primary_key=True),
    Column("day", Integer, primary_key=True, autoincrement=False, info=COUNT),
    Column("purpose", SmallInteger, primary_key=True, autoincrement=False, info={"holds": range(len(Purpose))}),
    Column("model", KEY, primary_key=True),
    Column("requests", BigInteger, nullable=False, info=SIZE),
    Column("unpriced", BigInteger, nullable=False, info=SIZE),
    Column("tokens_in", BigInteger, nullable=False, info=SIZE),
    Column("tokens_out", BigInteger, nullable=False, info=SIZE),
    Column("tokens_read", BigInteger, nullable=False, info=SIZE),
    Column("tokens_written", BigInteger, nullable=False, info=SIZE),
    Column("nano_usd", BigInteger, nullable=False, info=SIZE),
    info=BY_THREAD,
)
"""What requests to models took: counts, no text. `day` is counted from 1970 in UTC; the thread is '' where a request is
for none."""

TABLES = (thread, segment, entry, turn, blob, blob_use, instruction, session, aside, response, spend)

_by_thread: BindParameter[str] = bindparam("thread")

THREAD = scoped(thread).select().where(thread.c.thread == _by_thread)
THREAD_TO_WRITE = THREAD.with_for_update()
THREAD_OF_KEY = scoped(thread).select(thread.c.thread).where(thread.c.key == bindparam("key"))
THREADS_OF_KEYS = scoped(thread).select(thread.c.key, thread.c.thread).where(among(thread.c.key, "keys"))
KEY_OF = scoped(thread).select(thread.c.key).where(thread.c.thread == _by_thread)
THREADS = (
    scoped(thread)
    .select()
    .where(thread.c.key.is_not(None), thread.c.thread > bindparam("after"))
    .order_by(thread.c.thread)
    .limit(bindparam("limit"))
)
PUT_THREAD = scoped(thread).insert()
GROW = (
    scoped(thread)
    .update()
    .where(thread.c.thread == _by_thread)
    .values(next=bindparam("new_next"), turns=bindparam("new_turns"), head=bindparam("new_head"))
)
HEAD = scoped(thread).select(thread.c.head).where(thread.c.thread == _by_thread)
SET_TITLE = scoped(thread).update().where(thread.c.thread == _by_thread).values(title=bindparam("new_title"))
KIN = (
    scoped(thread)
    .select(thread.c.thread, thread.c.parent, thread.c.title)
    .where(
        thread.c.erased_at.is_(None),
        or_(
            thread.c.parent == _by_thread,
            thread.c.thread == bindparam("of_parent"),
            thread.c.parent == bindparam("of_parent"),
        ),
    )
)

SEGMENTS = (
    scoped(segment).select(segment.c.owner, segment.c.upto).where(segment.c.thread == _by_thread).order_by(segment.c.n)
)
PUT_SEGMENT = scoped(segment).insert()
DROP_SEGMENTS = scoped(segment).delete().where(segment.c.thread == _by_thread)
FORKS_OF = (
    scoped(segment)
    .select(segment.c.thread, segment.c.n, segment.c.upto)
    .join(thread, and_(joined(segment, thread), segment.c.thread == thread.c.thread))
    .where(segment.c.owner == bindparam("owner"), thread.c.erased_at.is_(None))
    .order_by(segment.c.thread)
)
BURY = (
    scoped(thread)
    .update()
    .where(thread.c.thread == _by_thread, thread.c.erased_at.is_(None))
    .values(
        key=None, title=None, parent=None, head=None, generation=thread.c.generation + 1, erased_at=bindparam("when")
    )
)
BURY_ALL = (
    scoped(thread)
    .update()
    .where(thread.c.erased_at.is_(None))
    .values(
        key=None, title=None, parent=None, head=None, generation=thread.c.generation + 1, erased_at=bindparam("when")
    )
)
TOUCH_GENERATION = (
    scoped(thread).update().where(thread.c.thread == _by_thread).values(generation=thread.c.generation + 1)
)
NAMES = scoped(thread).select(thread.c.thread, thread.c.key).where(thread.c.key.is_not(None)).order_by(thread.c.thread)
THREAD_IDS = scoped(thread).select(thread.c.thread).order_by(thread.c.thread)

_bare_size = case({n: len(kind) + 2 for n, kind in enumerate(KINDS)}, value=entry.c.kind, else_=0)
_ENTRY = (entry.c.i, entry.c.kind, entry.c.turn, entry.c.at, entry.c.request, entry.c.model, entry.c.body)
_within = (entry.c.thread == _by_thread, entry.c.i >= bindparam("start"), entry.c.i < bindparam("stop"))
ENTRIES = scoped(entry).select(*_ENTRY).where(*_within).order_by(entry.c.i).limit(bindparam("limit"))
ENTRIES_BACK = scoped(entry).select(*_ENTRY).where(*_within).order_by(entry.c.i.desc()).limit(bindparam("limit"))
ENTRIES_AT = scoped(entry).select(*_ENTRY).where(entry.c.thread == _by_thread, among(entry.c.i, "positions"))
HASHED = (
    scoped(entry)
    .select(*_ENTRY, entry.c.size, entry.c.fp, entry.c.chain, entry.c.call, entry.c.hash)
    .where(*_within)
    .order_by(entry.c.i)
)
PRINTS = scoped(entry).select(entry.c.kind, entry.c.fp, entry.c.call, entry.c.size).where(*_within).order_by(entry.c.i)
LAST_CHAIN = (
    scoped(entry)
    .select(entry.c.chain)
    .where(entry.c.thread == _by_thread, entry.c.i < bindparam("stop"), entry.c.chain.is_not(None))
    .order_by(entry.c.i.desc())
    .limit(1)
)
TURN_AT = scoped(entry).select(entry.c.turn).where(entry.c.thread == _by_thread, entry.c.i == bindparam("position"))
PUT_ENTRY = scoped(entry).insert()
_cleared: dict[str, Any] = dict.fromkeys(entry.info["clear"]) | {"size": _bare_size}
_with_words = entry.c.hash.is_not(None)
CLEAR_ENTRIES = scoped(entry).update().where(*_within, _with_words).values(_cleared)
CLEAR_ENTRIES_AT = (
    scoped(entry)
    .update()
    .where(entry.c.thread == _by_thread, among(entry.c.i, "positions"), _with_words)
    .values(_cleared)
)
POSITIONS_OF_TURNS = (
    scoped(entry).select(entry.c.i).where(*_within, among(entry.c.turn, "turns"), _with_words).order_by(entry.c.i)
)
WORDS_LEFT = scoped(entry).select(entry.c.i).where(*_within, _with_words).order_by(entry.c.i).limit(1)
OWNERS = scoped(entry).select(entry.c.thread).distinct()
FIRST_WITHIN = scoped(entry).select(entry.c.i).where(*_within).order_by(entry.c.i).limit(1)
LAST_WITHIN = scoped(entry).select(entry.c.i).where(*_within).order_by(entry.c.i.desc()).limit(1)
LAST_OF_KIND = (
    scoped(entry)
    .select(entry.c.i)
    .where(*_within, entry.c.kind == bindparam("number"))
    .order_by(entry.c.i.desc())
    .limit(1)
)
LAST_ANSWER = (
    scoped(entry).select(entry.c.i).where(*_within, entry.c.model.is_not(None)).order_by(entry.c.i.desc()).limit(1)
)
HIGHEST = scoped(entry).select(func.max(entry.c.i)).where(entry.c.thread == _by_thread)
TOTALS = (
    scoped(entry)
    .select(entry.c.kind, func.count(), func.sum(entry.c.size))
    .where(entry.c.body.is_not(None))
    .group_by(entry.c.kind)
    .order_by(entry.c.kind)
)
TOMBSTONES = scoped(entry).select(func.count()).where(entry.c.body.is_(None))

TURNS = (
    scoped(turn)
    .select()
    .where(turn.c.thread == _by_thread, turn.c.n >= bindparam("start"), turn.c.n < bindparam("stop"))
    .order_by(turn.c.n)
)
TURN_OF_CLIENT = (
    scoped(turn)
    .select(turn.c.n, turn.c.first, turn.c.content)
    .where(turn.c.thread == _by_thread, turn.c.client_key == bindparam("client_key"))
)
LAST_TURN = scoped(turn).select().where(turn.c.thread == _by_thread).order_by(turn.c.n.desc()).limit(1)
PUT_TURN = scoped(turn).insert()
MARK_TURNS = scoped(turn).update().where(turn.c.user == bindparam("of_user")).values(user=bindparam("mark"))
TURNS_OF_USER = (
    scoped(turn)
    .select(turn.c.thread, turn.c.n, turn.c.first)
    .where(turn.c.user == bindparam("user"))
    .order_by(turn.c.thread, turn.c.n)
    .limit(bindparam("limit"))
)
FIRST_AFTER = (
    scoped(turn).select(func.min(turn.c.first)).where(turn.c.thread == _by_thread, turn.c.n > bindparam("number"))
)
CLEAR_TURNS = (
    scoped(turn)
    .update()
    .where(turn.c.thread == _by_thread, among(turn.c.n, "turns"))
    .values(
        state=bindparam("erased"),
        client_key=None,
        content=None,
        session=None,
        user=None,
        project=None,
        scope=None,
        timezone=None,
        body=None,
    )
)
SET_TURN = (
    scoped(turn)
    .update()
    .where(turn.c.thread == _by_thread, turn.c.n == bindparam("number"), turn.c.state != int(TurnState.ERASED))
    .values(state=bindparam("new_state"))
)

BLOB = scoped(blob).select(blob.c.body).where(blob.c.thread == _by_thread, blob.c.name == bindparam("name"))
PUT_BLOB = scoped(blob).insert(ignore=True)
_named = (blob.c.thread == _by_thread, blob.c.name == bindparam("name_"))
KEEP_BLOB = scoped(blob).update().where(*_named).values(created_at=bindparam("when"))
FILL_BLOB = scoped(blob).update().where(*_named, blob.c.body.is_(None)).values(body=bindparam("new_body"))
PUT_BLOB_USE = scoped(blob_use).insert(ignore=True)
BLOB_USES = scoped(blob_use).select(blob_use.c.name, blob_use.c.i).where(blob_use.c.thread == _by_thread)
BLOB_SIZES = scoped(blob).select(blob.c.name, blob.c.size).where(blob.c.thread == _by_thread)
BLOBS_NAMED = scoped(blob).select().where(blob.c.thread == _by_thread, among(blob.c.name, "names"))
DROP_BLOB_USES = scoped(blob_use).delete().where(blob_use.c.thread == _by_thread, among(blob_use.c.i, "positions"))
DROP_BLOBS = scoped(blob).delete().where(blob.c.thread == _by_thread, among(blob.c.name, "names"))
RETIRE_BLOBS = (
    scoped(blob)
    .update()
    .where(blob.c.thread == _by_thread, blob.c.created_at < bindparam("before"), blob.c.body.is_not(None))
    .values(body=None)
)


def _kept(table: Table, *columns: "Column[Any]") -> "Select[Any]":
    """Select the texts that are kept beside a thread, the oldest first."""
    mine = scoped(table).select(table.c.fp, table.c.created_at, *columns).where(table.c.thread == _by_thread)
    return mine.order_by(table.c.created_at, table.c.fp)


INSTRUCTIONS = _kept(instruction, instruction.c.body)
INSTRUCTION_PRINTS = _kept(instruction)
PUT_INSTRUCTION = scoped(instruction).insert(ignore=True)
DROP_INSTRUCTION = (
    scoped(instruction).delete().where(instruction.c.thread == _by_thread, instruction.c.fp == bindparam("fp_"))
)
DROP_INSTRUCTIONS = scoped(instruction).delete().where(instruction.c.thread == _by_thread)

PUT_SESSION = scoped(session).upsert(replace=["at"])
SESSION_THREADS = (
    scoped(session)
    .select(session.c.thread, session.c.at)
    .where(session.c.principal == bindparam("principal"), session.c.id == bindparam("id"))
    .order_by(session.c.at.desc())
    .limit(bindparam("limit"))
)
SESSIONS_OF = (
    scoped(session)
    .select(session.c.principal, session.c.id, session.c.thread, session.c.at)
    .where(among(session.c.thread, "threads"), session.c.id != "")
)
LENGTHS = scoped(thread).select(thread.c.thread, thread.c.next).where(among(thread.c.thread, "threads"))
THREADS_OF_PRINCIPAL = (
    scoped(session).select(session.c.thread).distinct().where(session.c.principal == bindparam("principal"))
)
HOLDING = (
    scoped(entry)
    .select(entry.c.thread, entry.c.i, entry.c.chain)
    .distinct()
    .join(session, and_(joined(entry, session), session.c.thread == entry.c.thread))
    .where(among(entry.c.chain, "chains"), session.c.principal == bindparam("principal"))
    .order_by(entry.c.i.desc(), entry.c.thread.desc())
    .limit(bindparam("limit"))
)

ASIDES = _kept(aside, aside.c.body)
ASIDE_PRINTS = _kept(aside)
PUT_ASIDE = scoped(aside).insert(ignore=True)
DROP_ASIDE = scoped(aside).delete().where(aside.c.thread == _by_thread, aside.c.fp == bindparam("fp_"))
DROP_ASIDES = scoped(aside).delete().where(aside.c.thread == _by_thread)

PUT_RESPONSE = scoped(response).insert(ignore=True)
RESPONSES = (
    scoped(response)
    .select(response.c.id, response.c.thread, response.c.i)
    .where(response.c.principal == bindparam("principal"), among(response.c.id, "ids"))
)
DROP_RESPONSES = (
    scoped(response).delete().where(response.c.principal == bindparam("of_principal"), among(response.c.id, "ids"))
)
RESPONSE = (
    scoped(response)
    .select(response.c.thread, response.c.i)
    .where(response.c.principal == bindparam("principal"), response.c.id == bindparam("id"))
)

THREAD_COUNT = scoped(thread).select(func.count()).where(thread.c.key.is_not(None))
MEDIA_TOTALS = scoped(blob).select(func.count(), func.sum(blob.c.size)).where(blob.c.body.is_not(None))

_SPENT = ("requests", "unpriced", "tokens_in", "tokens_out", "tokens_read", "tokens_written", "nano_usd")
PUT_SPEND = scoped(spend).insert(ignore=True)
ADD_SPEND = (
    scoped(spend)
    .update()
    .where(
        spend.c.thread == bindparam("of_thread"),
        spend.c.day == bindparam("of_day"),
        spend.c.purpose == bindparam("of_purpose"),
        spend.c.model == bindparam("of_model"),
    )
    .values({spend.c[name]: spend.c[name] + bindparam(f"more_{name}") for name in _SPENT})
)
_summed = (spend.c.purpose, *(func.sum(spend.c[name]) for name in _SPENT))
SPENT = scoped(spend).select(*_summed).group_by(spend.c.purpose)
SPENT_ON = scoped(spend).select(*_summed).where(spend.c.thread == _by_thread).group_by(spend.c.purpose)
