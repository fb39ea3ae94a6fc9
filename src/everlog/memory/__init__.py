"""Memories: what is derived from the log and can be dropped and made again.

Comes in: entries of the log, answers of a model. Goes out: derived rows, and the views and tools made of them. Each
memory is a package of its own that knows the log below it and no other memory; what they are to the pump is one
interface, in `interface.py`.
"""
