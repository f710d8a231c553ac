"""What `accredit` has put into hosts' files is remembered, so that it is seen when somebody else changes it. I/O: one
file in the folder of the state, which is written under the lock of `edit`.

It holds entries as they were written: paths, URLs and options, nothing secret. It may be lost, or be an older one's:
then less is seen. So one that can't be read counts as empty, and nothing fails for it.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from accredit.errors import ConfigurationError
from accredit.hosts.table import Entry
from accredit.keys import read_file, write_file
from accredit.limits import MAX_INSTALLED, MAX_INSTALLED_BYTES

_FILE = "hosts.json"


class Installed(Struct, frozen=True):
    """An entry: its host, the file, its name there, and what it says."""

    host: str
    file: str
    name: str
    entry: Entry


class _Memory(Struct, frozen=True):
    entries: tuple[Installed, ...] = ()


def installed(state: Path) -> tuple[Installed, ...]:
    """Return what is remembered in the folder of the state, the oldest first."""
    try:
        return msgspec.json.decode(read_file(state / _FILE, MAX_INSTALLED_BYTES).data, type=_Memory).entries
    except (ConfigurationError, ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return ()


def remember(state: Path, host: str, file: Path, changes: Mapping[str, Entry | None]) -> None:
    """Remember entries of a file by their names; those that are None are forgotten. What can't be written is not
    remembered."""
    before = installed(state)
    kept = [each for each in before if each.file != str(file) or each.name not in changes]
    new = [Installed(host, str(file), name, entry) for name, entry in changes.items() if entry is not None]
    found = (*kept, *new)[-MAX_INSTALLED:]
    if found == before:
        return
    data = json.dumps(msgspec.to_builtins(_Memory(found)), indent=1).encode()
    try:
        write_file(state / _FILE, data, private=True, replace=True)
    except (ConfigurationError, ValueError):
        return
