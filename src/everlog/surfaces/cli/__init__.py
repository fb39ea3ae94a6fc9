"""The command line: `everlog COMMAND …`.

Comes in: arguments. Goes out: text for people, JSON for programs, an exit code: 0 done, 1 something is wrong with the
world or the data, 2 the user can put it right. `entry` is the edge of the process, `catalogue` the list of commands,
`program` finds and parses one, `session` is what all of them share, and each of the others holds a group of commands.
"""

from everlog.surfaces.cli.entry import main

__all__ = ["main"]
