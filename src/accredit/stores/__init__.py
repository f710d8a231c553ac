"""Storage for the state between calls: challenges, uses, tasks, revocations, and the records of calls.

`rules` holds the rules that all kinds of store share. The kinds are `memory`, `sqlite` and `postgres`
(`ports.ProofStore`). The same in all kinds of store are `tasks` (`ports.TaskStore`), `door`, the front door's memory
(`ports.DoorStore`), and `asks`, which wait for a person (`ports.AskStore`); `runners` runs their statements. `opening`
parses a store's URL and opens the store. `minted` makes challenges; `revocation` reads signed lists
(`ports.Revocations`); `audit_log` is the log of records (`ports.Records`).
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
from accredit.stores.tasks import Tasks

__all__ = [
    "InMemory",
    "LogStore",
    "MemoryStore",
    "OpenStore",
    "PostgresDatabase",
    "RevocationLists",
    "SqliteFile",
    "SqliteStore",
    "StoreUrl",
    "Tasks",
    "open_revocations",
    "parse_store_url",
    "store_url_fault",
]
