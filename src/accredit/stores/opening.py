"""From a store's URL to a store. Opens nothing yet: a store opens its file on first use, after processes have
forked."""

from pathlib import Path

from accredit.errors import ConfigurationError
from accredit.ports import ProofStore, TaskStore
from accredit.stores.memory import MemoryStore
from accredit.stores.sqlite.store import SqliteStore
from accredit.stores.tasks import MemoryTasks, SqliteTasks

_MEMORY = "memory:"
_SQLITE = "sqlite:///"
_REMEDY = "write memory: for one process, or sqlite:///FILE for all processes of this machine"


def open_store(url: str, folder: Path) -> ProofStore:
    """Return the store that a URL names; a file's path is relative to `folder`. Raises `ConfigurationError`."""
    path = store_file(url, folder)
    return MemoryStore() if path is None else SqliteStore(path)


def open_tasks(url: str, folder: Path) -> TaskStore:
    """Return the task store in the store that a URL names. Raises `ConfigurationError`."""
    path = store_file(url, folder)
    return MemoryTasks() if path is None else SqliteTasks(path)


def store_file(url: str, folder: Path) -> Path | None:
    """Return the file of an SQLite store, or None for a store in memory. Raises `ConfigurationError`."""
    if url == _MEMORY:
        return None
    name = url.removeprefix(_SQLITE)
    if name == url:
        scheme = url.partition(":")[0]
        raise ConfigurationError(f"store.url: {scheme!r} is no store of this version of accredit", _REMEDY)
    if not name.isprintable() or not name.strip("/") or name.endswith("/") or "?" in name or "#" in name:
        raise ConfigurationError(f"store.url: {url!r} names no file", _REMEDY)
    path = folder / name
    if not path.parent.is_dir():
        raise ConfigurationError(f"store.url: there is no folder {path.parent}", "make it, or name another file")
    return path
