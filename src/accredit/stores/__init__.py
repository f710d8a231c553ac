"""What is remembered between calls: challenges, uses, tasks, revocations, and the records of calls.

`rules` is what both kinds of store decide alike; `memory` and `sqlite` are the two kinds (`ports.ProofStore`), `tasks`
the memory of tasks in both (`ports.TaskStore`), `opening` parses a store's URL and opens what it names. `minted` makes
challenges; `revocation` reads signed lists (`ports.Revocations`); `audit_log` is the log of records (`ports.Records`).
"""

from accredit.stores.memory import MemoryStore
from accredit.stores.opening import (
    InMemory,
    SqliteFile,
    StoreUrl,
    open_revocations,
    open_store,
    open_tasks,
    parse_store_url,
)
from accredit.stores.revocation import RevocationLists
from accredit.stores.sqlite.store import SqliteStore
from accredit.stores.tasks import MemoryTasks, SqliteTasks

__all__ = [
    "InMemory",
    "MemoryStore",
    "MemoryTasks",
    "RevocationLists",
    "SqliteFile",
    "SqliteStore",
    "SqliteTasks",
    "StoreUrl",
    "open_revocations",
    "open_store",
    "open_tasks",
    "parse_store_url",
]
