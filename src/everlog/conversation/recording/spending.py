"""What may be spent on a thread: asked before each request, since a request that is out is paid for."""

import logging
from functools import partial

from everlog import log
from everlog.conversation.recording.recorder import Recorder
from everlog.conversation.recording.trouble import PASSES
from everlog.errors import SpendCapReached

_logger = logging.getLogger(__name__)


class Purse:
    """Knows what was spent on a thread, by talking and by memory."""

    def __init__(self, recorder: Recorder, cap_usd: float | None) -> None:
        self._recorder = recorder
        self._cap = cap_usd
        self._known = 0.0
        self._was_said = False

    def check(self) -> None:
        """Go on, or stop here.

        Raises:
            SpendCapReached: what may be spent is spent.
        """
        if self._cap is None:
            return
        spent = self._spent() + sum(one.cost.total_usd or 0 for one in self._recorder.unpaid)
        if spent >= self._cap:
            raise SpendCapReached(
                f"{spent:.4f} dollars were spent on thread {self._recorder.key!r}, and {self._cap:g} may be; "
                "nothing was asked: raise spend_cap_usd to go on"
            )

    def _spent(self) -> float:
        thread = self._recorder.thread
        if thread is None:
            return self._known
        try:
            store, act = self._recorder.store, partial(log.spent, thread=thread)
            found = self._recorder.database.reach(lambda: store.read(self._recorder.tenant, act))
        except PASSES:
            return self._known
        unpriced = sum(one.unpriced for one in found.values())
        if unpriced and not self._was_said:
            self._was_said = True
            _logger.warning("requests whose price nobody knows do not count against the cap", extra={"count": unpriced})
        self._known = sum(one.nano_usd for one in found.values()) / 1e9
        return self._known
