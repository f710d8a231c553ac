"""Which accredit this is, on which Python, and which one a host's entry starts. I/O: looks at files."""

import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from accredit import __version__
from accredit.base.version import told_version
from accredit.cli.actions.doctor.findings import Finding, good
from accredit.cli.actions.doctor.surroundings import Surroundings

_METADATA = "lib/python3*/site-packages/accredit-*.dist-info"


def look_at_versions(at: Surroundings) -> Iterator[Finding]:
    """Yield what is found."""
    yield good("versions", f"accredit {told_version()}, Python {platform.python_version()}, {sys.executable}")


def other_version(program: str) -> str | None:
    """Return the version of the accredit that a command starts, by what is installed beside it; None if it is this one,
    or can't be told."""
    environment = Path(os.path.realpath(program)).parent.parent
    if environment == Path(sys.prefix) or not Path(program).is_absolute():
        return None
    found = sorted(environment.glob(_METADATA))
    version = found[-1].name.removeprefix("accredit-").removesuffix(".dist-info") if found else ""
    return version if version and version != __version__ else None
