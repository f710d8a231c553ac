"""Puts into what is built which commit it was built from: `accredit/commit.txt`, for `accredit --version`.

Of the commit's id the first twelve digits, and `+changes` where files that are built are not as they are committed.
Without git, or outside a checkout, what is there already stays: a wheel of an sdist is of the sdist's commit.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OLDEST = (3, 11)
if sys.version_info < OLDEST:  # an older pip than 24 would say that it finds no fitting version of what is needed
    raise SystemExit(
        "accredit needs Python 3.11 or newer, and this is {}.{}: make the environment with a newer one, such as"
        " `python3.12 -m venv .venv`, and install into that".format(*sys.version_info)
    )
BUILT = ("src", "examples", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "NOTICE")


class CommitHook(BuildHookInterface[Any]):
    """What hatchling calls before a build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file; an editable installation is a checkout, which says it itself."""
        commit = "" if version == "editable" else commit_of(Path(self.root))
        if commit:
            self._folder = tempfile.TemporaryDirectory()
            file = Path(self._folder.name) / "commit.txt"
            file.write_text(f"{commit}\n")
            at = "accredit/commit.txt" if self.target_name == "wheel" else "src/accredit/commit.txt"
            build_data["force_include"][str(file)] = at

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made for the build."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()


def commit_of(root: Path) -> str:
    """Return the commit that a folder is a checkout of, or ""."""
    if not (root / ".git").exists():
        return ""
    try:
        commit = git(root, "rev-parse", "HEAD")[:12]
        changes = git(root, "status", "--porcelain", "--", *BUILT).strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{commit}+changes" if changes else commit


def git(root: Path, *words: str) -> str:
    """Return what git says."""
    return subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=True).stdout
