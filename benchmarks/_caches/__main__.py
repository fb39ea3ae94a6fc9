"""Writes the numbers of `docs/caching.md`, in about five minutes."""

from benchmarks._caches.page import write

write()
