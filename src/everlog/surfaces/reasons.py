"""Why an epoch opened, in words."""

from collections.abc import Mapping

from everlog.context import Reason

WHY: Mapping[Reason, str] = {
    "first": "it was the first",
    "lost": "what was known of the one before is gone",
    "budget": "another budget was asked for",
    "renderer": "prompts are made in another form since",
    "instructions": "the instructions changed",
    "tools": "the tools changed",
    "fork": "the thread was forked",
    "rebuilt": "lines of the memory were made anew",
    "erased": "words in it were erased",
    "full": "the one before was full",
    "landed": "lines were built that had been missing",
    "idle": "the provider had forgotten the one before",
    "estimate": "the provider found it too long",
    "tail": "a memory without a tail begins anew with each turn",
}
"""By its reason; each goes on after "because"."""
