"""A turn on the database: one at a time in all processes, each word recorded as it is said, or kept until it can be."""
