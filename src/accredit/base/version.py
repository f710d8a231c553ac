"""Which accredit this is: its version, and the commit that it was built from. Reads files; in a checkout git is asked.

A build has it in `commit.txt` (by `hatch_build.py`), with `+changes` behind it if what was built is not as committed.
"""

import os
import subprocess
from pathlib import Path

from accredit import __version__

_PACKAGE = Path(__file__).parents[1]
_CHECKOUT = _PACKAGE.parents[1]
_GIT_SECONDS = 2.0
_DIGITS = 12


def told_version() -> str:
    """Return the version and the commit, for people: `0.1.0 (commit 0123456789ab)`. Without the commit if nobody
    knows."""
    try:
        return f"{__version__} (commit {(_PACKAGE / 'commit.txt').read_text('ascii').strip()})"
    except (OSError, UnicodeDecodeError):
        commit = _checked_out() if (_CHECKOUT / ".git").exists() else ""
    return f"{__version__} (a checkout of commit {commit})" if commit else __version__


def _checked_out() -> str:
    """Return the commit of the folder that this is run from: what it holds may have been changed since."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(  # noqa: S603 - of our own words
            ["git", "-C", _CHECKOUT, "rev-parse", "HEAD"],  # noqa: S607 - the one of the PATH
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            env=environ,
            check=True,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    return done.stdout.strip()[:_DIGITS]
