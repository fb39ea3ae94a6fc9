"""Memory for requests that somebody else sends: what is new of one is kept before it goes up, and its prompt is compiled."""
