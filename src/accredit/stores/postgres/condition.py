"""Reads a database's condition: its tables, safety and clock, and the rights of the connecting user. Blocking; nothing
is changed."""

import asyncio

from msgspec import Struct

from accredit.base.clock import unix_ms
from accredit.errors import StoreUnavailable
from accredit.limits import DOCTOR_DATABASE_SECONDS
from accredit.stores.postgres.address import DatabaseAddress
from accredit.stores.postgres.driver import Connection
from accredit.stores.postgres.schema import ADMIN, KEPT, OLDEST, READ_ONLY, VERSION
from accredit.stores.postgres.session import run_once, schema_version
from accredit.stores.rules import SchemaState

_SAFETY = """
SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_standby_names'),
  EXISTS (SELECT FROM pg_roles WHERE rolsuper AND pg_has_role(current_user, oid, 'MEMBER')),
  EXISTS (SELECT FROM pg_roles WHERE rolcreaterole AND pg_has_role(current_user, oid, 'MEMBER')),
  EXISTS (SELECT FROM pg_roles WHERE rolname = $1 AND pg_has_role(current_user, oid, 'MEMBER')),
  EXISTS (SELECT FROM pg_database, aclexplode(coalesce(datacl, acldefault('d', datdba)))
    WHERE datname = current_database() AND grantee = 0 AND privilege_type = 'CONNECT'),
  (extract(epoch FROM clock_timestamp()) * 1000)::bigint"""
# What was recorded, and what else a gateway only reads: the parts of the log, too, each of which has rights of its own,
# and columns. A role counts that this user may become (SET ROLE), also where it does not inherit that one's rights.
_MAY_CHANGE = """
SELECT DISTINCT t.name FROM unnest($1::text[]) AS t (name)
JOIN pg_class c ON c.oid = to_regclass('public.' || t.name)
  OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass('public.' || t.name))
JOIN pg_roles r ON pg_has_role(current_user, r.oid, 'MEMBER')
WHERE has_table_privilege(r.oid, c.oid, 'DELETE, TRUNCATE') OR has_any_column_privilege(r.oid, c.oid, 'UPDATE')
  OR r.oid = c.relowner
ORDER BY 1"""


class DatabaseCondition(Struct, frozen=True, kw_only=True):
    """A database's condition. `schema` is the state of its tables. `standbys` are the standbys that a commit waits for.
    `powers` are the connecting user's rights beyond those of a gateway. `is_open` says whether every user of the server
    may connect. `clock_off` is by how many seconds, at least, the clocks of this machine and the database differ."""

    schema: SchemaState
    is_synced: bool
    standbys: str
    powers: tuple[str, ...]
    is_open: bool
    clock_off: float


def read_condition(database: DatabaseAddress) -> DatabaseCondition:
    """Ask the database for its condition, for some seconds at most. Raises `StoreUnavailable`."""

    async def asked(connection: Connection) -> DatabaseCondition:
        try:
            async with asyncio.timeout(DOCTOR_DATABASE_SECONDS):
                return await _read(connection)
        except TimeoutError:
            raise StoreUnavailable(f"{database.name} has not answered in {DOCTOR_DATABASE_SECONDS:g} s") from None

    return run_once(database, asked)


async def _read(connection: Connection) -> DatabaseCondition:
    schema = SchemaState(await schema_version(connection), VERSION, OLDEST)
    changed = [name for (name,) in await connection.fetch(_MAY_CHANGE, [*KEPT, *READ_ONLY])]
    before = unix_ms()
    ((fsync, full_pages, standbys, is_super, makes_roles, is_admin, is_open, there),) = await connection.fetch(
        _SAFETY, ADMIN
    )
    off = max(before - there, there - unix_ms(), 0) / 1000
    powers = (
        *(("it is a superuser, or may become one",) if is_super else ()),
        *(("it may make roles",) if makes_roles and not is_super else ()),
        *((f"it is of {ADMIN}",) if is_admin and not is_super else ()),
        *((f"it may change {', '.join(changed)}",) if changed else ()),
    )
    return DatabaseCondition(
        schema=schema,
        is_synced=(fsync, full_pages) == ("on", "on"),
        standbys=standbys,
        powers=powers,
        is_open=is_open,
        clock_off=off,
    )
