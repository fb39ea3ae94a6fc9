"""The way of a request to its upstream, and of its answer back: the same bytes, and whoever listens beside them."""
