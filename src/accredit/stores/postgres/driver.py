"""The parts of asyncpg that are used here: one connection, and its failures as our errors.

asyncpg comes with `accredit[postgres]`, and is loaded when a connection is opened. It has no type annotations, so none
of its objects are passed on.

- [notices] A notice from the server counts as a failure. The server sends one if a commit's wait for the standby is
  cancelled: it still reports the commit as done, but the data is on that machine alone. asyncpg delivers notices with
  `call_soon`, so one turn of the event loop is awaited after each statement.
- [cancellation] A statement is never cancelled, as that would cancel such a wait. If its task is cancelled, the
  connection is closed, and the transaction may or may not have been committed.
- [secrecy] No text of a failure holds a statement's values or the password.
- [indexes] No statement scans a table. The server's planner is set to use indexes, since it caches plans: a plan made
  while a table was small would scan the table until the server updates its statistics.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator, Sequence
from importlib import import_module
from typing import Any
from urllib.parse import urlencode

from accredit.base.deferred import require_extra
from accredit.base.files import open_file
from accredit.base.text import excerpt
from accredit.errors import AccreditError, StoreUnavailable
from accredit.limits import MAX_PASSWORD_BYTES, STORE_WAIT_SECONDS
from accredit.stores.postgres.address import SCHEME, DatabaseAddress, DatabaseHost

STORE_CONNECT_SECONDS = 1.0
"""How long connecting to one host of a database may take. Across a network it takes some milliseconds, mostly for
checking the password. This bound leaves half of the whole wait for the query."""
DEAD_PEER_SECONDS = (10, 10, 3)
"""TCP keep-alive on the database's side: seconds of silence until the first probe, seconds between probes, and the
number of probes. So a lock that a lost machine held is free 40 s later."""


Row = Sequence[Any]

UNDEFINED_TABLE = "42P01"
INSUFFICIENT_PRIVILEGE = "42501"
LOCK_NOT_AVAILABLE = "55P03"


class DatabaseFailed(StoreUnavailable):
    """The database refused, or disconnected. `sqlstate` is its error code, if it sent one."""

    def __init__(self, text: str, sqlstate: str | None = None) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


def require_driver() -> None:
    """Raise `ConfigurationError` if asyncpg is not installed."""
    require_extra("asyncpg", "postgres", "store.url is a PostgreSQL database, and asyncpg is not installed")


class Connection:
    """A connection to one server. One task uses it."""

    def __init__(self, raw: Any, name: str) -> None:
        self._raw = raw
        self.name = name
        self._notices: list[str] = []
        raw.add_log_listener(self._noticed)

    @property
    def lost(self) -> bool:
        """Whether the connection is closed."""
        return bool(self._raw.is_closed())

    async def fetch(self, statement: str, *values: object) -> list[Row]:
        """Return the rows of a statement. Outside of a transaction, the statement is committed when this returns.
        Raises `DatabaseFailed`."""
        asking = asyncio.ensure_future(self._raw.fetch(statement, *values))
        try:
            with _as_database_errors(self.name):
                rows = await asyncio.shield(asking)
        except asyncio.CancelledError:
            self.terminate()
            await asyncio.wait([asking])
            asking.exception()
            raise
        await self._check_notices()
        return rows

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """Commit everything that is done within this block, or nothing. Raises `DatabaseFailed`."""
        await self.fetch("BEGIN")
        try:
            yield
        except AccreditError:
            if not self.lost:
                await self.fetch("ROLLBACK")
            raise
        await self.fetch("COMMIT")

    def terminate(self) -> None:
        """Close the connection at once; a pending statement raises `DatabaseFailed`."""
        self._raw.terminate()

    async def aclose(self) -> None:
        """Close the connection properly."""
        try:
            await self._raw.close(timeout=STORE_CONNECT_SECONDS)
        except Exception:
            self._raw.terminate()

    def _noticed(self, _connection: object, message: Any) -> None:
        self._notices.append(f"{message.sqlstate} {message.message}")

    async def _check_notices(self) -> None:
        await asyncio.sleep(0)
        if self._notices:
            text = excerpt(self._notices[0])
            self.terminate()
            raise DatabaseFailed(f"{self.name}: it is not certain that this was kept: {text}")


async def connect(database: DatabaseAddress, host: DatabaseHost) -> Connection:
    """Return a connection to one of a database's hosts. Raises `DatabaseFailed`."""
    connect_raw: Any = import_module("asyncpg").connect  # an optional extra
    with _as_database_errors(f"{database.name} at {host.name}:{host.port}"):
        raw = await connect_raw(
            f"{SCHEME}/?{urlencode(database.tls)}",
            host=host.name,
            port=host.port,
            user=database.user,
            database=database.database,
            password=_password(database),
            timeout=STORE_CONNECT_SECONDS,
            server_settings=_settings(),
        )
    return Connection(raw, database.name)


_PLANS = dict.fromkeys(
    ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "jit"),
    "off",
)
"""Settings of the server's planner: every row is found by an index. If many are read, they come in the order of the
index ([indexes])."""


def _settings() -> dict[str, str]:
    wait = f"{int(STORE_WAIT_SECONDS * 1000)}ms"
    idle, interval, count = DEAD_PEER_SECONDS
    return {
        "application_name": "accredit",
        # Names are resolved where `store migrate` put them, whatever the role or the database says.
        "search_path": "public",
        "client_min_messages": "notice",
        "default_transaction_isolation": "read committed",
        **_PLANS,
        # A server's process whose client is gone would otherwise wait for a row for ever.
        "lock_timeout": wait,
        "idle_in_transaction_session_timeout": wait,
        # Frees locks held for a lost machine: by the system's default only after two hours.
        "tcp_keepalives_idle": str(idle),
        "tcp_keepalives_interval": str(interval),
        "tcp_keepalives_count": str(count),
    }


def _password(database: DatabaseAddress) -> str | None:
    if database.password_file is None:
        return None
    try:
        with open_file(database.password_file) as file:
            return file.read(MAX_PASSWORD_BYTES).decode("utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError):
        raise DatabaseFailed(f"{database.password_file}: the database's password can't be read from it") from None


_NOT_IDLE = "cannot switch to state"
"""How asyncpg's error begins for a statement on a connection that is not lost yet, but on which the server has said
that it ends: nothing was asked then, so asyncpg does not understand that message, and drops it."""


@contextlib.contextmanager
def _as_database_errors(name: str) -> Generator[None]:
    try:
        yield
    except AccreditError:
        raise
    except Exception as error:
        sqlstate = getattr(error, "sqlstate", None)
        if sqlstate is not None:  # the server's own words, without the values that `detail` may hold
            text = f"{sqlstate} {getattr(error, 'message', None) or type(error).__name__}"
        else:
            text = getattr(error, "strerror", None) or str(error) or type(error).__name__
            if text.startswith(_NOT_IDLE):
                text = "the server has ended this connection"
        raise DatabaseFailed(f"{name}: {excerpt(text)}", sqlstate) from None
