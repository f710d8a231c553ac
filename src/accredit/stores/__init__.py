"""What is remembered between calls: challenges, uses and revocations (`ports.ProofStore`, `ports.Revocations`).

`rules` holds what both stores decide alike; `memory` is one store, `sqlite` the other. `revocation` reads signed lists,
from files and from an SQLite file. `tasks` remembers tasks (`ports.TaskStore`). `audit_log` holds the records of calls
(`ports.Records`).
"""

from accredit.stores.memory import MemoryStore
from accredit.stores.opening import open_store, open_tasks, store_file
from accredit.stores.revocation import RevocationLists
from accredit.stores.sqlite.store import SqliteStore
from accredit.stores.tasks import MemoryTasks, SqliteTasks

__all__ = [
    "MemoryStore",
    "MemoryTasks",
    "RevocationLists",
    "SqliteStore",
    "SqliteTasks",
    "open_store",
    "open_tasks",
    "store_file",
]
