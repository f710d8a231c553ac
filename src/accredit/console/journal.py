"""The desk's journal: asks, answers and signatures, one JSON object a line. I/O: one file, mode 0600.

Each entry is on disk before its event takes effect: no certificate is given out without its entry. Arguments are held
only as digests. Any program of the user can write the file; `past` says what its entries prove. When the desk starts,
it reads the end of the file, to know what the person decided before.

Texts in the entries of asks are clipped: agents can ask any number of times, and their entries must not push out those
of allowed calls. Only one desk writes the journal at a time: two would not know of each other's answers. If the machine
stopped while a line was written, that partial line is skipped; entries after it begin on a line of their own.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from accredit.base.files import make_folder, open_file
from accredit.errors import ConfigurationError, StoreUnavailable
from accredit.keys.places import JOURNAL

MAX_JOURNAL_READ_BYTES = 16_777_216
"""How many bytes are read from the end of the journal when the desk starts. They hold some 40,000 asks, or 1,000
allowed calls, whose certificates are verified then."""
MAX_JOURNAL_ASKED_CHARS = 200
"""How many characters of each text a journal's entry of an ask keeps. New agents can cause at most sixty such entries
an hour; with this limit they take days to fill what is read."""


_ASKED = "asked"
_PRIVATE = 0o600

Entry = Mapping[str, Any]


class Journal:
    """The open file; `past` are the entries that it held at the start."""

    def __init__(self, folder: Path) -> None:
        """Raise `ConfigurationError` if the journal can't be opened."""
        self.path = folder / JOURNAL
        try:
            make_folder(folder)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(self.path, flags, _PRIVATE)
            os.fchmod(self._descriptor, _PRIVATE)
            size = os.fstat(self._descriptor).st_size
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._whole = not size or os.pread(self._descriptor, 1, size - 1) == b"\n"
        except BlockingIOError:
            os.close(self._descriptor)
            raise ConfigurationError(
                f"a desk is running already: it writes {self.path}",
                "`accredit desk open` shows it; Ctrl-C there ends it",
            ) from None
        except OSError as error:
            raise ConfigurationError(
                f"can't open the journal {self.path}: {error.strerror}", "set XDG_STATE_HOME to a folder of your own"
            ) from None
        self.past = read_journal(folder)

    def write(self, event: str, at: int, /, **members: object) -> None:
        """Append an entry, and wait until it is on disk. `at` is in unix seconds. Raises `StoreUnavailable`."""
        most = MAX_JOURNAL_ASKED_CHARS if event == _ASKED else None
        told = {name: value[:most] if isinstance(value, str) else value for name, value in members.items()}
        entry = {"at": at, "event": event, **{name: value for name, value in told.items() if value is not None}}
        line = json.dumps(entry, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        data = line if self._whole else b"\n" + line
        try:
            self._whole = os.write(self._descriptor, data) == len(data)
            os.fsync(self._descriptor)
        except OSError as error:
            self._whole = False
            raise StoreUnavailable(f"the journal can't be written: {error.strerror}") from None
        if not self._whole:
            raise StoreUnavailable("the journal can't be written: no space is left")

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):
            os.close(self._descriptor)


def read_journal(folder: Path) -> tuple[Entry, ...]:
    """Return the entries at the end of a journal, oldest first; none if there is no journal. Raises
    `ConfigurationError`."""
    path = folder / JOURNAL
    if not path.exists():
        return ()
    try:
        with open_file(path) as file:
            begin = max(0, os.fstat(file.fileno()).st_size - MAX_JOURNAL_READ_BYTES)
            file.seek(begin)
            text = file.read(MAX_JOURNAL_READ_BYTES)
    except OSError as error:
        raise ConfigurationError(f"can't read {path}: {error.strerror}", "it is the desk's journal") from None
    return tuple(_entries(text if not begin else text.partition(b"\n")[2]))


def _entries(text: bytes) -> Iterator[Entry]:
    for line in text.split(b"\n"):
        try:
            entry: object = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            members = cast("dict[str, object]", entry)
            if isinstance(members.get("at"), int) and isinstance(members.get("event"), str):
                yield members
