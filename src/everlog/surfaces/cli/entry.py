"""The edge of the process: arguments in, exit code out, and one line on standard error for whatever goes wrong.

0 is done, 1 a failure, 2 something the user can put right, 130 stopped by Ctrl-C, 141 cut off by the reader of a pipe.
"""

import errno
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import everlog
from everlog.errors import EverlogError, Mistake
from everlog.surfaces.cli.catalogue import hello, page
from everlog.surfaces.cli.console import failure, in_options, line

_ADVICE = {
    errno.ENOENT: "does the folder exist?",
    errno.ENOTDIR: "does the folder exist?",
    errno.EACCES: "you may not do that there; name another place",
    errno.EPERM: "you may not do that there; name another place",
    errno.EROFS: "name a place that can be written",
    errno.EISDIR: "name a file in it",
    errno.ENAMETOOLONG: "name a shorter one",
    errno.ENOSPC: "free some space and try again",
    errno.EFBIG: "free some space and try again",
    errno.EDQUOT: "free some space and try again",
}

DONE, FAILED, MISTAKEN, STOPPED, CUT_OFF = 0, 1, 2, 130, 141


def main() -> None:
    """Run the command that the process was started with."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return the exit code."""
    words = arguments[: arguments.index("--")] if "--" in arguments else arguments
    try:
        status = _run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return STOPPED
    except BrokenPipeError:
        _abandon_output()
        return CUT_OFF
    except Exception as error:  # noqa: BLE001 -- the edge of the process: nobody else can say it
        _save_output()
        return _explained(error, as_json="--json" in words, debug="--debug" in words)
    return status


def _run(arguments: Sequence[str]) -> int:
    if not arguments:
        line(hello(everlog.__version__))
    elif arguments[0] in {"--help", "-h", "help"} and len(arguments) == 1:
        line(page())
    elif arguments[0] == "--version":
        line(f"everlog {everlog.__version__}")
    else:
        if "--debug" not in arguments:
            # What libraries log, such as that a server does not answer, comes to one line of ours.
            logging.getLogger().addHandler(logging.NullHandler())
        # Loaded here, so that what stands above is there at once.
        status: int = import_module("everlog.surfaces.cli.program").run(arguments)
        return status
    return DONE


def _explained(error: Exception, *, as_json: bool, debug: bool) -> int:
    """Say what went wrong, and return the exit code that says it too."""
    debug = debug or import_module("everlog.surfaces.config").debugging()
    if debug and sys.stderr is not None:
        traceback.print_exception(error)
    status = MISTAKEN if isinstance(error, Mistake) else FAILED
    if isinstance(error, EverlogError):
        said = in_options(str(error))
    elif isinstance(error, OSError) and error.strerror:
        advice = _ADVICE.get(error.errno or 0) if error.filename else None
        said = f"{error.filename or 'the output'}: {error.strerror}{f'; {advice}' if advice else ''}"
    else:
        again = "" if debug else "; the same command with --debug shows more"
        said = (
            f"unexpected {type(error).__name__} at {_place(error)}: this is a fault of Everlog, please report it{again}"
        )
    failure(said, kind=type(error).__name__, status=status, as_json=as_json)
    return status


def _place(error: Exception) -> str:
    """Return the last line of ours that an error came through; never what it says, which may be anybody's words."""
    frames = traceback.extract_tb(error.__traceback__)
    home = str(Path(everlog.__file__).parent)
    ours = [frame for frame in frames if frame.filename.startswith(home)] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"


def _save_output() -> None:
    """Write what is buffered before a failure is explained; where that is the failure, forget it."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        _abandon_output()


def _abandon_output() -> None:
    """Send what is still buffered nowhere, so that the interpreter does not fail on it at its end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        setattr(sys, "stdout", None)  # noqa: B010 -- the type checker does not know that there may be none
