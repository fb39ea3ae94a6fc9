"""What a user needs to test an app with Everlog in it: a clock in the test's hands, models
that do as they are told, deaths at every commit, checks that any memory must pass, and a tiny memory that does.

Public, and imported by nothing else in Everlog.
"""

from everlog.testing import failpoints, memories
from everlog.testing.clock import FrozenClock
from everlog.testing.memories import MemoryCase
from everlog.testing.models import Bad, EchoModel, ScriptedModel
from everlog.testing.summaries import EchoSummary
from everlog.testing.tally import TallyMemory

__all__ = [
    "Bad",
    "EchoModel",
    "EchoSummary",
    "FrozenClock",
    "MemoryCase",
    "ScriptedModel",
    "TallyMemory",
    "failpoints",
    "memories",
]
