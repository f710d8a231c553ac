"""What is remembered between calls: challenges, uses and revocations (`ports.ProofStore`, `ports.Revocations`).

`rules` holds what both stores decide alike; `memory` is one store, `sqlite` the other, over `tables` (what is done in
a transaction), `worker` (its thread), `database` (the file) and `schema`. `revocation` reads signed lists, from files
and from `listed`, where an SQLite file keeps them.
"""

from accredit.stores.memory import MemoryStore
from accredit.stores.opening import open_store, store_file
from accredit.stores.revocation import RevocationLists
from accredit.stores.sqlite import SqliteStore

__all__ = ["MemoryStore", "RevocationLists", "SqliteStore", "open_store", "store_file"]
