"""Who is behind a request: a key and, where one is named, its end user. What is looked up is looked up under it."""

import hashlib
from dataclasses import dataclass, field

from everlog.access.keys import Key, Limits, Mode, Role

NAME_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks, for which tenant, and what they may do."""

    tenant: str
    key: str | None
    """Id of the key; None on the loopback, where none is needed."""
    role: Role
    user: str | None = None
    project: str | None = None
    one_person: bool = False
    mode: Mode | None = None
    """What the key says is done with its conversations; None where it says nothing."""
    budget_tokens: int | None = None
    """How much of a prompt the key says memory may take."""
    limits: Limits = field(default_factory=Limits)

    @property
    def name(self) -> str:
        """The name under which sessions, responses and threads of a principal are found; at most 200 characters."""
        name = f"{self.key or 'local'}/{self.user or ''}"
        if len(name) <= NAME_CHARS:
            return name
        return f"{self.key or 'local'}#{hashlib.sha256((self.user or '').encode('utf-8', 'surrogatepass')).hexdigest()}"


def principal(tenant: str, key: Key, *, user: str | None = None, project: str | None = None) -> Principal:
    """Return who asks with a key; a user and a project that the key is for win over those that a request names."""
    return Principal(
        tenant=tenant,
        key=key.id,
        role=key.role,
        user=key.user or user,
        project=key.project or project,
        one_person=key.one_person,
        mode=key.mode,
        budget_tokens=key.budget_tokens,
        limits=key.limits,
    )


LOOPBACK = Principal(tenant="default", key=None, role="admin", one_person=True)
"""Who asks from the machine itself, where no key is needed."""
