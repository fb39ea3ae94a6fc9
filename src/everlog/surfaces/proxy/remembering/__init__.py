"""Memory behind a base URL: what a request wants of it, and the request that goes up in the place of the client's."""
