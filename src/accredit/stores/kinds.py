"""What every kind of store can do, and the kind that is in memory (`lasting` has those that outlive processes).

A store opens its file, or its connection, on first use, after processes have forked. Only two things are read earlier:
the revocation lists, and whether a database has our tables.

To add a kind of store, derive a class from `Kind`, and add it to `lasting.StoreUrl`. All other code asks a store's
methods what it can do, and never looks at its class.
"""

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from accredit.base.deferred import Deferred
from accredit.errors import ConfigurationError
from accredit.ports import ProofStore
from accredit.rounds.sealing import KeyRing
from accredit.stores.rules import NEVER, DiskSpace, SchemaState

if TYPE_CHECKING:
    from accredit.stores import asks, memory, tasks
    from accredit.stores.door import steps
    from accredit.stores.postgres.condition import DatabaseCondition
    from accredit.stores.postgres.revocation_lists import DatabaseLists
    from accredit.stores.runners import Runner
else:  # a gateway that keeps nothing between calls opens no store, and does without SQLite
    asks, memory = Deferred("accredit.stores.asks"), Deferred("accredit.stores.memory")
    tasks, steps = Deferred("accredit.stores.tasks"), Deferred("accredit.stores.door.steps")


class Kind(Struct, frozen=True):
    """What every kind of store has, beside `open`, `lasting` and `as_database`. These defaults are for a store in
    memory; the other kinds override them."""

    is_shared: ClassVar[bool] = False
    """Whether gateways on several machines can share the store."""

    @property
    def file(self) -> Path | None:
        """The store's file on this machine, or None."""

    @property
    def unencrypted_host(self) -> str | None:
        """A host on another machine to which connections may be without TLS, or None."""

    def runner(self, lock: str) -> "Runner | None":
        """Return what runs statements on the store, or None. `lock` is a name: runners with the same name write one at
        a time."""

    def open_tasks(self) -> "tasks.Tasks":
        """Open the memory of tasks."""
        return tasks.Tasks(self.runner("accredit tasks"))

    def open_door(self, ring: KeyRing) -> "steps.Door":
        """Open the store of the front door (the gateway's OAuth server). Its rows are sealed with these keys."""
        return steps.Door(ring, self.runner("accredit door"))

    def open_asks(self) -> "asks.Asks":
        """Open the memory of asks that wait for a person."""
        return asks.Asks(self.runner("accredit hold ask"))

    def schema_state(self) -> SchemaState | None:
        """Return the version of the store's tables, or None if it has none. Blocking; changes nothing. Raises
        `StoreUnavailable`."""

    def condition(self) -> "DatabaseCondition | None":
        """Return the condition of the store's database, or None. Blocking. Raises `StoreUnavailable`."""

    def log_bytes(self) -> int | None:
        """Return the size of the store's file, with what is still in its write-ahead log; or None."""

    def damage(self) -> ConfigurationError | None:
        """Return the error for a store whose file is damaged, anywhere in it; else None. Reads the whole file."""

    def disk_space(self) -> DiskSpace | None:
        """Return the size and the free space of the disk with the store's file. Return None if there is no such disk on
        this machine. Raises `OSError`."""

    def check_tables(self) -> None:
        """Check that a database, if it answers, has tables that this version can use, and that a file is not damaged.
        Blocking. Raises `ConfigurationError`."""

    def list_source(self, opened: ProofStore) -> "Path | DatabaseLists | None":
        """Return where the revocation lists of the opened store are, or None."""


class InMemory(Kind, frozen=True):
    """`memory:`, a store of this process alone."""

    @property
    def lasting(self) -> None:
        """Nothing: it does not outlive its process."""

    @property
    def as_database(self) -> None:
        """Nothing: it is no database."""

    def open(self, since: int = NEVER) -> "memory.MemoryStore":
        """Open the memory of challenges and uses. A new one knows only the challenges that were spent after `since`."""
        return memory.MemoryStore(since=since)
