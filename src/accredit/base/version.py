"""accredit's version and commit, and where this copy was installed from. Reads files; runs git in a checkout.

A build records the commit in `commit.txt` (by `hatch_build.py`), followed by `+changes` if the tree had changes. An
installer records its source in `direct_url.json` (PEP 610), unless that was a package index.
"""

import os
import shlex
import subprocess
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from msgspec import DecodeError, json

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


def requirement_of(extra: str) -> str:
    """Return the words after `pip install` that install this copy once more, with one of its extras."""
    try:
        said = distribution("accredit").read_text("direct_url.json")
        found = json.decode(said, type=dict[str, Any]) if said is not None else {}
    except (PackageNotFoundError, DecodeError, OSError, ValueError):
        found = {}
    text = found.get("url")
    url = urlsplit(text) if isinstance(text, str) and text.isprintable() else urlsplit("")
    if url.scheme == "file" and "dir_info" in found:
        is_editable = found["dir_info"] == {"editable": True}
        return f"{'-e ' if is_editable else ''}{shlex.quote(f'{unquote(url.path)}[{extra}]')}"
    if not url.scheme or "@" in url.netloc or url.query:  # an index; or an address that may hold a secret
        return f'"accredit[{extra}]"'
    source = found.get("vcs_info")
    if isinstance(source, dict):
        kind, commit = (str(cast("dict[str, object]", source).get(name, "")) for name in ("vcs", "commit_id"))
        return shlex.quote(f"accredit[{extra}] @ {kind}+{text}@{commit}")
    return shlex.quote(f"accredit[{extra}] @ {text}")


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
