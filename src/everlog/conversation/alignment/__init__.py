"""Where a conversation that came from elsewhere belongs in the log, what of it is new there, and how it is brought in once."""
