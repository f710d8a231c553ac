"""Parses a store's URL, and opens the store.

A store opens its file, or its connection, on first use, after processes have forked. Only revocation lists, and whether
a database has our tables, are read at once.

Another kind of store is another member of `StoreUrl`. What it can do are its methods: nobody else asks for its class.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import disk_usage
from socket import gethostname
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import asdict

from accredit.attest import LogKey, LogSigner
from accredit.base.addresses import is_loopback_host
from accredit.base.clock import unix_ms
from accredit.errors import ConfigurationError, StoreUnavailable
from accredit.ports import ProofStore, TaskStore
from accredit.ratify import HybridPublicKey
from accredit.stores.audit_log.author import Keys
from accredit.stores.audit_log.file_sink import FileSink
from accredit.stores.audit_log.pruning import PruneReport, prune
from accredit.stores.audit_log.reader import LogFile
from accredit.stores.audit_log.reading import LogReader
from accredit.stores.audit_log.requests import LOG_SILENT_SECONDS, DatabaseLog, FileLog, LogPlace
from accredit.stores.audit_log.shipping import Sink
from accredit.stores.memory import MemoryStore
from accredit.stores.postgres.address import SCHEME, DatabaseAddress, parse_address
from accredit.stores.postgres.condition import DatabaseCondition, read_condition
from accredit.stores.postgres.driver import require_driver
from accredit.stores.postgres.forgetting import CLOCK
from accredit.stores.postgres.log_pruning import prune as prune_in_database
from accredit.stores.postgres.log_reader import LogDatabase
from accredit.stores.postgres.log_sink import DatabaseSink
from accredit.stores.postgres.migration import status
from accredit.stores.postgres.revocation_lists import DatabaseLists
from accredit.stores.postgres.revocation_lists import change_list as change_list_in_database
from accredit.stores.postgres.revocation_lists import read_lists as read_lists_of_database
from accredit.stores.postgres.store import PostgresStore
from accredit.stores.postgres.tasks import PostgresTasks
from accredit.stores.revocation import RevocationLists
from accredit.stores.rules import NEVER, DiskSpace, ListChange, SchemaState
from accredit.stores.sqlite.revocation_lists import change_list, read_lists, read_untouched_lists
from accredit.stores.sqlite.schema import SCHEMA
from accredit.stores.sqlite.store import SqliteStore
from accredit.stores.sqlite.untouched import is_still, schema_version
from accredit.stores.tasks import MemoryTasks, SqliteTasks

_MEMORY = "memory:"
_SQLITE = "sqlite:///"
_REMEDY = (
    "write memory: for one process, sqlite:///FILE for all processes of this machine, or postgresql://USER@HOST/DATABASE"
    " for many machines"
)
_MIGRATE = "accredit store migrate makes the tables, and needs a user who may"

_NEWER = "install the accredit that made them, or restore what there was before"
_ENCRYPTED = ("require", "verify-ca", "verify-full")
"""Values of `sslmode` that guarantee encryption; with the others, an attacker on the path can turn it off."""


class _Store(Struct, frozen=True):
    """What any kind has and can do, as one has it that is in memory."""

    is_shared: ClassVar[bool] = False
    """Whether gateways on many machines have it together."""

    @property
    def lasting(self) -> "LogStore | None":
        """Itself, if it outlives processes, and so may have a log and revocation lists."""

    @property
    def file(self) -> Path | None:
        """Its file on this machine."""

    @property
    def as_database(self) -> "PostgresDatabase | None":
        """Itself, if it is a database."""

    @property
    def unencrypted_host(self) -> str | None:
        """A host elsewhere to which connections may be without TLS."""

    def schema_state(self) -> SchemaState | None:
        """Return the version of its tables. Blocking; changes nothing. Raises `StoreUnavailable`."""

    def condition(self) -> DatabaseCondition | None:
        """Return what its database says of itself. Blocking. Raises `StoreUnavailable`."""

    def log_bytes(self) -> int | None:
        """Return the size of its file, with what is not yet in it."""

    def disk_space(self) -> DiskSpace | None:
        """Return the space where its file is; None if that is on no disk of this machine. Raises `OSError`."""

    def check_tables(self) -> None:
        """Look whether a database that answers has the tables that are known here. Blocking. Raises
        `ConfigurationError`."""

    def list_source(self, opened: ProofStore) -> Path | DatabaseLists | None:
        """Return where the revocation lists of the store that was opened are."""


class InMemory(_Store, frozen=True):
    """`memory:`, a store of this process alone."""

    def open(self, since: int = NEVER) -> ProofStore:
        """Return the memory of challenges and uses. If it is new, it knows what was spent `since` now."""
        return MemoryStore(since=since)

    def open_tasks(self) -> TaskStore:
        """Return the memory of tasks."""
        return MemoryTasks()


class SqliteFile(_Store, frozen=True):
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
    def file(self) -> Path:
        """The file."""
        return self.path

    def open(self, since: int = NEVER) -> ProofStore:
        """As `InMemory.open`."""
        return SqliteStore(self.path, since=since)

    def open_tasks(self) -> TaskStore:
        """Return the memory of tasks."""
        return SqliteTasks(self.path)

    def open_log(self, patience: float | None = None, *, untouched: bool = False) -> LogReader:
        """Return the log, to be read; `untouched` if nothing may be made beside the file."""
        return LogFile(self.path, still=untouched and is_still(self.path))

    def open_sink(self, name: str) -> Sink:
        """Return the sink of the log that has this name."""
        return FileSink(self.path, name)

    def log_place(self, gateway: str, trusted: tuple[LogKey, ...], *, durable: bool) -> LogPlace:
        """Return where a gateway's log is written; `trusted` are the keys whose signatures count."""
        return FileLog(self.path, "FULL" if durable else "NORMAL", gateway, trusted)

    def log_bytes(self) -> int:
        """Return the size of the file, with what is not yet in it."""
        total = 0
        for path in (self.path, self.path.with_name(f"{self.path.name}-wal")):
            with suppress(OSError):
                total += path.stat().st_size
        return total

    def schema_state(self) -> SchemaState:
        """Return the version of the file's tables."""
        found = schema_version(self.path) if os.path.lexists(self.path) else None
        return SchemaState(found, len(SCHEMA))

    def disk_space(self) -> DiskSpace:
        """Return the space where the file is, or will be. Raises `OSError`."""
        found = disk_usage(self.path.parent)
        return DiskSpace(found.free, found.total)

    def prune(
        self, signer: LogSigner, trusted: Keys, before_ms: int, on_progress: Callable[[int], None]
    ) -> PruneReport:
        """Prune the log as `audit_log.pruning.prune` does."""
        return prune(self.path, signer, before_ms=before_ms, now_ms=unix_ms(), on_progress=on_progress, trusted=trusted)

    def list_source(self, opened: ProofStore) -> Path:
        """Return the file."""
        return self.path

    def read_lists(self, *, untouched: bool = False) -> Sequence[bytes]:
        """Return the revocation lists as they are, unverified; `untouched` if the file has to stay as it is. Blocking.
        Raises `StoreUnavailable`."""
        if untouched:
            return read_untouched_lists(self.path) if os.path.lexists(self.path) else ()
        return read_lists(self.path) if self.path.exists() else ()

    def change_list(self, issuer_id: str, change: Callable[[bytes | None], bytes]) -> ListChange:
        """Replace an issuer's list by what `change` returns for it. Blocking. Raises `StoreUnavailable`."""
        return change_list(self.path, issuer_id, change)


