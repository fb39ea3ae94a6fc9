"""Talk to any model: one core that yields effects, and two drivers that do them.

In: a request body of a protocol, and where to send it. Out: what was answered, and a ledger of all that was tried.
Nothing here knows a store, a log or a memory. `effects` names what a program may ask for, `drivers` does it, `wire` is
the only module that speaks HTTP; everything else is pure.
"""
