"""Sources of signed revocation lists: a file of one list, an SQLite file, a database. Blocking I/O; nothing is
verified.

A missing file of one list is an error (`MissingList`). So is a missing folder: a volume that was not mounted must not
look like a list without entries. A store that does not exist yet has no lists, and that is not an error."""

import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from accredit.base.files import open_file
from accredit.errors import StoreUnavailable
from accredit.limits import MAX_STATEMENT_BYTES
from accredit.stores.rules import FoundList
from accredit.stores.sqlite.revocation_lists import known_lists, list_versions, read_lists


class ListSource(Protocol):
    """A place of lists. `stamp` and `read` raise `StoreUnavailable`."""

    @property
    def name(self) -> str:
        """The place, for people."""
        ...

    def stamp(self) -> object:
        """Return, at little cost, a value that changes when the lists do."""
        ...

    def read(self) -> Sequence[FoundList]:
        """Return the current lists."""
        ...


class RemoteLists(ListSource, Protocol):
    """A source that must be fetched first. Both methods raise `StoreUnavailable`."""

    async def fetch(self) -> None:
        """Fetch the changes, which `stamp` and `read` then return."""
        ...

    def fetch_once(self) -> None:
        """Fetch as `fetch` does, but without an event loop, and leave nothing open."""
        ...


class MissingList(StoreUnavailable):
    """A file that does not exist. `remedy` says how to create it as an empty list."""

    def __init__(self, what: str, path: Path) -> None:
        super().__init__(what)
        self.remedy = (
            "restore it; where there was none yet,"
            f" `accredit revoke --list {shlex.quote(str(path))} --empty --issuer KEY` makes a signed one that is empty"
        )


class FileOfList:
    """A file that holds exactly one list."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = str(path)

    def stamp(self) -> object:
        """Return its device, inode, size and time of change."""
        try:
            status = self._path.stat()
        except OSError as error:
            raise self._unreadable(error) from None
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    def read(self) -> Sequence[FoundList]:
        """Return the one list."""
        try:
            with open_file(self._path) as file:
                # One byte more than may be decoded, so that a longer list is refused as too long.
                return [FoundList(file.read(MAX_STATEMENT_BYTES + 1))]
        except OSError as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: OSError) -> StoreUnavailable:
        what = f"{self._path}: can't be read: {error.strerror}"
        return MissingList(what, self._path) if isinstance(error, FileNotFoundError) else StoreUnavailable(what)


class StoredLists:
    """The lists in an SQLite store, one per issuer. The store's file need not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = str(path)

    def stamp(self) -> object:
        """Return the file's inode, and the lists' versions."""
        try:
            inode = self._path.stat().st_ino
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise StoreUnavailable(f"{self._path}: can't be read: {error.strerror}") from None
        return inode, list_versions(self._path)

    def read(self) -> Sequence[FoundList]:
        """Return all lists."""
        return read_lists(self._path) if self._path.exists() else ()


class KnownLists:
    """The lists of these issuers that an SQLite store remembers: all that its gateways have had in force, whatever
    their source."""

    def __init__(self, path: Path, issuers: Collection[str]) -> None:
        self._path = path
        self._issuers = issuers
        self.name = f"{path}: what it remembers to have been in force"

    def stamp(self) -> object:
        """Return a constant, so that the lists are read only once."""
        return ()

    def read(self) -> Sequence[FoundList]:
        """Return all remembered lists."""
        return known_lists(self._path, self._issuers) if self._path.exists() else ()
