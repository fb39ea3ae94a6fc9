"""Who may ask: keys of callers, what each may do, as whom, and how much.

Comes in: the words that a caller presents. Goes out: a principal, or why there is none. A key names its tenant, so that
it is looked up within it. It knows neither conversations nor HTTP.
"""

from everlog.access.keys import Key, Limits, NewKey, Role, create, forget_user, keys, recognise, revoke
from everlog.access.pace import Pace
from everlog.access.principal import LOOPBACK, Principal, principal
from everlog.access.requests import Requested, answered_by, asked, asked_by, forget, note, oldest, surplus
from everlog.access.tokens import PREFIX, Token, is_token, parse
from everlog.access.usage import Used, exceeded, use, used

__all__ = [
    "LOOPBACK",
    "PREFIX",
    "Key",
    "Limits",
    "NewKey",
    "Pace",
    "Principal",
    "Requested",
    "Role",
    "Token",
    "Used",
    "answered_by",
    "asked",
    "asked_by",
    "create",
    "exceeded",
    "forget",
    "forget_user",
    "is_token",
    "keys",
    "note",
    "oldest",
    "parse",
    "principal",
    "recognise",
    "revoke",
    "surplus",
    "use",
    "used",
]
