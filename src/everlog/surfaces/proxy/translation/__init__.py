"""A client of one protocol on an upstream of another: bodies and bytes in, bodies and bytes out. Pure."""
