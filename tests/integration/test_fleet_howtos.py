"""The how-tos on two gateways and on backups are done here as they are written, with a real PostgreSQL and a
real HAProxy: only the addresses are others, and no gateway waits for a balancer where none asks it."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Generator
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.integration.test_tutorial import ROOT, running, surroundings
from tests.world.command import wait_until, with_nobody_to_ask
from tests.world.patient_stores import COMMAND, EVERYWHERE
from tests.world.postgres import Cluster, cluster, need_postgres
from tests.world.raw_server import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
SECTION = re.compile(r"^\[[^\[\]]+\]\n(?:(?!\[).*\n)*", re.MULTILINE)
URL = re.compile(r"postgresql://(\w+)@[\w.,]*example\.org/accredit")
PASSWORD = "long-and-random"
RIGHTS = """
SELECT relname AS name, relacl::text FROM pg_class WHERE relnamespace = 'public'::regnamespace
UNION ALL SELECT proname, proacl::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace
ORDER BY name"""
PATIENT = shlex.join(["env", *(f"{name}={value}" for name, value in EVERYWHERE.items()), *COMMAND])


def blocks(page: str) -> list[tuple[str, str]]:
    """The kinds and bodies of a page's fenced blocks."""
    return BLOCK.findall((ROOT / "docs/how-to" / page).read_text("utf-8"))


class Hosts:
    """Addresses of this machine in place of those of a page, and a shell in which its commands find PostgreSQL."""

    def __init__(self, servers: Cluster, database: str, free_port: Callable[[], int]) -> None:
        self._folder, self.database = servers.folder, database
        self.server, self.balancer, *self.gateways = (free_port() for _ in range(4))
        path = f"{need_postgres()}{os.pathsep}{surroundings()['PATH']}"
        self._environment = {"PATH": path, "PGHOST": str(servers.folder), "PGUSER": "boss", "PGPASSWORD": PASSWORD}

    def told(self, text: str) -> str:
        """A block of a page with the addresses of this machine."""
        text = URL.sub(lambda url: f"postgresql://{url[1].replace('postgres', 'boss')}@/DB?host={self._folder}", text)
        text = text.replace("postgresql://boss@/DB?", f"postgresql://boss@/{self.database}?")
        text = text.replace("postgresql://gw@/DB?", f"postgresql://gw@/{self.database}?")
        text = re.sub(r"^createdb accredit$", f"createdb {self.database}", text, flags=re.MULTILINE)
        text = re.sub(r"(?<=psql )accredit|(?<=ON DATABASE )accredit", self.database, text)
        text = re.sub(r"bind :443 .*", f"bind 127.0.0.1:{self.balancer}", text)
        for address, here in (
            ("10.0.0.5:9000", self.server),
            ("10.0.0.11:8484", self.gateways[0]),
            ("10.0.0.12:8484", self.gateways[1]),
        ):
            text = text.replace(address, f"127.0.0.1:{here}")
        text = text.replace("https://mcp.example.org", f"http://127.0.0.1:{self.balancer}")
        return text.replace("mcp.example.org", "127.0.0.1")

    def run(self, command: str, folder: Path) -> str:
        """Types a command of a page; returns what it prints."""
        done = self._typed(command, folder)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def refused(self, command: str, folder: Path) -> str:
        """Types a command that fails; returns what it says."""
        done = self._typed(command, folder)
        assert done.returncode == 1, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def writers(self) -> int:
        """How many processes have written records."""
        ((count,),) = cluster().run("SELECT count(*) FROM log_writers WHERE records > 0", database=self.database)
        return count

    def _typed(self, command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["sh", "-ec", patient(with_nobody_to_ask(self.told(command)))], cwd=folder,
            env=surroundings(**self._environment), capture_output=True, text=True, timeout=4 * PATIENCE, check=False,
        )  # fmt: skip


def patient(commands: str) -> str:
    """The same, with stores that wait where the machine stalls: no call is refused for that."""
    return re.sub(r"^accredit (?=(?:serve|log|store) )", f"{PATIENT} ", commands, flags=re.MULTILINE)


def configured(configuration: Path, hosts: Hosts, sections: str, port: int) -> None:
    """Puts sections of a page in the places of those that are there."""
    text = configuration.read_text("utf-8")
    told = hosts.told(sections).replace("8484", str(port)).replace("0.0.0.0", "127.0.0.1")
    for section in SECTION.findall(told + "\n"):
        name = section.splitlines()[0]
        there = re.compile(re.escape(name) + r"\n(?:(?!\[).*\n)*")
        text = there.sub(lambda _, new=section: new, text) if there.search(text) else f"{text}\n{section}"
    configuration.write_text(text, "utf-8")