class PostgresDatabase(DatabaseAddress, _Store, frozen=True):
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
        """A host elsewhere to which connections may be without TLS."""
        elsewhere = (each.name for each in self.hosts if not (each.name[0] == "/" or is_loopback_host(each.name)))
        return None if dict(self.tls).get("sslmode") in _ENCRYPTED else next(elsewhere, None)

    def open(self, since: int = NEVER) -> ProofStore:
        """Return the memory of challenges and uses, which knows by the database's clock what was spent."""
        return PostgresStore(self, since=CLOCK)

    def open_tasks(self) -> TaskStore:
        """Return the memory of tasks."""
        return PostgresTasks(self)

    def open_log(self, patience: float | None = None, *, untouched: bool = False) -> LogReader:
        """Return the log, to be read; with `patience` no question takes longer, in seconds."""
        return LogDatabase(self, patience=patience)

    def open_sink(self, name: str) -> Sink:
        """Return the sink of the log that has this name."""
        return DatabaseSink(self, name)

    def log_place(self, gateway: str, trusted: tuple[LogKey, ...], *, durable: bool) -> LogPlace:
        """Return where a gateway's log is written; `trusted` are the keys whose signatures count."""
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
        """Return what the database says of itself."""
        return read_condition(self)

    def check_tables(self) -> None:
        """Look whether a database that answers has the tables that are known here. Blocking. Raises
        `ConfigurationError`."""
        try:
            there = status(self)
        except StoreUnavailable:
            return  # it may be back soon: calls are refused until then
        if not there.serves:
            found, known = there.found, there.known
            tables = "no tables of accredit" if found is None else f"tables of schema {found}, where {known} is known"
            is_newer = found is not None and found > known
            raise ConfigurationError(f"store.url: {self.name} has {tables}", _NEWER if is_newer else _MIGRATE)

    def list_source(self, opened: ProofStore) -> DatabaseLists | None:
        """Return the lists, over the connection of what was opened."""
        return DatabaseLists(self, opened.worker) if isinstance(opened, PostgresStore) else None

    def read_lists(self, *, untouched: bool = False) -> Sequence[bytes]:
        """Return the revocation lists as they are, unverified. Blocking. Raises `StoreUnavailable`."""
        return read_lists_of_database(self)

    def change_list(self, issuer_id: str, change: Callable[[bytes | None], bytes]) -> ListChange:
        """Replace an issuer's list by what `change` returns for it. Blocking. Raises `StoreUnavailable`."""
        return change_list_in_database(self, issuer_id, change)


