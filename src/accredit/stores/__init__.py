"""What is remembered between calls: challenges, uses, tasks, revocations, and the records of calls.

`rules` is what both kinds of store decide alike; `memory` and `sqlite` are the two kinds (`ports.ProofStore`), `tasks`
the memory of tasks in both (`ports.TaskStore`), `opening` finds the one that a URL names. `minted` makes challenges;
`revocation` reads signed lists (`ports.Revocations`); `audit_log` is the log of records (`ports.Records`).
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
