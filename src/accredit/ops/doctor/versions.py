"""The versions of this accredit, its Python, and the accredit that a host's entry starts. I/O: looks at files."""

import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from accredit import __version__
from accredit.base.version import version_text
from accredit.ops.doctor.engine import Result, good
from accredit.ops.doctor.surroundings import Surroundings

_METADATA = "lib/python3*/site-packages/accredit-*.dist-info"


def look_at_versions(at: Surroundings) -> Iterator[Result]:
    """Yield the versions."""
    yield good("versions", f"accredit {version_text()}, Python {platform.python_version()}, {sys.executable}")


def other_version(program: str) -> str | None:
    """Return the version of the accredit that a command starts, from the metadata installed beside it; None if that is
    this accredit, or unknown."""
    environment = Path(os.path.realpath(program)).parent.parent
    if environment == Path(sys.prefix) or not Path(program).is_absolute():
        return None
    found = sorted(environment.glob(_METADATA))
    version = found[-1].name.removeprefix("accredit-").removesuffix(".dist-info") if found else ""
    return version if version and version != __version__ else None
