"""How a turn of a memory runs: ask, run tools, ask again, and get in and out of its thread."""
