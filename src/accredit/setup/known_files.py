"""The list of the configurations that are the person's own: `configurations.json`, in their folder. I/O: that file.

`accredit up` enters the configurations that it has made, or that the person has agreed to (`up_place`).
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from accredit.base.text import one_line
from accredit.errors import ConfigurationError
from accredit.keys import read_file
from accredit.keys.places import config_folder
from accredit.setup.own_files import fault_of_file

MAX_KNOWN_CONFIGURATIONS = 100
"""How many configurations `accredit up` remembers as a person's own. If there are more it forgets the oldest, and asks
again."""
MAX_KNOWN_CONFIGURATIONS_BYTES = 1_048_576
"""The most bytes of the file that names these configurations: paths have 4,096 at most on Linux."""


KNOWN = "configurations.json"


def known_files(environ: Mapping[str, str]) -> list[str]:
    """Return the paths of the person's own configurations. Raises `ConfigurationError`."""
    file = config_folder(environ) / KNOWN
    if not os.path.lexists(file):
        return []
    check_own_file(file)
    try:
        return msgspec.json.decode(read_file(file, MAX_KNOWN_CONFIGURATIONS_BYTES).data, type=list[str])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ConfigurationError(f"{file} is no list of paths", "delete it: accredit up asks again then") from None


def check_own_file(file: Path) -> None:
    """Check that nobody else can have written a file. Raises `ConfigurationError`."""
    fault = fault_of_file(file)
    if fault is not None:
        raise ConfigurationError(
            f"{one_line(str(file))} may be somebody else's: {fault.text}",
            "read it, and take the right to write there from others",
        )
