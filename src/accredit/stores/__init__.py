"""Storage for the state between calls: challenges, uses, tasks, revocations, and the records of calls.

`rules` holds the rules that all kinds of store share. The kinds are `memory`, `sqlite` and `postgres`
(`ports.ProofStore`). `tasks` (`ports.TaskStore`), `door` (`ports.DoorStore`: the gateway's OAuth server) and `asks`
(`ports.AskStore`: requests for a person's answer) are written once for all kinds of store; `runners` runs their
statements. `opening` parses a store's URL; `kinds` and `lasting` open the store. `minted` makes challenges;
`revocation` reads signed lists (`ports.Revocations`); `audit_log` is the log of records (`ports.Records`).
"""

import typing

from accredit.base.deferred import names_of as _names_of
from accredit.stores.kinds import InMemory
from accredit.stores.opening import open_revocations, parse_store_url, store_url_fault

if typing.TYPE_CHECKING:
    from accredit.stores.lasting import LogStore, OpenStore, PostgresDatabase, SqliteFile, StoreUrl
    from accredit.stores.memory import MemoryStore
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

# Imported on first use: a gateway that keeps nothing between calls needs none of them.
__getattr__ = _names_of(
    __name__,
    {
        "LogStore": "lasting",
        "MemoryStore": "memory",
        "OpenStore": "lasting",
        "PostgresDatabase": "lasting",
        "RevocationLists": "revocation",
        "SqliteFile": "lasting",
        "SqliteStore": "sqlite.store",
        "StoreUrl": "lasting",
        "Tasks": "tasks",
    },
)
