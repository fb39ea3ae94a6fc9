"""Who may ask: keys of callers, what each may do, as whom, and how much.

Comes in: the words that a caller presents. Goes out: a principal, or why there is none. A key names its tenant, so that
it is looked up within it. It knows neither conversations nor HTTP.
"""

from everlog.access.keys import (
    LEAST_BUDGET,
    MOST_BUDGET,
    Key,
    Limits,
    Mode,
    NewKey,
    Role,
    create,
    expect_budget,
    forget_user,
    keys,
    recognise,
    revoke,
)
from everlog.access.pace import Pace
from everlog.access.principal import LOOPBACK, Principal, principal
from everlog.access.requests import (
    ModelUse,
    Requested,
    answered_by,
    asked,
    asked_by,
    by_model,
    forget,
    note,
    oldest,
    surplus,
)
from everlog.access.tokens import PREFIX, Token, is_token, parse
from everlog.access.usage import Used, exceeded, use, used

__all__ = [
    "LEAST_BUDGET",
    "LOOPBACK",
    "MOST_BUDGET",
    "PREFIX",
    "Key",
    "Limits",
    "Mode",
    "ModelUse",
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
    "by_model",
    "create",
    "exceeded",
    "expect_budget",
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
