"""What goes through the proxy, kept: who asks, what was asked and answered, and what the client is told of it."""
