"""The stores that outlive processes, and so may have a log and revocation lists: a file of SQLite, and a database of
PostgreSQL."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import disk_usage
from socket import gethostname
from typing import ClassVar

from accredit.attest import LogKey, LogSigner
from accredit.base.addresses import is_loopback_host
from accredit.base.clock import unix_ms
from accredit.errors import ConfigurationError, StoreUnavailable
from accredit.ports import ProofStore
from accredit.stores.audit_log.author import Keys
from accredit.stores.audit_log.file_sink import FileSink
from accredit.stores.audit_log.places import LOG_SILENT_SECONDS, DatabaseLog, FileLog, LogPlace
from accredit.stores.audit_log.pruning import PruneReport, prune
from accredit.stores.audit_log.reader import LogFile
from accredit.stores.audit_log.reading import LogReader
from accredit.stores.audit_log.shipping import Sink
from accredit.stores.kinds import InMemory, Kind
from accredit.stores.memory import MemoryStore
from accredit.stores.postgres.address import DatabaseAddress
from accredit.stores.postgres.condition import DatabaseCondition, read_condition
from accredit.stores.postgres.forgetting import CLOCK
from accredit.stores.postgres.log_pruning import prune as prune_in_database
from accredit.stores.postgres.log_reader import LogDatabase
from accredit.stores.postgres.log_sink import DatabaseSink
from accredit.stores.postgres.migration import status
from accredit.stores.postgres.revocation_lists import DatabaseLists
from accredit.stores.postgres.revocation_lists import change_list as change_list_in_database
from accredit.stores.postgres.revocation_lists import read_lists as read_lists_of_database
from accredit.stores.postgres.session import SchemaUnknown
from accredit.stores.postgres.store import PostgresStore
from accredit.stores.rules import NEVER, DiskSpace, FoundList, ListChange, SchemaState
from accredit.stores.runners import DatabaseRunner, Runner, SqliteRunner
from accredit.stores.sqlite.revocation_lists import change_list, read_lists, read_untouched_lists
from accredit.stores.sqlite.schema import SCHEMA
from accredit.stores.sqlite.store import SqliteStore
from accredit.stores.sqlite.untouched import damage_error, find_damage, is_still, schema_version

_MIGRATE = "accredit store migrate makes the tables, and needs a user who may"
_RESTORE = "restore the backup into an empty database"
_NEWER = "install the accredit that made them, or restore what there was before"
_ENCRYPTED = ("require", "verify-ca", "verify-full")
"""The values of `sslmode` that guarantee encryption. With the other values, an attacker on the path can turn it off."""


class SqliteFile(Kind, frozen=True):
    """`sqlite:///FILE`, a store for all processes of this machine. The file may not exist yet; its folder does."""

    path: Path

    @property
    def name(self) -> str:
        """The file, for people and logs."""
        return str(self.path)

    @property
    def lasting(self) -> "SqliteFile":
        """Itself."""
        return self

    @property
    def as_database(self) -> None:
        """Nothing: it is no database."""

    @property
    def file(self) -> Path:
        """The file."""
        return self.path

    def open(self, since: int = NEVER) -> SqliteStore:
        """Open the memory of challenges and uses, as `InMemory.open` does."""
        return SqliteStore(self.path, since=since)

    def runner(self, lock: str) -> Runner:
        """Return the runner of statements on the file."""
        return SqliteRunner(self.path)

    def open_log(self, patience: float | None = None, *, untouched: bool = False) -> LogReader:
        """Return a reader of the log. With `untouched`, nothing is created beside the file."""
        return LogFile(self.path, still=untouched and is_still(self.path))

    def open_sink(self, name: str) -> Sink:
        """Return the sink of the log that has this name."""
        return FileSink(self.path, name)

    def log_place(self, gateway: str, trusted: tuple[LogKey, ...], *, durable: bool) -> LogPlace:
        """Return where a gateway's log is written. `trusted` are the keys whose signatures in the log are believed."""
        return FileLog(self.path, "FULL" if durable else "NORMAL", gateway, trusted)

    def log_bytes(self) -> int:
        """Return the size of the file, with what is still in its write-ahead log."""
        total = 0
        for path in (self.path, self.path.with_name(f"{self.path.name}-wal")):
            with suppress(OSError):
                total += path.stat().st_size
        return total

    def schema_state(self) -> SchemaState:
        """Return the version of the file's tables."""
        found = schema_version(self.path) if os.path.lexists(self.path) else None
        return SchemaState(found, len(SCHEMA))

    def damage(self) -> ConfigurationError | None:
        """Return the error for a damaged file."""
        found = find_damage(self.path, None)
        return damage_error(self.path, found) if found is not None else None

    def check_tables(self) -> None:
        """Look for damage, for a bounded time. Raises `ConfigurationError`."""
        try:
            found = find_damage(self.path)
        except StoreUnavailable:  # no regular file: whoever opens it says so
            return
        if found is not None:
            raise damage_error(self.path, found)

    def disk_space(self) -> DiskSpace:
        """Return the size and the free space of the disk where the file is, or will be. Raises `OSError`."""
        found = disk_usage(self.path.parent)
        return DiskSpace(found.free, found.total)

    def prune(
        self, signer: LogSigner, trusted: Keys, before_ms: int, on_progress: Callable[[int], None]
    ) -> PruneReport:
        """Prune the log as `audit_log.pruning.prune` does."""
        return prune(self.path, signer, before_ms=before_ms, now_ms=unix_ms(), on_progress=on_progress, trusted=trusted)

    def list_source(self, opened: ProofStore) -> Path:
        """Return the path of the store's file: it also holds the revocation lists."""
        return self.path

    def read_lists(self, *, untouched: bool = False) -> Sequence[FoundList]:
        """Return the revocation lists as they are, unverified. With `untouched`, the file and its folder stay as they
        are. Blocking. Raises `StoreUnavailable`."""
        if untouched:
            return read_untouched_lists(self.path) if os.path.lexists(self.path) else ()
        return read_lists(self.path) if self.path.exists() else ()

    def change_list(self, issuer_id: str, change: Callable[[bytes | None], bytes]) -> ListChange:
        """Replace an issuer's list by what `change` returns for it. Blocking. Raises `StoreUnavailable`."""
        return change_list(self.path, issuer_id, change)


