"""Finds the database's primary, and checks that its commits survive a failure.

In this order; any failure is a `StoreUnavailable`:

- [all-hosts] All hosts are asked at once: a machine that is cut off does not answer, and must not delay the others.
- [primary] A host that is a standby, or read-only, does not count.
- [timeline] Of several primaries, the one on the latest timeline counts. Each promotion starts a new timeline, so the
  others are former primaries. None counts if its timeline is earlier than one that this process has seen.
- [schema] The schema is the one that this version knows (`schema.VERSION`), or the one before.
- [durability] With `replicas` "required", `fsync` and `full_page_writes` are on, and a commit waits for a standby. For
  this connection `synchronous_commit` is set to `on`, or to `remote_apply` where that is the default.
- [clocks] The clocks of this machine and the database differ by a few seconds at most.
- [restoration] For some minutes after the database was restored (`store restored`), it is not used.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Set
from concurrent.futures import Future
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from accredit.base.clock import unix_ms
from accredit.base.log_events import log_event
from accredit.errors import StoreUnavailable
from accredit.limits import CLOCK_SKEW_WARN_SECONDS
from accredit.stores.postgres.address import DatabaseAddress, DatabaseHost
from accredit.stores.postgres.driver import STORE_CONNECT_SECONDS, UNDEFINED_TABLE, Connection, DatabaseFailed, connect
from accredit.stores.postgres.schema import OLDEST, VERSION

STORE_SECOND_PRIMARY_SECONDS = 0.1
"""How long to wait for the other hosts once one has said that it is the primary: another one may be the primary by
now."""
CLOCK_SKEW_SECONDS = 5.0
"""How far the clocks of a gateway and its database may differ. If they differ more, calls are refused."""


T = TypeVar("T")

_KEPT_BY_STANDBY = ("on", "remote_apply")
_logger = logging.getLogger("accredit.stores")

_ROLE = """
SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
  CASE WHEN pg_is_in_recovery() THEN '' ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END"""
_COMMIT = "SELECT current_setting('synchronous_commit')"
_SAFETY = """
SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_standby_names')"""
_STATE = """
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
  (SELECT value FROM store_state WHERE name = 'not_before')"""


class SchemaUnknown(StoreUnavailable):
    """The database has no tables of accredit, or those of a version that this one can't use, or of two restores."""


class ClocksDiffer(StoreUnavailable):
    """The database's clock and this machine's differ too much, by `seconds` at least."""

    def __init__(self, reason: str, seconds: float) -> None:
        super().__init__(reason)
        self.seconds = seconds


class Session(NamedTuple):
    """A connection to the primary, and its timeline."""

    connection: Connection
    timeline: int


async def open_session(database: DatabaseAddress, latest_timeline: int = 0) -> Session:
    """Connect to the primary by [all-hosts], [primary] and [timeline]. Its safety is not checked yet. Raises
    `StoreUnavailable`."""
    clock = asyncio.get_running_loop().time
    attempts = {asyncio.create_task(_primary(database, host)) for host in database.hosts}
    pending, give_up, found = attempts, clock() + 2 * STORE_CONNECT_SECONDS, False
    try:
        while pending:
            done, pending = await asyncio.wait(pending, timeout=give_up - clock(), return_when=asyncio.FIRST_COMPLETED)
            if not done:
                break
            if not found and any(each.exception() is None for each in done):
                found, give_up = True, clock() + STORE_SECOND_PRIMARY_SECONDS
    except asyncio.CancelledError:
        for each in (await _cancel_attempts(attempts))[0]:
            each.connection.terminate()
        raise
    sessions, problems = await _cancel_attempts(attempts)
    latest = max(sessions, key=lambda each: each.timeline, default=None)
    for each in sessions:
        if each is not latest or each.timeline < latest_timeline:
            each.connection.terminate()
    if latest is None:
        raise StoreUnavailable("; ".join(sorted(problems)) or f"{database.name} has not answered")
    if latest.timeline < latest_timeline:
        raise StoreUnavailable(f"{database.name}: what answers was the primary once, and another one is")
    return latest


class Checked(NamedTuple):
    """The result of a check: by how many seconds the clocks differ, at least, and the version of the tables."""

    skew_seconds: float
    schema: int