LogStore = SqliteFile | PostgresDatabase
"""A store that can have a log."""

StoreUrl = InMemory | LogStore
"""A store of challenges, uses and tasks, and perhaps of records and revocation lists."""


def parse_store_url(url: str, folder: Path) -> StoreUrl:
    """Parse a store's URL; a file's path is relative to `folder`. Raises `ConfigurationError`."""
    if url == _MEMORY:
        return InMemory()
    if url.startswith(SCHEME):
        require_driver()
        return PostgresDatabase(**asdict(parse_address(url)))
    name = url.removeprefix(_SQLITE)
    if name == url:
        scheme = url.partition(":")[0]
        raise ConfigurationError(f"store.url: {scheme!r} is no store of this version of accredit", _REMEDY)
    if not name.isprintable() or not name.strip("/") or name.endswith("/") or "?" in name or "#" in name:
        raise ConfigurationError(f"store.url: {url!r} names no file", _REMEDY)
    path = folder / name
    if not path.parent.is_dir():
        raise ConfigurationError(f"store.url: there is no folder {path.parent}", "make it, or name another file")
    return SqliteFile(path)


def open_revocations(
    url: StoreUrl,
    opened: ProofStore,
    files: Iterable[Path],
    keys: Mapping[str, HybridPublicKey],
    on_problem: Callable[[str], None],
    before: RevocationLists | None = None,
) -> RevocationLists:
    """Return the revocation lists in `files` and in the store that was opened, read; `before` is who had them until
    now. Raises `ConfigurationError`."""
    lists = RevocationLists(files, keys, store=url.list_source(opened), on_problem=on_problem, before=before)
    lists.load()
    return lists
