"""The proxy: stands in front of any model, and passes on what it is given.

Comes in: requests of any client of the OpenAI or Anthropic wire formats. Goes out: the same bytes, to the upstream that
has the model, and its answer back, as it comes. Beside the relay, ears hear each exchange. The relay knows no log, and
nothing of a conversation is in what it logs or says of itself.
"""