async def check(database: DatabaseAddress, connection: Connection) -> Checked:
    """Check the rules from [schema] to [restoration]. Raises `StoreUnavailable`, and `ClocksDiffer` by [clocks]."""
    schema = await check_schema(connection)
    if database.replicas == "required":
        fsync, full_pages, standbys = (await connection.fetch(_SAFETY))[0]
        if (fsync, full_pages) != ("on", "on") or not standbys:
            raise StoreUnavailable(
                f"{database.name}: what it commits is on no other machine (fsync {fsync}, full_page_writes"
                f' {full_pages}, synchronous_standby_names {standbys or "empty"}), and store.replicas is "required"'
            )
    ((commit,),) = await connection.fetch(_COMMIT)
    if commit not in _KEPT_BY_STANDBY:
        await connection.fetch("SET synchronous_commit = on")
    before = unix_ms()
    ((there, not_before),) = await connection.fetch(_STATE)
    off = max(before - there, there - unix_ms(), 0) / 1000
    _check_clock(database, off)
    if not_before is not None and there < not_before * 1000:
        raise StoreUnavailable(
            f"{database.name} was restored from a copy: what was spent after it was made is good again until"
            f" {not_before} (unix seconds)"
        )
    return Checked(off, schema)


async def check_schema(connection: Connection) -> int:
    """Return the version of the tables if it is supported ([schema]). Raises `SchemaUnknown`."""
    version = await schema_version(connection)
    if version is None:
        raise SchemaUnknown(f"{connection.name} has no tables of accredit")
    if not OLDEST <= version <= VERSION:
        known = f"{OLDEST} to {VERSION}"
        raise SchemaUnknown(f"{connection.name} has the tables of another accredit (schema {version}, not {known})")
    return version


def run_once(database: DatabaseAddress, main: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
    """Run `main` with a connection that is opened for it alone, and whose safety is not checked. Blocking. Raises
    `StoreUnavailable`."""

    async def connected() -> T:
        session = await open_session(database)
        try:
            return await main(session.connection)
        finally:
            await session.connection.aclose()

    def work() -> None:
        try:
            answer.set_result(asyncio.run(connected()))
        except BaseException as error:
            answer.set_exception(error)

    answer: Future[T] = Future()
    # The caller's thread may have a running event loop. As a daemon, a silent database keeps no process alive.
    Thread(target=work, daemon=True).start()
    return answer.result()


async def schema_version(connection: Connection) -> int | None:
    """Return the version of the tables, or None if there are no tables. Raises `SchemaUnknown` if they do not say one
    version."""
    try:
        rows = await connection.fetch("SELECT version FROM accredit_schema")
    except DatabaseFailed as error:
        if error.sqlstate == UNDEFINED_TABLE:
            return None
        raise
    if len(rows) != 1:
        raise SchemaUnknown(
            f"{connection.name}: accredit_schema has {len(rows)} rows instead of one, as after a restore into a"
            " database that was not empty"
        )
    version: int = rows[0][0]
    return version


def _check_clock(database: DatabaseAddress, off: float) -> None:
    """Check how far the clocks differ. `off` is by how many seconds the database's time lies outside the span in which,
    by our clock, it was queried."""
    if off > CLOCK_SKEW_SECONDS:
        raise ClocksDiffer(f"{database.name}: its machine's clock and this one's differ by {off:.1f} s", off)
    if off > CLOCK_SKEW_WARN_SECONDS:
        log_event(_logger, logging.WARNING, "the database's clock and this machine's differ", seconds=round(off, 1))


async def _primary(database: DatabaseAddress, host: DatabaseHost) -> Session:
    connection = await connect(database, host)
    try:
        ((no_primary, timeline),) = await connection.fetch(_ROLE)
        if no_primary:
            raise StoreUnavailable(f"{database.name}: {host.name}:{host.port} is a standby, or read-only")
    except BaseException:
        connection.terminate()
        raise
    return Session(connection, int(timeline, 16))


async def _cancel_attempts(attempts: Set[asyncio.Task[Session]]) -> tuple[list[Session], list[str]]:
    """Cancel the attempts that are still running. Return the results of the others: sessions, and reasons of
    failures."""
    for each in attempts:
        each.cancel()
    await asyncio.wait(attempts)
    ended = [each for each in attempts if not each.cancelled()]
    return (
        [each.result() for each in ended if each.exception() is None],
        [str(error) for each in ended if (error := each.exception()) is not None],
    )
