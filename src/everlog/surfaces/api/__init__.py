"""What is in the log, over HTTP: threads, entries, views, search, export, erasure, counts.

Comes in: a request of a principal who was let in. Goes out: JSON, described by a document that is made of the same table
as the routes. A caller who may only chat sees the threads that came under their own key; of others they are told the same
as of threads that are not there.
"""
