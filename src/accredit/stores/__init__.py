"""What is remembered between calls: challenges, uses and revocations (`ports.ProofStore`, `ports.Revocations`).

`rules` holds what both stores decide alike; `memory` is one store, `sqlite` the other, over `tables` (what is done in
a transaction), `worker` (its thread), `database` (the file) and `schema`. `revocation` reads signed lists, from files
and from `listed`, where an SQLite file keeps them. `tasks` remembers tasks (`ports.TaskStore`).
"""

from accredit.stores.memory import MemoryStore
from accredit.stores.opening import open_store, open_tasks, store_file
from accredit.stores.revocation import RevocationLists
from accredit.stores.sqlite import SqliteStore
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
