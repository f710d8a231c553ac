"""Pinned definitions: the lock, which holds the approved definitions of each server's tools, and the comparison of a
server with it.

A core without I/O. Files are read in `config`; servers are asked in `asking` and `gateway.admission`.
"""

from accredit.pins.compare import Change, changes
from accredit.pins.definitions import Definition, Definitions, ListReader, Pins, digest_of, digest_of_text
from accredit.pins.lock import LOCK_FILE, UPSTREAM, Lock, read_lock, write_lock

__all__ = [
    "LOCK_FILE",
    "UPSTREAM",
    "Change",
    "Definition",
    "Definitions",
    "ListReader",
    "Lock",
    "Pins",
    "changes",
    "digest_of",
    "digest_of_text",
    "read_lock",
    "write_lock",
]
