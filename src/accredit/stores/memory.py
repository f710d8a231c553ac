"""A store in the memory of one process: the tables of an SQLite file, in SQLite's memory. No I/O; threads may share it.

Issued challenges are not stored (`minted`), so requesting many takes no room.
"""

import secrets
from collections.abc import Callable

from accredit.stores.rules import NEVER
from accredit.stores.sqlite.store import MemoryWorker, SqliteStore


class MemoryStore(SqliteStore):
    """A `ProofStore` for one process. `draw(n)` returns n unpredictable bytes. Challenges that were spent before
    `since` are not known."""

    def __init__(self, draw: Callable[[int], bytes] = secrets.token_bytes, *, since: int = NEVER) -> None:
        super().__init__(MemoryWorker(), draw, since=since)
