"""A provider for tests, over real HTTP on the loopback: it says what it is told to, in each protocol, streamed or not.

    with Upstream([Answer(text="Hello."), Refused(status=429, retry_after="1")]) as upstream:
        client = OpenAI(base_url=upstream.url, api_key="any")

Bodies and streams are lawful for the types of the official SDKs; `Manner` gives them the oddities of other servers.
"""

from everlog.testing.upstream.answers import Answer
from everlog.testing.upstream.failures import Broken, Cut, Malformed, Refused, Reset, Stalled
from everlog.testing.upstream.server import Received, Upstream
from everlog.testing.upstream.streams import Manner

__all__ = ["Answer", "Broken", "Cut", "Malformed", "Manner", "Received", "Refused", "Reset", "Stalled", "Upstream"]
