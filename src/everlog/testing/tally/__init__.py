"""A second memory, as small as one can be: who said how much to whom, and a line about each turn.

    with installed(store):
        memory = TallyMemory(model.model)
        run(store, tenant, "ada", memory, model)        # of all threads in which the user Ada spoke
        store.read(tenant, partial(memory.counts, user="ada"))

It learns once per turn, per user over several threads, debounced, and keeps an outcome for each turn, also where the
model gave nothing. Its subjects are users, its rows lie under threads, so erasure finds them as it finds all others.
The table is not part of any database of Everlog: `installed` makes it, and takes it away again.
"""

from everlog.testing.tally.memory import Learned, TallyMemory
from everlog.testing.tally.table import installed

__all__ = ["Learned", "TallyMemory", "installed"]
