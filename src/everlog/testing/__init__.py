"""What a user needs to test an app with Everlog in it: a clock in the test's hands, models
that do as they are told, and deaths at every commit.

Public, and imported by nothing else in Everlog.
"""

from everlog.testing import failpoints
from everlog.testing.clock import FrozenClock
from everlog.testing.models import Bad, EchoModel, ScriptedModel

__all__ = ["Bad", "EchoModel", "FrozenClock", "ScriptedModel", "failpoints"]
