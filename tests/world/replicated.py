"""A primary and two standbys of PostgreSQL, as an operator runs them, and what happens to machines.

I/O: processes, a folder, sockets. With `synchronous` a commit waits for one of the two standbys. Each server has a
place of its own: a port of 127.0.0.1, or an address in a network namespace. All of it ends with the process that
started it. Their data lie in memory where there is room: what is killed is a process, never the machine, and a slow
disk would be taken for a failure.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from tests.world.ports import reserved_port
from tests.world.postgres import SUPERUSER, guards, need_postgres, unprivileged

from accredit.stores.lasting import PostgresDatabase
from accredit.stores.postgres.address import DatabaseHost
from accredit.stores.postgres.migration import migrate

NAMES = ("a", "b", "c")
DATABASE, GATEWAYS = "accredit", "gw"
"""The database that gateways share, and the role that they have."""
WAIT_SECONDS = 60.0
_ROOM = 2 << 30
_SETTINGS = """
listen_addresses = '{host}'
port = {port}
unix_socket_directories = ''
wal_level = replica
hot_standby = on
wal_keep_size = 64MB
wal_receiver_status_interval = 1s
wal_receiver_timeout = 5s
wal_sender_timeout = 5s
wal_retrieve_retry_interval = 200ms
max_connections = 200
shared_buffers = 16MB
log_min_messages = warning
dynamic_shared_memory_type = mmap
synchronous_standby_names = '{standbys}'
primary_conninfo = '{follows}'
"""
_TRUST = "local all all trust\nhost all all all trust\nhost replication all all trust\n"
# It ends when nobody holds the other end of its input any more.
_GUARD = """
"$@" & server=$!
read -r _
kill -CONT $server 2>/dev/null; kill -QUIT $server 2>/dev/null; wait $server
"""


class Place(NamedTuple):
    """Where a server listens, and what its command begins with: what puts a process into a namespace."""

    host: str
    port: int
    within: Sequence[str] = ()


class Node:
    """One server. `follows` is the one that it is a standby of."""

    def __init__(self, bin: Path, name: str, place: Place, folder: Path) -> None:
        self.name = name
        self.place = place
        self.data = folder / name / "data"
        self.log = folder / f"{name}.log"
        self.environment: Mapping[str, str] = {}
        """What its process is started with beside the usual."""
        self._bin = bin
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        pid = self._pid()
        return pid is not None and Path(f"/proc/{pid}").exists()

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        self.end()
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        changed = ["env", *(f"{name}={value}" for name, value in self.environment.items())]
        command = [*self.place.within, *unprivileged(), *changed, "sh", "-c", _GUARD, "guard"]
        with self.log.open("ab") as log:
            self._guard = subprocess.Popen(
                [*command, str(self._bin / "postgres"), "-D", str(self.data)],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True,
                env={"PATH": os.environ["PATH"]},
            )  # fmt: skip
        guards.add(self._guard.pid)
        wait_for(lambda: self.answers(), f"{self.name} has not started: {self.log}")

    def answers(self) -> bool:
        """Whether it takes connections."""
        asked = [str(self._bin / "pg_isready"), "-q", "-t", "1", "-h", self.place.host, "-p", str(self.place.port)]
        return subprocess.run(asked, check=False, env={}).returncode == 0

    def run(self, statement: str, database: str = "postgres") -> str:
        """What a statement gives, as text. It waits for no standby."""
        done = self.ask(statement, database)
        assert done.returncode == 0, f"{self.name}: {statement}: {done.stderr}"
        return done.stdout.strip()

    def ask(self, statement: str, database: str = "postgres") -> subprocess.CompletedProcess[str]:
        """The same for a server that may not answer."""
        address = ["-h", self.place.host, "-p", str(self.place.port), "-U", SUPERUSER, "-d", database]
        return subprocess.run(
            [str(self._bin / "psql"), "-XAtq", *address, "-c", statement],
            check=False, capture_output=True, text=True, timeout=WAIT_SECONDS,
            env={
                "PATH": os.environ["PATH"], "PGCONNECT_TIMEOUT": "5",
                "PGOPTIONS": "-c synchronous_commit=local -c statement_timeout=20s",
            },
        )  # fmt: skip

    def kill(self) -> None:
        """Ends it and all of its processes at once, as a machine that loses its power."""
        found, memory = self.processes(), self._pid_file(6).split()[1:]
        for pid in found:
            _signal(pid, signal.SIGSTOP)  # none of them notices what happens to the others
        for pid in found:
            _signal(pid, signal.SIGKILL)
        self.end()
        if memory:  # which the system would keep
            subprocess.run(["ipcrm", "-m", memory[0]], check=False, stderr=subprocess.DEVNULL)

    def pause(self) -> None:
        """Stops all of its processes where they are."""
        for pid in self.processes():
            _signal(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Lets them go on."""
        for pid in self.processes():
            _signal(pid, signal.SIGCONT)

    def end(self) -> None:
        """Waits until nothing of it is left."""
        if self._guard is not None:
            assert self._guard.stdin is not None
            self._guard.stdin.close()
            self._guard.wait()
            guards.discard(self._guard.pid)
            self._guard = None

    def processes(self) -> list[int]:
        """Its first process, and those that this one has started."""
        pid = self._pid()
        if pid is None:
            return []
        with contextlib.suppress(OSError):
            return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
        return []

    def configure(self, standbys: str, follows: "Node | None", *, standby: bool = False) -> None:
        """Writes its settings; they count when it is started or told."""
        other = "" if follows is None else f"host={follows.place.host} port={follows.place.port} user={SUPERUSER}"
        names = f"{other} application_name={self.name}" if other else ""
        text = _SETTINGS.format(host=self.place.host, port=self.place.port, standbys=standbys, follows=names)
        (self.data.parent / "node.conf").write_text(text)
        (self.data / "pg_hba.conf").write_text(_TRUST)
        if standby:
            (self.data / "standby.signal").touch()

    def _pid(self) -> int | None:
        first = self._pid_file(0)
        return int(first) if first.isdigit() else None

    def _pid_file(self, line: int) -> str:
        with contextlib.suppress(OSError, IndexError):
            return (self.data / "postmaster.pid").read_text().splitlines()[line]
        return ""


