"""Memory behind a base URL: what of a request goes up, and what is made of the answer."""
