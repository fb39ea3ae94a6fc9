"""`python -m everlog.surfaces.cli` is `everlog`, also where its folder is not on the PATH."""

from everlog.surfaces.cli import main

main()
