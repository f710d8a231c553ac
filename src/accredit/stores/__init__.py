"""What is kept between calls: challenges, uses, tasks, revocations, and the records of calls.

`rules` holds the rules that all kinds of store share. `memory`, `sqlite` and `postgres` are the kinds
(`ports.ProofStore`). `tasks` keeps tasks in the first two (`ports.TaskStore`). In all of them, `door` keeps the front
door's memory (`ports.DoorStore`), and `asks` the asks that wait for a person (`ports.AskStore`). `opening` parses a
store's URL and opens the store. `minted` makes challenges; `revocation` reads signed lists (`ports.Revocations`);
`audit_log` is the log of records (`ports.Records`).
"""

from accredit.stores.memory import MemoryStore
from accredit.stores.opening import (
    InMemory,
    LogStore,
    OpenStore,
    PostgresDatabase,
    SqliteFile,
    StoreUrl,
    open_revocations,
    parse_store_url,
    store_url_fault,
)
from accredit.stores.revocation import RevocationLists
from accredit.stores.sqlite.store import SqliteStore
from accredit.stores.tasks import MemoryTasks, SqliteTasks

__all__ = [
    "InMemory",
    "LogStore",
    "MemoryStore",
    "MemoryTasks",
    "OpenStore",
    "PostgresDatabase",
    "RevocationLists",
    "SqliteFile",
    "SqliteStore",
    "SqliteTasks",
    "StoreUrl",
    "open_revocations",
    "parse_store_url",
    "store_url_fault",
]
