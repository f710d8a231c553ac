"""A real PostgreSQL for tests: one cluster for all of a test process, and databases in it. I/O: processes, a folder.

The programs are those that are installed. The cluster runs as an unprivileged user where tests run as root, since it
refuses to start otherwise; listens on a Unix socket in a folder of its own, and on no port; and ends with the test
process, however that ends. Nothing of it is synced to the disk: what a test kills is a process, never the machine.
"""

import atexit
import contextlib
import itertools
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from accredit.stores.lasting import PostgresDatabase
from accredit.stores.postgres.address import DatabaseHost
from accredit.stores.postgres.driver import Connection, Row
from accredit.stores.postgres.migration import migrate
from accredit.stores.postgres.schema import GRANTS, SCHEMA, VERSION
from accredit.stores.postgres.session import run_once

_KEY = "VALUES (1, decode(repeat('ab', 32), 'hex'))"
_USERS = ("postgres", "nobody")
SUPERUSER = "boss"
_QUICK = (
    *("listen_addresses = ''", "fsync = off", "full_page_writes = off", "shared_buffers = 16MB", "max_wal_size = 4GB"),
    *("autovacuum = off", "max_connections = 200", "log_min_messages = error", ""),
)
# It ends when nobody holds the other end of its input any more.
_GUARD = """
"$@" & server=$!
read -r _
kill -QUIT $server; wait $server
rm -rf "$FOLDER"
"""


def programs() -> Path | None:
    """The folder of PostgreSQL's programs, or None: the newest that is installed."""
    versions = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    found = sorted(versions, key=lambda path: int(path.parts[-3]) if path.parts[-3].isdigit() else 0)
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(os.path.realpath(on_path)).parent if on_path else None


def need_postgres() -> Path:
    """The folder of PostgreSQL's programs; skips the test without them, and fails it in continuous integration."""
    found = programs()
    if find_spec("asyncpg") is None:
        found = None
    if found is None:
        assert not os.environ.get("CI"), "continuous integration has PostgreSQL"
        pytest.skip("PostgreSQL, or asyncpg, is not installed (apt-get install postgresql)")
    return found


def faketime() -> Path | None:
    """The library that tells a program another time, if it is installed."""
    return next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)