def without_drain(folder: Path) -> None:
    """Has a gateway end at once: no call comes after it."""
    configuration = folder / "accredit.toml"
    text, count = re.subn(r"^drain_seconds = \d+", "drain_seconds = 0", configuration.read_text("utf-8"), flags=re.M)
    assert count == 1
    configuration.write_text(text, "utf-8")


@contextlib.contextmanager
def balanced(configuration: str, folder: Path) -> Generator[None]:
    """HAProxy with a page's configuration."""
    program = shutil.which("haproxy") or "/usr/sbin/haproxy"
    if not Path(program).exists():
        assert not os.environ.get("CI"), "continuous integration has HAProxy"
        pytest.skip("HAProxy is not installed (apt-get install haproxy)")
    (folder / "haproxy.cfg").write_text(configuration, "utf-8")
    with subprocess.Popen([program, "-db", "-q", "-f", "haproxy.cfg"], cwd=folder) as child:
        try:
            yield
        finally:
            child.kill()


@pytest.fixture
def hosts(free_port: Callable[[], int]) -> Generator[Hosts]:
    servers = cluster()
    database = f"howto_{os.getpid()}"
    yield Hosts(servers, database, free_port)
    servers.run(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)", "DROP ROLE IF EXISTS gw")


def fleet(hosts: Hosts, folder: Path) -> tuple[list[Path], list[str]]:
    """Two gateways' folders, made as the page says, and the commands of the page that are left."""
    steps = blocks("two-gateways.md")
    sections = next(body for kind, body in steps if kind == "toml")
    database, files, owner, own_key, *left = [body for kind, body in steps if kind == "console"]
    hosts.run(database, folder)
    hosts.run(files, folder)
    made = folder / "fleet"
    hosts.run(owner, made)
    folders = [folder / "a", folder / "b"]
    for each, port in zip(folders, hosts.gateways, strict=True):
        shutil.copytree(made, each, ignore=shutil.ignore_patterns("owner.key"))
        configured(each / "accredit.toml", hosts, sections, port)
        hosts.run(own_key, each)
        shutil.copy(each / "gateway.key.pub", made / f"{each.name}.gateway.key.pub")
    return folders, left


def test_the_how_to_on_two_gateways_does_what_it_says__one_may_go_and_every_record_verifies(
    hosts: Hosts, tmp_path: Path
) -> None:
    need_postgres()
    mail = f"{sys.executable} {ROOT}/examples/mail_server.py --port {hosts.server}"
    with running(mail, "Uvicorn running", tmp_path):
        (one, other), (serve, agent, look) = fleet(hosts, tmp_path)
        without_drain(one)  # the last
        made = tmp_path / "fleet"
        *keys, call = agent.strip().splitlines()
        proxy, sticky = [hosts.told(body) for kind, body in blocks("two-gateways.md") if kind == "haproxy"]
        hosts.run("\n".join(keys), made)
        with running(patient(serve), "listening on", one), balanced(f"{proxy}{sticky}", tmp_path):
            with running(patient(serve), "listening on", other):
                wait_until(lambda: ready(hosts, 0) and ready(hosts, 1))
                calls = 0

                def each_has_served() -> bool:
                    """One more call: whom the balancer takes for up, and whose turn it is, it alone knows."""
                    nonlocal calls
                    assert "ada@example.org: The engine" in hosts.run(call, made)
                    calls += 1
                    return hosts.writers() == 2

                wait_until(each_has_served)
            assert "ada@example.org: The engine" in hosts.run(call, made)
        lines = hosts.run(look, made).splitlines()
        asked = sum("ratify_challenge_required" in line for line in lines)  # on a slow machine a proof may be too old
        assert verdict(2 * (calls + 1) + asked, 2) in lines