class Replicated:
    """`with Replicated() as servers`: three servers, of which `primary` is the one that takes writes."""

    def __init__(
        self, places: Mapping[str, Place] | None = None, *, synchronous: bool = True, disks: int | None = None
    ) -> None:
        """`disks` are the megabytes of each server's own disk, in a process that may mount."""
        self._bin = need_postgres()
        self._disks = disks
        self._synchronous = synchronous
        self._ports = contextlib.ExitStack()
        where = places or {name: Place("127.0.0.1", self._ports.enter_context(reserved_port())) for name in NAMES}
        self.folder = Path(tempfile.mkdtemp(prefix="accredit-pg-", dir=_memory()))
        self.folder.chmod(0o711)
        self.nodes = {name: Node(self._bin, name, where[name], self.folder) for name in NAMES}
        self.primary = self.nodes["a"]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Makes and starts them, and the database."""
        try:
            for node in self.nodes.values():
                self._own(node.data.parent)
            self._begin()
        except BaseException:
            self.close()
            raise

    @property
    def standbys(self) -> list[Node]:
        """The servers that are not the primary."""
        return [node for node in self.nodes.values() if node is not self.primary]

    def database(self, *names: str, required: bool = True) -> PostgresDatabase:
        """The database, at the servers with these names, or at all three."""
        hosts = tuple(DatabaseHost(*self.nodes[name].place[:2]) for name in names or NAMES)
        return PostgresDatabase(hosts, DATABASE, GATEWAYS, replicas="required" if required else "none")

    def make_synchronous(self, value: bool) -> None:
        """Whether a commit waits for a standby from now on."""
        self._synchronous = value
        for node in self.nodes.values():
            if node.running:
                self._follow(node, None if node is self.primary else self.primary)

    def cut(self, *nodes: Node) -> None:
        """Has standbys follow nobody: what the primary commits does not reach them any more."""
        for node in nodes:
            self._follow(node, None)
            wait_for(lambda node=node: not node.run("SELECT pid FROM pg_stat_wal_receiver"), f"{node.name} follows on")

    def join(self, *nodes: Node) -> None:
        """Has standbys follow the primary."""
        for node in nodes:
            self._follow(node, self.primary)

    def promote(self, *, isolated: bool = False) -> Node:
        """Makes the standby that has received the most the primary, and the other one follow it: an acknowledged commit
        is on one of the two, so that it must not be the other one. `isolated` servers keep the old primary."""
        old = self.primary
        ready = [node for node in self.standbys if node.running and node.answers()]
        for node in ready:
            self._follow(node, None)  # what the old primary still sends comes to nobody
        for node in ready:
            wait_for(lambda node=node: not node.run("SELECT pid FROM pg_stat_wal_receiver"), f"{node.name} follows on")
        best = max(ready, key=_received)
        self.primary = best
        best.configure(self._names(best), None)
        best.run("SELECT pg_reload_conf()")
        best.run("SELECT pg_promote(true, 30)")
        for node in ready:
            if node is not best:
                self._follow(node, best)
        if not isolated and old.running:
            old.kill()
        return best

    def rejoin(self, node: Node) -> None:
        """Makes a server a standby of the primary, with nothing of what it had."""
        node.kill()
        shutil.rmtree(node.data, ignore_errors=True)
        source = ["-h", self.primary.place.host, "-p", str(self.primary.place.port), "-U", SUPERUSER]
        self._program("pg_basebackup", "-D", str(node.data), *source, "-X", "stream", "-c", "fast", "--no-sync")
        node.configure(self._names(node), self.primary, standby=True)
        node.start()

    def heal(self) -> None:
        """Has all three run again, and follow the primary."""
        if not self.primary.running:
            self.primary.start()
        for node in self.standbys:
            if not node.running or node.run("SELECT pg_is_in_recovery()") == "f":
                self.rejoin(node)
            else:
                self._follow(node, self.primary)
        self.wait_until_safe()

    def wait_until_safe(self, standbys: int = 2) -> None:
        """Waits until so many standbys follow."""
        asked = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
        if self._synchronous:
            asked += " AND sync_state = 'quorum'"
        wait_for(lambda: int(self.primary.run(asked)) >= standbys, "the standbys don't follow")

    def close(self) -> None:
        """Ends all, and removes what they had."""
        for node in self.nodes.values():
            if node.running:
                node.kill()
            node.end()
        for node in self.nodes.values() if self._disks is not None else ():
            subprocess.run(["umount", "--lazy", str(node.data.parent)], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)
        self._ports.close()

    def _begin(self) -> None:
        first = self.primary
        self._program(
            *("initdb", "-D", str(first.data), "-U", SUPERUSER, "-E", "UTF8", "--locale=C", "--auth=trust"),
            *("--no-sync", "--no-instructions"),
        )
        with (first.data / "postgresql.conf").open("a") as settings:
            settings.write("include '../node.conf'\n")
        first.configure("", None)
        first.start()
        first.run(f"CREATE DATABASE {DATABASE}")
        host = DatabaseHost(*first.place[:2])
        migrate(PostgresDatabase((host,), DATABASE, SUPERUSER))
        first.run(f"CREATE ROLE {GATEWAYS} LOGIN IN ROLE accredit_gateway")
        for node in self.standbys:
            self.rejoin(node)
        self._follow(first, None)
        self.wait_until_safe()

    def _follow(self, node: Node, whom: Node | None) -> None:
        node.configure(self._names(node), whom)
        node.run("SELECT pg_reload_conf()")

    def _names(self, node: Node) -> str:
        others = ",".join(name for name in NAMES if name != node.name)
        return f"ANY 1 ({others})" if self._synchronous else ""

    def _own(self, folder: Path) -> None:
        folder.mkdir()
        if self._disks is not None:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self._disks}m", "disk", str(folder)], check=True)
        if unprivileged():
            os.chown(folder, int(unprivileged()[-1].rpartition("=")[2]), -1)

    def _program(self, name: str, *words: str) -> None:
        command = [*self.primary.place.within, *unprivileged(), str(self._bin / name), *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={"PATH": os.environ["PATH"]})


def _received(node: Node) -> int:
    text = node.run("SELECT coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0'")
    return int(text)


def _memory() -> str | None:
    """The folder of a disk in memory, if it has room."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage("/dev/shm").free > _ROOM:
            return "/dev/shm"
    return None


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def wait_for(condition: Callable[[], bool], otherwise: str, seconds: float = WAIT_SECONDS) -> None:
    """Waits until something is so; fails with a sentence after `seconds`."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, otherwise
        time.sleep(0.05)
