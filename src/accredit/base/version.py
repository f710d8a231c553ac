"""accredit's version and commit. Reads files; runs git in a checkout.

A build records the commit in `commit.txt` (by `hatch_build.py`), followed by `+changes` if the tree had changes.
"""

import os
import subprocess
from pathlib import Path

from accredit import __version__

_PACKAGE = Path(__file__).parents[1]
_CHECKOUT = _PACKAGE.parents[1]
_GIT_SECONDS = 2.0
_DIGITS = 12


def version_text() -> str:
    """Return version and commit, for people: `0.1.0 (commit 0123456789ab)`; without the commit if unknown."""
    try:
        return f"{__version__} (commit {(_PACKAGE / 'commit.txt').read_text('ascii').strip()})"
    except (OSError, UnicodeDecodeError):
        commit = _checkout_commit() if (_CHECKOUT / ".git").exists() else ""
    return f"{__version__} (a checkout of commit {commit})" if commit else __version__


def _checkout_commit() -> str:
    """Return the checkout's commit. The checkout's files may have changed since."""
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
