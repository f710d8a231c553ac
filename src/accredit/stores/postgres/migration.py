"""Creates a database's tables and roles, and reads its version. Blocking, except for coroutines.

- [transaction] The steps of the schema run in one transaction, which also gives the roles their rights. So there are
  never tables that gateways may not use. A migration waits until any concurrent one is finished, however long that
  takes. For a table's lock it waits as briefly as any statement: gateways queue behind it.
- [newer-version] A database of a newer version is left as it is.
- [roles] Roles are created only if this user has the right to, and get their rights only from the owner of all tables.
  Otherwise the statements for them are returned, for an administrator.
"""

import secrets
from typing import NamedTuple

from accredit.stores.minted import KEY_BYTES
from accredit.stores.postgres.address import DatabaseAddress
from accredit.stores.postgres.driver import INSUFFICIENT_PRIVILEGE, Connection, DatabaseFailed
from accredit.stores.postgres.forgetting import CLOCK
from accredit.stores.postgres.schema import ADMIN, GATEWAY, IS_OWNER, MAKE_ROLES, OLDEST, RIGHTS, SCHEMA, VERSION
from accredit.stores.postgres.session import check_schema, run_once, schema_version
from accredit.stores.rules import SchemaState

RESTORED_SECONDS = 300
"""How long a restored database refuses all use. It does not know which proofs were spent after its copy was made. After
this time, such proofs are no longer fresh (`CHALLENGE_WINDOW_SECONDS`)."""


_LOCK = ("SET lock_timeout = 0", "SELECT pg_advisory_lock(hashtext('accredit store migrate'))", "RESET lock_timeout")
"""SQL: wait for the lock of migrations and take it. It is held until the connection ends."""
_ROLES = "SELECT rolname FROM pg_roles WHERE rolname = ANY($1::text[])"
_NOT_BEFORE = f"""
INSERT INTO store_state VALUES ('not_before', {CLOCK} + $1)
ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value RETURNING value"""  # noqa: S608 - of constants


class Migrated(NamedTuple):
    """What a migration did: the version of the tables before (None if there were none), the version now, and the
    statements that an administrator still has to run."""

    before: int | None
    known: int
    left_over: tuple[str, ...]


def migrate(database: DatabaseAddress) -> Migrated:
    """Create the tables and roles that are missing. Raises `StoreUnavailable`."""
    return run_once(database, _migrate)


def status(database: DatabaseAddress) -> SchemaState:
    """Return the version of the existing tables. Raises `StoreUnavailable`."""
    return run_once(database, _status)


def hold_after_restore(database: DatabaseAddress) -> int:
    """Make gateways refuse all use of the database for some minutes. Return until when, in unix seconds. Raises
    `StoreUnavailable`."""
    return run_once(database, _hold_after_restore)


async def _migrate(connection: Connection) -> Migrated:
    for statement in _LOCK:
        await connection.fetch(statement)
    before = await _version(connection)
    if before is not None and before > VERSION:
        return Migrated(before, VERSION, ())
    left_over = await _make_roles(connection)
    async with connection.transaction():
        for statement in (statement for step in SCHEMA[before or 0 :] for statement in step):
            await connection.fetch(statement)
        if before is None:
            await connection.fetch("INSERT INTO accredit_schema VALUES ($1)", VERSION)
            await connection.fetch("INSERT INTO challenge_key VALUES (1, $1)", secrets.token_bytes(KEY_BYTES))
        elif before < VERSION:
            await connection.fetch("UPDATE accredit_schema SET version = $1", VERSION)
        ((is_owner,),) = await connection.fetch(IS_OWNER)
        if left_over or not is_owner:
            left_over = (*left_over, *RIGHTS)
        else:
            for statement in RIGHTS:
                await connection.fetch(statement)
    await _may(connection, "SELECT log_make_days()")
    return Migrated(before, VERSION, left_over)


async def _version(connection: Connection) -> int | None:
    ((table,),) = await connection.fetch("SELECT to_regclass('accredit_schema')")
    return await schema_version(connection) if table is not None else None


async def _make_roles(connection: Connection) -> tuple[str, ...]:
    """Create the roles that are missing. Return the statements that this user has no right to run."""
    there = {row[0] for row in await connection.fetch(_ROLES, [GATEWAY, ADMIN])}
    missing = [statement for role, statement in MAKE_ROLES.items() if role not in there]
    return tuple([statement for statement in missing if not await _may(connection, statement)])


async def _may(connection: Connection, statement: str) -> bool:
    try:
        await connection.fetch(statement)
    except DatabaseFailed as error:
        if error.sqlstate != INSUFFICIENT_PRIVILEGE:
            raise
        return False
    return True


async def _status(connection: Connection) -> SchemaState:
    return SchemaState(await schema_version(connection), VERSION, OLDEST)


async def _hold_after_restore(connection: Connection) -> int:
    await check_schema(connection)
    ((until,),) = await connection.fetch(_NOT_BEFORE, RESTORED_SECONDS)
    return until
