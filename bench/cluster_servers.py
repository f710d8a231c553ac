"""PostgreSQL for `bench.cluster`: a primary, with or without a synchronous standby, and what was written to it.

Their data are on the disk of the folder that is given, and are synced to it: `fsync` and `full_page_writes` are on.
"""

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.world.ports import reserved_port
from tests.world.postgres import SUPERUSER, programs, unprivileged

from accredit.stores.lasting import PostgresDatabase
from accredit.stores.postgres.address import DatabaseHost
from accredit.stores.postgres.driver import Connection, Row
from accredit.stores.postgres.migration import migrate
from accredit.stores.postgres.session import run_once
from bench.errors import BenchError
from bench.procfs import cpu_seconds

GATEWAYS = "gw"
"""The role that gateways have."""
COMMITS = 50
"""How many commits a commit's time is measured with."""
_SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 300
shared_buffers = 256MB
max_wal_size = 8GB
checkpoint_timeout = 1h
# A commit waits for `commit_delay` whoever else is active, before it syncs.
commit_siblings = 0
"""
_TRUST = "host all all 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 trust\n"
_COMMIT = "SELECT pg_logical_emit_message(true, 'bench', '')"
_START_SECONDS, _STOP_SECONDS = 30.0, 30.0


@dataclass(frozen=True, slots=True)
class Written:
    """What a server has written to its log meanwhile."""

    bytes: int
    commits: int


class Primary:
    """A server that takes writes. `pids` are the processes of it and of its standby."""

    def __init__(self, bin: Path, data: Path, port: int) -> None:
        self.bin = bin
        self.data = data
        self.port = port
        self.pids: list[int] = []

    def database(self, name: str, user: str = SUPERUSER) -> PostgresDatabase:
        return PostgresDatabase((DatabaseHost("127.0.0.1", self.port),), name, user)

    def url(self, name: str) -> str:
        """What gateways have as `store.url`."""
        return f"postgresql://{GATEWAYS}@127.0.0.1:{self.port}/{name}"

    def make(self, name: str) -> None:
        """Makes a database with our tables."""
        self.run(f"CREATE DATABASE {name}")
        migrate(self.database(name))
        self.run(
            f"DO $$ BEGIN CREATE ROLE {GATEWAYS} LOGIN IN ROLE accredit_gateway;"
            " EXCEPTION WHEN duplicate_object THEN NULL; END $$"
        )

    def run(self, *statements: str, database: str = "postgres") -> list[Row]:
        """The rows of the last of some statements."""

        async def run_all(connection: Connection) -> list[Row]:
            rows: list[Row] = []
            for statement in statements:
                rows = await connection.fetch(statement)
            return rows

        return run_once(self.database(database), run_all)

    def delay_commits(self, milliseconds: float) -> None:
        """Has each commit wait for so long before it syncs."""
        wanted = str(int(milliseconds * 1000))
        self.run(f"ALTER SYSTEM SET commit_delay = {wanted}", "SELECT pg_reload_conf()")
        while self.run("SELECT setting FROM pg_settings WHERE name = 'commit_delay'")[0][0] != wanted:
            time.sleep(0.01)

    def commit_ms(self) -> float:
        """The median time of a commit of one who commits alone."""

        async def commit(connection: Connection) -> float:
            times: list[float] = []
            for _ in range(COMMITS):
                begun = time.perf_counter()
                await connection.fetch(_COMMIT)
                times.append(time.perf_counter() - begun)
            return sorted(times)[COMMITS // 2] * 1000

        return run_once(self.database("postgres"), commit)

    def cpu_seconds(self) -> float:
        """User and system time of its processes, and of its standby's."""
        return sum(map(cpu_seconds, self.pids))

    def position(self) -> str:
        """How far its log is written."""
        return str(self.run("SELECT pg_current_wal_lsn()::text")[0][0])

    def written_since(self, position: str) -> Written:
        """What was written since; the commits are those that wrote something."""
        now = self.position()
        size = int(self.run(f"SELECT ('{now}'::pg_lsn - '{position}'::pg_lsn)::bigint")[0][0])
        dump = [str(self.bin / "pg_waldump"), "-p", str(self.data / "pg_wal"), "-s", position, "-e", now]
        done = subprocess.run([*dump, "--stats=record"], check=False, capture_output=True, text=True)
        found = re.search(r"^Transaction/COMMIT\s+(\d+)", done.stdout, re.MULTILINE)
        return Written(size, int(found[1]) if found else 0)


@contextlib.contextmanager
def primary(folder: Path, *, standby: bool) -> Generator[Primary]:
    """A server of its own in a folder of its own."""
    bin = programs()
    if bin is None:
        raise BenchError("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    folder.mkdir(mode=0o711)
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(reserved_port()) for _ in range(1 + standby)]
        first = Primary(bin, _owned(folder / "primary"), ports[0])
        _program(
            bin / "initdb", "-D", first.data, "-U", SUPERUSER, "-E", "UTF8", "--locale=C", "--auth=trust", "--no-sync"
        )
        (first.data / "pg_hba.conf").write_text(_TRUST)
        with (first.data / "postgresql.conf").open("a") as settings:
            settings.write(_SETTINGS)
        first.pids.append(stack.enter_context(_running(first.data, first.port, bin)))
        if standby:
            data = _owned(folder / "standby")
            source = ("-h", "127.0.0.1", "-p", first.port, "-U", SUPERUSER)
            _program(bin / "pg_basebackup", "-D", data, *source, "-X", "stream", "-c", "fast", "--no-sync")
            (data / "standby.signal").touch()
            with (data / "postgresql.auto.conf").open("a") as settings:
                settings.write(
                    f"primary_conninfo = 'host=127.0.0.1 port={first.port} user={SUPERUSER} application_name=standby'\n"
                )
            first.pids.append(stack.enter_context(_running(data, ports[1], bin)))
            first.run("ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()")
            while first.run("SELECT sync_state FROM pg_stat_replication") != [("sync",)]:
                time.sleep(0.05)
        yield first


def _owned(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    user = unprivileged()
    if user:
        os.chown(folder, int(user[-1].rpartition("=")[2]), -1)
    return folder


def _program(program: Path, *words: object) -> None:
    command = [*unprivileged(), str(program), *map(str, words)]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd="/", env={"PATH": os.environ["PATH"]}
    )
    if done.returncode:
        raise BenchError(f"{program.name}: {done.stderr}")


@contextlib.contextmanager
def _running(data: Path, port: int, bin: Path) -> Generator[int]:
    """A server's process."""
    command: Sequence[str] = [*unprivileged(), str(bin / "postgres"), "-D", str(data), "-p", str(port)]
    log = data.parent / f"{data.name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd="/", stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={"PATH": os.environ["PATH"]}
        )
    try:
        asked = [str(bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
        give_up = time.monotonic() + _START_SECONDS
        while subprocess.run(asked, check=False, env={}).returncode:
            if process.poll() is not None or time.monotonic() > give_up:
                raise BenchError(f"PostgreSQL did not start: {log.read_text(errors='replace')[-500:]}")
            time.sleep(0.05)
        yield process.pid
    finally:
        process.send_signal(2)  # it ends its connections, and ends
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
