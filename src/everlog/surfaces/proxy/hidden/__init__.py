"""Memory tools that are answered inside the proxy: several rounds of an upstream become the one answer of a client.

Comes in: the events, or whole answers, of an upstream's rounds. Goes out: the requests of later rounds, and the bytes
that the client gets, in which no call of ours is. Pure: whoever drives it sends the requests and runs the tools.
"""
