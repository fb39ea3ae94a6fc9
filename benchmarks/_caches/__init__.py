"""Providers' prompt caches, simulated over the bytes of requests, and ways of making prompts to compare in them.

`blocks` is a body as a cache reads it; `marked` and `common` are the rules of caches that keep what ends at a mark, and
of those that find what requests have in common; `providers` names models and their prices; `talks` are the
conversations, `policies` the ways of making prompts of them, `plans` where marks stand, `runs` puts all together. The
rules are those that providers publish, in November 2026; what they leave open is taken against us, and said.
"""
