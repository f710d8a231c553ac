"""`accredit`, as a user who is not root: `python -m tests.world.ordinary ARGUMENTS`, in a folder that is theirs.

Where the tests run as somebody ordinary, that is who it is. I/O: the process's own user.
"""

import ctypes
import os
import sys

NOBODY = 65_534
_PR_SET_DUMPABLE = 4


def become_ordinary() -> None:
    """Is not root from now on, and as open to other programs of that user as one that was started by them."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # which the change of user has taken away


def main() -> int:
    """Runs the command."""
    # First, as the folder of the environment may be root's; then whatever it imports later.
    from tests.world.warm_forker import import_everything  # noqa: PLC0415

    import_everything()
    become_ordinary()
    from accredit.cli import main as accredit  # noqa: PLC0415

    return accredit()


if __name__ == "__main__":
    sys.exit(main())
