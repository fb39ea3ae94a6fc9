"""Keep what was said: threads and forks, turns and entries, large parts, sessions, erasure, verification, alignment.

Comes in: messages, in turns. Goes out: entries, by position. The acts take a unit of work of the store, so that they
compose: a caller appends and marks what is due in one transaction. It knows neither memories nor importers.
"""

from everlog.log.align import Append, Compacted, Decision, Fork, Nothing, Sibling, align, best
from everlog.log.appending import Appended, append, check, check_id, continues
from everlog.log.asides import asides, set_aside
from everlog.log.blobs import retire
from everlog.log.entries import Said, at, back, chain, newest, read, seen, turn_start
from everlog.log.erase import erase_tenant, erase_thread, erase_user, resume
from everlog.log.finding import Place, holding, is_answered
from everlog.log.fingerprints import Print, leading, prints, quoted
from everlog.log.forget import has_turns_of
from everlog.log.instructions import instruct, instructions, latest_instructions
from everlog.log.purposes import Purpose
from everlog.log.receipts import Receipt, Target, receipts, was_erased
from everlog.log.sessions import (
    answer,
    answered,
    answers,
    beside,
    drop_answers,
    join,
    members,
    principal_of,
    threads_of,
)
from everlog.log.settling import OpenTurn, broken_off, close_open, is_erased, open_turn, settle, unanswered
from everlog.log.spending import Spent, spend, spent
from everlog.log.threads import (
    ThreadRow,
    checked_key,
    create,
    ensure,
    entitle,
    fence,
    find,
    fork,
    forks,
    ids,
    key_of,
    known,
    listed,
    load,
    names,
    unborn,
    variant,
    variants,
)
from everlog.log.titles import kin
from everlog.log.totals import media_totals, thread_count, tombstones, totals
from everlog.log.turns import NewTurn, TurnState, begins, split
from everlog.log.verify import Fault, Verified, around, verify
from everlog.log.windows import window

__all__ = [
    "Append",
    "Appended",
    "Compacted",
    "Decision",
    "Fault",
    "Fork",
    "NewTurn",
    "Nothing",
    "OpenTurn",
    "Place",
    "Print",
    "Purpose",
    "Receipt",
    "Said",
    "Sibling",
    "Spent",
    "Target",
    "ThreadRow",
    "TurnState",
    "Verified",
    "align",
    "answer",
    "answered",
    "answers",
    "append",
    "around",
    "asides",
    "at",
    "back",
    "begins",
    "beside",
    "best",
    "broken_off",
    "chain",
    "check",
    "check_id",
    "checked_key",
    "close_open",
    "continues",
    "create",
    "drop_answers",
    "ensure",
    "entitle",
    "erase_tenant",
    "erase_thread",
    "erase_user",
    "fence",
    "find",
    "fork",
    "forks",
    "has_turns_of",
    "holding",
    "ids",
    "instruct",
    "instructions",
    "is_answered",
    "is_erased",
    "join",
    "key_of",
    "kin",
    "known",
    "latest_instructions",
    "leading",
    "listed",
    "load",
    "media_totals",
    "members",
    "names",
    "newest",
    "open_turn",
    "principal_of",
    "prints",
    "quoted",
    "read",
    "receipts",
    "resume",
    "retire",
    "seen",
    "set_aside",
    "settle",
    "spend",
    "spent",
    "split",
    "thread_count",
    "threads_of",
    "tombstones",
    "totals",
    "turn_start",
    "unanswered",
    "unborn",
    "variant",
    "variants",
    "verify",
    "was_erased",
    "window",
]