class PostgresDatabase(DatabaseAddress, Kind, frozen=True):
    """`postgresql://...`, a store for all machines that can reach one of `hosts`."""

    is_shared: ClassVar[bool] = True

    @property
    def lasting(self) -> "PostgresDatabase":
        """Itself."""
        return self

    @property
    def as_database(self) -> "PostgresDatabase":
        """Itself."""
        return self

    @property
    def unencrypted_host(self) -> str | None:
        """A host on another machine to which connections may be without TLS, or None."""
        elsewhere = (each.name for each in self.hosts if not (each.name[0] == "/" or is_loopback_host(each.name)))
        return None if dict(self.tls).get("sslmode") in _ENCRYPTED else next(elsewhere, None)

    def open(self, since: int = NEVER) -> PostgresStore:
        """Open the memory of challenges and uses. `since` is not used: the database itself has recorded, by its own
        clock, from when on it knows the spent challenges."""
        return PostgresStore(self, since=CLOCK)

    def runner(self, lock: str) -> Runner:
        """Return the runner of statements on the database."""
        return DatabaseRunner(self, lock)

    def open_log(self, patience: float | None = None, *, untouched: bool = False) -> LogReader:
        """Return a reader of the log. `patience` is how many seconds a statement may take at most; None sets no
        limit."""
        return LogDatabase(self, patience=patience)

    def open_sink(self, name: str) -> Sink:
        """Return the sink of the log that has this name."""
        return DatabaseSink(self, name)

    def log_place(self, gateway: str, trusted: tuple[LogKey, ...], *, durable: bool) -> LogPlace:
        """Return where a gateway's log is written. `trusted` are the keys whose signatures in the log are believed."""
        return DatabaseLog(self, gateway, gethostname(), LOG_SILENT_SECONDS, trusted)

    def prune(
        self, signer: LogSigner, trusted: Keys, before_ms: int, on_progress: Callable[[int], None]
    ) -> PruneReport:
        """Prune the log as `log_pruning.prune` does."""
        return prune_in_database(
            self, signer, before_ms=before_ms, now_ms=unix_ms(), on_progress=on_progress, trusted=trusted
        )

    def schema_state(self) -> SchemaState:
        """Return the version of the database's tables."""
        return status(self)

    def condition(self) -> DatabaseCondition:
        """Return the database's condition."""
        return read_condition(self)

    def check_tables(self) -> None:
        """Check that the database, if it answers, has tables that this version can use. Blocking. Raises
        `ConfigurationError`."""
        try:
            there = status(self)
        except SchemaUnknown as error:
            raise ConfigurationError(f"store.url: {error}", _RESTORE) from None
        except StoreUnavailable:
            return  # it may be back soon: calls are refused until then
        if not there.serves:
            found, known = there.found, there.known
            tables = "no tables of accredit" if found is None else f"tables of schema {found}, where {known} is known"
            is_newer = found is not None and found > known
            raise ConfigurationError(f"store.url: {self.name} has {tables}", _NEWER if is_newer else _MIGRATE)

    def list_source(self, opened: ProofStore) -> DatabaseLists | None:
        """Return the database's revocation lists, which are read over the opened store's connection; or None."""
        return DatabaseLists(self, opened.worker) if isinstance(opened, PostgresStore) else None

    def read_lists(self, *, untouched: bool = False) -> Sequence[FoundList]:
        """Return the revocation lists as they are, unverified. Blocking. Raises `StoreUnavailable`."""
        return read_lists_of_database(self)

    def change_list(self, issuer_id: str, change: Callable[[bytes | None], bytes]) -> ListChange:
        """Replace an issuer's list by what `change` returns for it. Blocking. Raises `StoreUnavailable`."""
        return change_list_in_database(self, issuer_id, change)


OpenStore = MemoryStore | SqliteStore | PostgresStore
"""An opened store. Its `skew_seconds` are None if it uses this machine's clock."""

LogStore = SqliteFile | PostgresDatabase
"""A store that can have a log."""

StoreUrl = InMemory | LogStore
"""A store of challenges, uses and tasks, and perhaps of records and revocation lists."""
