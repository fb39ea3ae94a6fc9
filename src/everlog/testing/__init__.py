"""What a user needs to test an app with Everlog in it: a clock in the test's hands, and deaths at every commit.

Public, and imported by nothing else in Everlog.
"""

from everlog.testing import failpoints
from everlog.testing.clock import FrozenClock

__all__ = ["FrozenClock", "failpoints"]
