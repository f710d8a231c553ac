"""Remembers the entries that `accredit` wrote to hosts' files, to detect later changes. I/O: one file in the state
folder, written under the lock of `edit`.

The file holds the entries as written: paths, URLs and options, no secrets. If it is lost or outdated, only fewer
changes are detected, so an unreadable file counts as empty.

A host reads an entry when it starts. So each written entry also gets a mark, an empty file, which `accredit connect`
takes away when it is started with the entry's words.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from accredit.base.values import decodable
from accredit.errors import ConfigurationError
from accredit.hosts.table import HOSTS, Entry
from accredit.keys import read_file, write_file
from accredit.keys.places import entry_mark

MAX_INSTALLED = 1_000
"""The most entries that are remembered: those of twelve hosts, and of projects. If there are more, the oldest are
forgotten."""
MAX_INSTALLED_BYTES = 4_194_304
"""The most bytes of the file that remembers them: one entry takes some 700."""


_FILE = "hosts.json"


class Installed(Struct, frozen=True):
    """An entry that was installed: its host, file, name and content."""

    host: str
    file: str
    name: str
    entry: Entry


@decodable
class _Memory(Struct, frozen=True):
    entries: tuple[Installed, ...] = ()


def read_installed(state: Path) -> tuple[Installed, ...]:
    """Return the remembered entries, oldest first."""
    try:
        return msgspec.json.decode(read_file(state / _FILE, MAX_INSTALLED_BYTES).data, type=_Memory).entries
    except (ConfigurationError, ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return ()


def remember(state: Path, host: str, file: Path, changes: Mapping[str, Entry | None]) -> None:
    """Remember the entries that were written to a file, by name; None forgets the entry of that name. Write errors are
    ignored."""
    before = read_installed(state)
    kept = [each for each in before if each.file != str(file) or each.name not in changes]
    new = [Installed(host, str(file), name, entry) for name, entry in changes.items() if entry is not None]
    found = (*kept, *new)[-MAX_INSTALLED:]
    if found == before:
        return
    with suppress(OSError):
        for each in before:
            if each not in kept:
                _mark(state, each).unlink(missing_ok=True)
    data = json.dumps(msgspec.to_builtins(_Memory(found)), indent=1).encode()
    try:
        write_file(state / _FILE, data, private=True, replace=True)
        for each in new:
            write_file(_mark(state, each), b"", private=True, replace=True)
    except (ConfigurationError, ValueError):
        return


def _mark(state: Path, entry: Installed) -> Path:
    return entry_mark(state, HOSTS[entry.host].words(entry.entry) if entry.host in HOSTS else ())
