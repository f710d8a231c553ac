"""Parses a store's URL, and opens the store.

A store opens its file, or its connection, on first use, after processes have forked. Only revocation lists, and whether
a database has our tables, are read at once.

Another kind of store is another member of `StoreUrl`: each `match` over it, here and where records are kept, must then
handle that kind.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from accredit.errors import ConfigurationError, StoreUnavailable
from accredit.ports import ProofStore, TaskStore
from accredit.ratify import HybridPublicKey
from accredit.stores.audit_log.file_sink import FileSink
from accredit.stores.audit_log.reader import LogFile
from accredit.stores.audit_log.reading import LogReader
from accredit.stores.audit_log.shipping import Sink
from accredit.stores.memory import MemoryStore
from accredit.stores.postgres.address import SCHEME, PostgresDatabase, parse_address
from accredit.stores.postgres.driver import require_driver
from accredit.stores.postgres.forgetting import CLOCK
from accredit.stores.postgres.log_reader import LogDatabase
from accredit.stores.postgres.log_sink import DatabaseSink
from accredit.stores.postgres.migration import status
from accredit.stores.postgres.revocation_lists import DatabaseLists
from accredit.stores.postgres.revocation_lists import read_lists as read_lists_of_database
from accredit.stores.postgres.store import PostgresStore
from accredit.stores.postgres.tasks import PostgresTasks
from accredit.stores.revocation import RevocationLists
from accredit.stores.rules import NEVER
from accredit.stores.sqlite.revocation_lists import read_lists
from accredit.stores.sqlite.store import SqliteStore
from accredit.stores.tasks import MemoryTasks, SqliteTasks

_MEMORY = "memory:"
_SQLITE = "sqlite:///"
_REMEDY = (
    "write memory: for one process, sqlite:///FILE for all processes of this machine, or postgresql://USER@HOST/DATABASE"
    " for many machines"
)
_MIGRATE = "accredit store migrate makes the tables, and needs a user who may"

_NEWER = "install the accredit that made them, or restore what there was before"


class InMemory(Struct, frozen=True):
    """`memory:`, a store of this process alone."""


class SqliteFile(Struct, frozen=True):
    """`sqlite:///FILE`, a store for all processes of this machine. The file may not exist yet; its folder does."""

    path: Path

    @property
    def name(self) -> str:
        """The file, for people and logs."""
        return str(self.path)


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
        return parse_address(url)
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


def open_store(url: StoreUrl, since: int = NEVER) -> ProofStore:
    """Open the store of challenges and uses. A new one knows spent challenges `since` now."""
    match url:
        case InMemory():
            return MemoryStore(since=since)
        case SqliteFile(path):
            return SqliteStore(path, since=since)
        case PostgresDatabase():
            return PostgresStore(url, since=CLOCK)


def open_tasks(url: StoreUrl) -> TaskStore:
    """Open the store of tasks."""
    match url:
        case InMemory():
            return MemoryTasks()
        case SqliteFile(path):
            return SqliteTasks(path)
        case PostgresDatabase():
            return PostgresTasks(url)


def open_log(store: LogStore) -> LogReader:
    """Open the log in a store for reading."""
    return LogFile(store.path) if isinstance(store, SqliteFile) else LogDatabase(store)


def open_sink(store: LogStore, name: str) -> Sink:
    """Return the sink with this name for a store's log."""
    return FileSink(store.path, name) if isinstance(store, SqliteFile) else DatabaseSink(store, name)


def open_revocations(
    url: StoreUrl,
    opened: ProofStore,
    files: Iterable[Path],
    keys: Mapping[str, HybridPublicKey],
    on_problem: Callable[[str], None],
    before: RevocationLists | None = None,
) -> RevocationLists:
    """Read the revocation lists in `files` and in the opened store; `before` are the previous ones. Raises
    `ConfigurationError`."""
    match url:
        case InMemory():
            store = None
        case SqliteFile(path):
            store = path
        case PostgresDatabase():
            store = DatabaseLists(url, opened.worker) if isinstance(opened, PostgresStore) else None
    lists = RevocationLists(files, keys, store=store, on_problem=on_problem, before=before)
    lists.load()
    return lists


def stored_lists(store: LogStore) -> Sequence[bytes]:
    """Return the revocation lists in a store, unverified. Blocking. Raises `StoreUnavailable`."""
    if isinstance(store, SqliteFile):
        return read_lists(store.path) if store.path.exists() else ()
    return read_lists_of_database(store)


def check_store(url: StoreUrl) -> None:
    """Check that a database, if it answers, has the tables of a known version. Blocking. Raises
    `ConfigurationError`."""
    if not isinstance(url, PostgresDatabase):
        return
    try:
        there = status(url)
    except StoreUnavailable:
        return  # it may be back soon: calls are refused until then
    if not there.serves:
        found, known = there
        tables = "no tables of accredit" if found is None else f"tables of schema {found}, where {known} is known"
        is_newer = found is not None and found > known
        raise ConfigurationError(f"store.url: {url.name} has {tables}", _NEWER if is_newer else _MIGRATE)