class Cluster:
    """A server that runs, and its databases."""

    def __init__(self, bin: Path, environment: Mapping[str, str] | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="accredit-pg-"))
        self._user = _user()
        self._numbers = itertools.count()
        self._template = ""
        data = str(self.folder / "data")
        if self._user is not None:
            os.chown(self.folder, self._user, -1)
        self._run_program(
            *(str(bin / "initdb"), "-D", data, "-U", SUPERUSER, "-E", "UTF8", "--locale=C", "--auth=trust"),
            *("--no-sync", "--no-instructions"),
        )
        with Path(data, "postgresql.conf").open("a") as settings:
            settings.write("\n".join(_QUICK))
        with (self.folder / "log").open("wb") as log:
            self._guard = subprocess.Popen(
                ["sh", "-c", _GUARD, "guard", str(bin / "postgres"), "-D", data, "-k", str(self.folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={"PATH": "/usr/bin:/bin", "FOLDER": str(self.folder), **(environment or {})},
                user=self._user,
                start_new_session=True,
            )
        guards.add(self._guard.pid)
        atexit.register(self.close)
        asked = [str(bin / "pg_isready"), "-q", "-h", str(self.folder)]
        while subprocess.run(asked, check=False, env={}).returncode != 0:
            assert self._guard.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.02)

    def close(self) -> None:
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()

    def named(self, name: str, user: str = SUPERUSER) -> PostgresDatabase:
        """A database of the cluster, which need not be there."""
        return PostgresDatabase((DatabaseHost(str(self.folder), 5432),), name, user)

    def run(self, *statements: str, database: str = "postgres", user: str = SUPERUSER) -> list[Row]:
        """The rows of the last of some statements."""

        async def run_all(connection: Connection) -> list[Row]:
            rows: list[Row] = []
            for statement in statements:
                rows = await connection.fetch(statement)
            return rows

        return run_once(self.named(database, user), run_all)

    def set(self, name: str, value: str) -> None:
        """Sets a setting of the server, and waits until it is in force."""
        self.run(f"ALTER SYSTEM SET {name} = {value}", "SELECT pg_reload_conf()")
        wanted = value.strip("'")
        while self.run(f"SELECT current_setting('{name}')")[0][0] != wanted:
            time.sleep(0.01)

    def wait_for(self, condition: str) -> int:
        """Waits until a process of the server is so (a condition over pg_stat_activity); gives its id."""
        while not (found := self.run(f"SELECT pid FROM pg_stat_activity WHERE {condition}")):
            time.sleep(0.01)
        return found[0][0]

    def empty(self) -> PostgresDatabase:
        """A new database without any tables of ours."""
        name = f"empty_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name}")
        return self.named(name)

    def fresh(self) -> PostgresDatabase:
        """A new database with our tables, and a key of its own. Its clock can be told: see `clock`."""
        if not self._template:
            self._template = self.empty().database
            migrate(self.named(self._template))
            self.run("CREATE TABLE told_clock AS SELECT 0::bigint AS at", database=self._template)
        name = f"fresh_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {self._template}")
        self._new_key(name)
        return self.named(name)

    def before(self) -> PostgresDatabase:
        """A new database with the tables and rights of the version before."""
        database = self.empty()
        migrate(self.empty())  # roles are of all databases of a cluster
        steps = [statement for step in SCHEMA[: VERSION - 1] for statement in step]
        made = (*steps, f"INSERT INTO accredit_schema VALUES ({VERSION - 1})", f"INSERT INTO challenge_key {_KEY}")
        self.run(*made, database=database.database)
        there = {name for (name,) in self.run("SELECT relname FROM pg_class", database=database.database)}
        for grant in GRANTS:
            parts = re.fullmatch(r"(GRANT .+ ON) (.+) (TO .+)", grant)
            assert parts, grant
            rights, of, roles = parts.groups()
            kept = of if of.startswith(("SEQUENCE", "FUNCTION")) else ", ".join(there & {*of.split(", ")})
            if kept:
                self.run(f"{rights} {kept} {roles}", database=database.database)
        self.run("SELECT log_make_days()", database=database.database)
        return database

    def renew(self, database: PostgresDatabase) -> None:
        """Makes a database that `fresh` made as it was then."""
        tables = "spent, use_series, uses, tasks, asks, door, forgotten, revocations, store_state"
        log = "log_writers, log_keys, log_entries, log_open, log_delegations, log_pruned, log_sinks"
        self.run(
            f"TRUNCATE {tables}, {log} RESTART IDENTITY", "UPDATE told_clock SET at = 0", database=database.database
        )
        self._new_key(database.database)

    def _new_key(self, name: str) -> None:
        self.run(f"UPDATE challenge_key SET key = '\\x{os.urandom(32).hex()}'", database=name)

    def _run_program(self, *words: str) -> None:
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin"}, user=self._user)


def _user() -> int | None:
    """Whom the server runs as, where tests run as root."""
    if os.geteuid():
        return None
    for name in _USERS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_uid
    raise AssertionError(f"nobody to run PostgreSQL as: none of {', '.join(_USERS)} is a user")


@cache
def cluster() -> Cluster:
    """The cluster of this test process; skips the test where there is none to be had."""
    return Cluster(need_postgres())


def a_user(more: str = "") -> str:
    """A new user of the cluster, with these rights."""
    name = f"user_{next(_numbers)}"
    cluster().run(f"CREATE ROLE {name} LOGIN {more}")
    return name


def unprivileged() -> list[str]:
    """What a command of PostgreSQL's begins with, where tests run as root."""
    user = _user()
    return [] if user is None else ["setpriv", "--clear-groups", f"--regid={user}", f"--reuid={user}"]


_numbers = itertools.count()
guards: set[int] = set()
"""The processes that look after servers: they are there to stay."""


class _Lent:
    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database
        self.users = 0


_lent: dict[Path, _Lent] = {}
"""Databases by the folder that they stand for, the one that was used last at the end."""
_MOST = 3


@contextlib.contextmanager
def database_for(folder: Path) -> Generator[PostgresDatabase]:
    """The database that stands for a folder: the same one each time, as long as tests don't use many others."""
    found = _lent.pop(folder, None)
    if found is None:
        idle = next((each for each, lent in _lent.items() if not lent.users), None) if len(_lent) >= _MOST else None
        if idle is None:
            found = _Lent(cluster().fresh())
        else:
            found = _lent.pop(idle)
            cluster().renew(found.database)
    _lent[folder] = found
    found.users += 1
    try:
        yield found.database
    finally:
        found.users -= 1


TOLD_CLOCK = "(SELECT at FROM told_clock)"
_TELL = "UPDATE told_clock SET at = $1"


async def tell_clock(connection: Connection, now: int) -> None:
    """Sets the clock of a database that `fresh` made, for stores whose `clock` is `TOLD_CLOCK`."""
    await connection.fetch(_TELL, now)