class Named(BaseHTTPRequestHandler):
    """A gateway as a balancer sees it: it begins a session that is its own, and says in each answer who it is."""

    def do_GET(self) -> None:
        assert isinstance(self.server, HTTPServer)
        name = str(self.server.server_port)
        self.send_response(200)
        self.send_header("Mcp-Session-Id", f"a1.{name}.state")
        self.send_header("Content-Length", str(len(name)))
        self.end_headers()
        self.wfile.write(name.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


def test_the_balancer_of_the_how_to_brings_a_session_that_lives_in_one_gateway_back_to_it(
    free_port: Callable[[], int], tmp_path: Path
) -> None:
    hosts = Hosts(cluster(), "none", free_port)
    proxy, sticky = [hosts.told(body) for kind, body in blocks("two-gateways.md") if kind == "haproxy"]

    def asked(path: str, session: str = "") -> tuple[str, str]:
        headers = {"Mcp-Session-Id": session} if session else {}
        request = urllib.request.Request(f"http://127.0.0.1:{hosts.balancer}{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.read().decode(), answer.headers["Mcp-Session-Id"]

    def reached() -> set[str]:
        with contextlib.suppress(OSError):
            return {asked("/mcp")[0] for _ in range(4)}
        return set()

    with contextlib.ExitStack() as stack:
        for port in hosts.gateways:
            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", port), Named))
            stack.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, daemon=True).start()
        stack.enter_context(balanced(f"{proxy}{sticky}", tmp_path))
        wait_until(lambda: len(reached()) == 2)
        for _ in range(2):
            at, session = asked("/mcp")
            assert [asked("/mcp", session)[0] for _ in range(4)] == [at] * 4
        at, _ = asked("/sse")
        assert [asked(path)[0] for path in ("/messages?session_id=1", "/sse", "/messages?session_id=2")] == [at] * 3


def verdict(records: int, writers: int) -> str:
    """The page's words for a log in which all is well: of each call its decision and its outcome."""
    (promised,) = [body for kind, body in blocks("two-gateways.md") if kind == "text"]
    told, count = re.subn(r"4 records of 2", f"{records} records of {writers}", promised.strip())
    assert count == 1
    return told


def ready(hosts: Hosts, which: int) -> bool:
    asked = f"curl -s http://127.0.0.1:{hosts.gateways[which]}/readyz"
    return '"status":"ok"' in subprocess.run(["sh", "-c", asked], capture_output=True, text=True).stdout


def test_the_how_to_on_backups_does_what_it_says__no_proof_is_taken_for_a_while_after_a_restore(
    hosts: Hosts, free_port: Callable[[], int], tmp_path: Path
) -> None:
    need_postgres()
    _, database, _, restore = [body for kind, body in blocks("backup-and-restore.md") if kind == "console"]
    mail = f"{sys.executable} {ROOT}/examples/mail_server.py --port {hosts.server}"
    with running(mail, "Uvicorn running", tmp_path):
        (one, _), (serve, agent, _) = fleet(hosts, tmp_path)
        without_drain(one)
        *keys, call = agent.strip().splitlines()
        hosts.run("\n".join(keys), tmp_path / "fleet")
        call = call.replace("https://mcp.example.org", f"http://127.0.0.1:{hosts.gateways[0]}")
        with running(patient(serve), "listening on", one):
            assert "ada@example.org: The engine" in hosts.run(call, tmp_path / "fleet")
        shutil.copy(one / "gateway.key.pub", tmp_path)
        hosts.run(database, tmp_path)
        found = Hosts(cluster(), f"restored_{os.getpid()}", free_port)
        found.server, found.balancer, found.gateways = hosts.server, hosts.balancer, hosts.gateways
        assert re.search(r"^ok: \d+ records of \d writers? verify$", found.run(restore, tmp_path), re.MULTILINE)
        sections = next(body for kind, body in blocks("two-gateways.md") if kind == "toml")
        configured(one / "accredit.toml", found, sections, hosts.gateways[0])
        without_drain(one)
        with running(patient(serve), "listening on", one):
            assert "store_unavailable" in found.refused(call, tmp_path / "fleet")


def test_the_how_to_on_backups_does_what_it_says__a_new_server_gets_the_tables_and_each_roles_rights(
    hosts: Hosts, free_port: Callable[[], int], tmp_path: Path
) -> None:
    programs = need_postgres()
    setup = next(body for kind, body in blocks("two-gateways.md") if kind == "console")
    hosts.run(setup, tmp_path)
    _, database, roles, restore = [body for kind, body in blocks("backup-and-restore.md") if kind == "console"]
    dump, _ = database.splitlines()
    hosts.run(dump, tmp_path)
    anew = Cluster(programs)
    try:
        found = Hosts(anew, hosts.database, free_port)
        found.run(roles, tmp_path)
        *commands, _ = restore.splitlines()  # the last one compares records with a checkpoint, as on the same server
        assert "which is current" in found.run("\n".join(commands), tmp_path)
        assert anew.run(RIGHTS, database=hosts.database) == cluster().run(RIGHTS, database=hosts.database)
    finally:
        anew.close()
