"""A history that shows the newest of a thread, as most do whose client trims or sums up: told by the thread's end alone.

This is what `align` decides too, but without a look at all of the thread, which may have a hundred thousand entries. Where
it is not plain, nothing is said here.
"""

from collections.abc import Sequence

from everlog.log.align import PROOF_BYTES
from everlog.log.fingerprints import Print
from everlog.log.matches import VOICES

IN_FRONT = 2
"""Messages of the client's own, such as a summary, that may stand before the window."""


def window(first: Sequence[Print], end: Sequence[Print], incoming: Sequence[Print]) -> int | None:
    """Return the place of the first message that is new, if all before it is the thread's end; None if that is not plain.

    Args:
        first: the thread's first entries; a history that begins as they do is no window.
        end: its last entries.
        incoming: the history.
    """
    old = [one for one in end if not one.quiet]
    new = [place for place, one in enumerate(incoming) if not one.quiet]
    begun = next((one for one in first if not one.quiet), None)
    last = next((n for n in range(len(new) - 1, -1, -1) if incoming[new[n]].kind in VOICES), None)
    if last is None or not old or begun is None or incoming[new[0]].fp == begun.fp:
        return None
    run = 0
    while run < len(old) and run <= last and incoming[new[last - run]].fp == old[-1 - run].fp:
        run += 1
    in_front = [incoming[place] for place in new[: last + 1 - run]]
    kept = sum(one.size for one in old[len(old) - run :] if one.kind in VOICES)
    if run < 2 or kept < PROOF_BYTES or len(in_front) > IN_FRONT or any(one.kind in VOICES for one in in_front):
        return None
    return new[last] + 1
