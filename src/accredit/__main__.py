"""The `accredit` command; `python -m accredit` is the same.

As a module it imports nothing from the current folder, which `-m` puts first: somebody else may have filled it.
"""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]

INTERRUPTED = 130
"""The exit code that shells give a program ended by Ctrl-C."""


def main() -> int:
    """Run the command line; return the exit code."""
    try:
        from accredit.cli import main as run  # noqa: PLC0415 - so that Ctrl-C during the import shows no traceback

        return run()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
