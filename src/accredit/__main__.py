"""The `accredit` command; `python -m accredit` is the same.

With `-m`, Python searches the current folder first for modules. That is turned off, since somebody else may have filled
the folder.

Some errors can't be handled by any part of a command: too little memory, a folder that is gone, data that is nested too
deep for Python. They end the command with two lines, and the exit code for wrong use (2). Other errors are defects, and
show where they were raised. Tests call the function that `main` calls, so they see every error.

If `accredit doctor` has given up on slow checks, their threads still run. Then the process ends at once, without
Python's own clean-up. The clean-up would unload libraries that these threads use, so that SIGSEGV ends the process and
its exit code is lost.
"""

import contextlib
import os
import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):  # Python 3.10 has no such flag
    del sys.path[0]

INTERRUPTED = 130
"""The exit code that shells give a program ended by Ctrl-C."""
_WRONG_USE = 2
_OLDEST = (3, 11)
_NO_MEMORY = ("can't start new thread", "failed to map segment")
"""The error texts of Python and the loader if there is no memory for a thread, or for a library."""
_MAX_SHOWN = 200
"""The most characters of a name that is quoted."""


def main() -> int:
    """Run the command line; return the exit code."""
    code = _run()
    engine = sys.modules.get("accredit.ops.doctor.engine")  # a command that has not loaded it has no looks
    if engine is not None and engine.is_looking():
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # nobody can be told
                stream.flush()
        os._exit(code)
    return code


def _run() -> int:
    unfit = _why_unfit(os.name, sys.version_info[:2])
    if unfit is not None:
        print("error: {}\nhelp: {}".format(*unfit), file=sys.stderr, flush=True)  # noqa: T201 - click may not load
        return _WRONG_USE
    try:
        from accredit.cli import main as run  # noqa: PLC0415 - so that Ctrl-C during the import shows no traceback

        return run()
    except KeyboardInterrupt:
        return INTERRUPTED
    except (MemoryError, RecursionError, OSError) as error:
        return _end(error)
    except (RuntimeError, ImportError) as error:
        if not any(each in str(error) for each in _NO_MEMORY):
            raise
        return _end(error)


def _why_unfit(system: str, version: "tuple[int, ...]") -> "tuple[str, str] | None":
    """Return why accredit can't run here at all, and what to do; None if it can."""
    if system != "posix":
        return "accredit runs on Linux and macOS, and not on Windows", "run it in WSL: `wsl --install`, then there"
    if version < _OLDEST:
        what = "this is Python {}.{}, and accredit needs {}.{} or newer".format(*version, *_OLDEST)
        return what, "install a newer one, and make the environment with it: `python3.12 -m venv .venv`"
    return None


def _end(error: Exception) -> int:
    """Print the error that has ended a command. This imports nothing, as there may be no memory for an import."""
    what, remedy = _describe_error(error)
    place, trace = "", error.__traceback__
    while trace is not None:  # to where it was raised
        place, trace = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}", trace.tb_next
    with contextlib.suppress(OSError, ValueError):  # nobody can be told
        print(f"error: {what} ({place})\nhelp: {remedy}", file=sys.stderr, flush=True)  # noqa: T201 - there may be no memory for click
    return _WRONG_USE


def _describe_error(error: Exception) -> tuple[str, str]:
    if not isinstance(error, OSError | RecursionError):
        return "there is too little memory for this", "free some, or allow this process more (ulimit -v)"
    if isinstance(error, RecursionError):
        return "something that was read is nested too deep", "name another file"
    try:
        os.getcwd()
    except OSError:
        return "the current folder is gone", "go to one that is there"
    named = f": {ascii(error.filename)[:_MAX_SHOWN]}" if error.filename is not None else ""
    return (
        f"{ascii(error.strerror or str(error))[1:-1][:_MAX_SHOWN]}{named}",
        "see that what is named can be used, by you",
    )


if __name__ == "__main__":
    sys.exit(main())
