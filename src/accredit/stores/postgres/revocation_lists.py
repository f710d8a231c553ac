"""Signed revocation lists in a PostgreSQL database, one per issuer, in wire form. Nothing is verified."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from accredit.stores.postgres.address import DatabaseAddress
from accredit.stores.postgres.driver import Connection
from accredit.stores.postgres.session import check, check_schema, run_once
from accredit.stores.postgres.worker import Batch, Worker
from accredit.stores.rules import FoundList, ListChange

_Versions = tuple[tuple[str, int], ...]

_VERSIONS = "SELECT issuer_id, version FROM revocations ORDER BY issuer_id"
_LISTS = "SELECT list, issuer_id FROM revocations ORDER BY issuer_id"
# Locks an issuer's row, whether or not it existed.
_LOCK = """
INSERT INTO revocations VALUES ($1, 0, '') ON CONFLICT (issuer_id) DO UPDATE SET version = revocations.version
RETURNING version, list"""
_CHANGE = "UPDATE revocations SET version = version + 1, list = $2 WHERE issuer_id = $1"


class _Seen(NamedTuple):
    versions: _Versions
    lists: tuple[FoundList, ...] | None
    """The lists; None if their versions have not changed."""


class DatabaseLists:
    """The lists in a database, as the last `fetch` found them. They are read over the connection of the database's
    store."""

    def __init__(self, database: DatabaseAddress, worker: Worker) -> None:
        self.name = database.name
        self._database = database
        self._worker = worker
        self._kind = Batch(_look, True)
        self._versions: _Versions = ()
        self._lists: tuple[FoundList, ...] = ()

    async def fetch(self) -> None:
        """Fetch changes. Raises `StoreUnavailable`."""
        self._take(await self._worker.run(self._kind, self._versions))

    def fetch_once(self) -> None:
        """Fetch changes over a connection that is opened for this alone. Blocking. Raises `StoreUnavailable`."""

        async def look(connection: Connection) -> _Seen:
            await check(self._database, connection)
            return (await _look(connection, [self._versions]))[0]

        self._take(run_once(self._database, look))

    def stamp(self) -> object:
        """Return the lists' versions."""
        return self._versions

    def read(self) -> Sequence[FoundList]:
        """Return all lists."""
        return self._lists

    def _take(self, seen: _Seen) -> None:
        self._versions = seen.versions
        self._lists = self._lists if seen.lists is None else seen.lists


def read_lists(database: DatabaseAddress) -> Sequence[FoundList]:
    """Return all lists, over a connection that is opened for this alone. Blocking. Raises `StoreUnavailable`."""

    async def read(connection: Connection) -> Sequence[FoundList]:
        await check_schema(connection)
        return [FoundList(*row) for row in await connection.fetch(_LISTS)]

    return run_once(database, read)


def change_list(database: DatabaseAddress, issuer_id: str, change: Callable[[bytes | None], bytes]) -> ListChange:
    """Replace an issuer's list by what `change` returns when given the current one. Blocking.

    Concurrent changes of a list wait for each other. Raises `StoreUnavailable`, and our own errors from `change`.
    """

    async def replace(connection: Connection) -> ListChange:
        await check_schema(connection)
        async with connection.transaction():
            ((version, held),) = await connection.fetch(_LOCK, issuer_id)
            before = held if version else None
            after = change(before)
            if after != before:
                await connection.fetch(_CHANGE, issuer_id, after)
        return ListChange(before, after)

    return run_once(database, replace)


async def _look(connection: Connection, known: Sequence[_Versions]) -> Sequence[_Seen]:
    versions = tuple((issuer_id, version) for issuer_id, version in await connection.fetch(_VERSIONS))
    if versions == known[0]:
        return [_Seen(versions, None)] * len(known)
    lists = tuple(FoundList(*row) for row in await connection.fetch(_LISTS))
    return [_Seen(versions, lists)] * len(known)
