"""Converse: the door to a database and its threads, and chats that have a memory.

Comes in: a database, a chat, what a person says. Goes out: replies, and everything that was said, in the log. Nothing
below knows of it; `surfaces` and programs call it.

`database` is opened, holds `thread`s, and brings conversations in (`intake`, `placement`); `tree`, `rolling`, `stats` and
`costs` are what a program sees of a thread. `attach` takes `options` and a partner (`partners`) and gives a `memory`, of
which `attached` is what both drivers share. `turns` is one turn as a program: `gate` and `entry` let one in at a time,
`pace` tells who would wait for himself, `again` has an answer that broke off asked for once more, `patience` ends rounds that lead
nowhere; `asking` says on which terms a prompt is compiled, `toolbox` has memory's tools, `units` are what is stored together,
`recorder` stores it. Where the database is away, `recollection` stands in for prompts, the `spool` keeps what was said
and `leftovers` a file of it; `trouble` is counted and `status` tells of it. `pumping` builds memory after a turn.
"""
