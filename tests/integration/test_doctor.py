"""`accredit doctor`: each thing that can be wrong is found, and the command that it names mends it."""

import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.world.agents import save_delegation
from tests.world.command import Serving, accredit, environment
from tests.world.mail import mail_server
from tests.world.ports import reserved_port
from tests.world.postgres import cluster
from tests.world.raw_server import PATIENCE
from tests.world.terminal import Terminal
from tests.world.up import PASSPHRASE, Newcomer, Up
from tests.world.warm import COMMAND, Warm, path

from accredit.keys import load_signing_key, lock_key, make_key, write_key
from accredit.keys.passphrase import passphrase_bytes
from accredit.ratify import Grant, issue_delegation

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("ops/doctor/keys"),
    pytest.mark.holds("ops/doctor/setup"),
    pytest.mark.holds("ops/doctor/gateways"),
    pytest.mark.holds("ops/doctor/desks"),
    pytest.mark.holds("ops/doctor/entries"),
    pytest.mark.holds("ops/doctor/surroundings"),
    pytest.mark.holds("ops/doctor/examine"),
    pytest.mark.holds("cli/commands/hosts"),
]

Found = dict[str, Any]
Break = Callable[[Newcomer], object]


class Patient(Newcomer):
    """Who has run `accredit up`, and whose gateway runs."""

    def doctor(self, *words: str, **env: str) -> tuple[int, list[Found]]:
        """What the doctor finds that is not good, and the exit code."""
        done = self.run("doctor", "--json", *words, env=env)
        # It prints once all is looked at. Nothing comes of one that a signal has ended (a negative code, and -9 where
        # nobody saw how it ended), that could not begin or go on (2, with an error), that was interrupted (130), or
        # that met a defect of ours (1, with a traceback): so did one for which a full machine had no thread. The code
        # and stderr say which.
        assert done.stdout, f"the doctor has ended with {done.returncode}, and printed nothing: {done.stderr}"
        told = json.loads(done.stdout)
        assert told["ok"] is (done.returncode == 0), done
        return done.returncode, [each for each in told["findings"] if each["level"] != "good"]

    def found(self, what: str, *words: str, **env: str) -> Found:
        """The one finding whose text has these words."""
        _, findings = self.doctor(*words, **env)
        (finding,) = [each for each in findings if what in each["what"]]
        return finding

    def mends(self, command: str, **env: str) -> None:
        """Runs what the doctor has said, in a terminal, as a person would who copies it; types the passphrase if that
        is asked for."""
        where = {**self.env, **env, "PATH": env.get("PATH", path())}
        with Terminal(command, folder=self.work, env=where, command=("sh", "-c")) as terminal:
            if "accredit grant" in command:
                terminal.wait_for("Passphrase of")
                terminal.types(f"{PASSPHRASE}\n")
            assert terminal.end() == 0, terminal.seen


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Generator[Patient]:
    folder = tmp_path_factory.mktemp("d")
    with mail_server(folder) as server, reserved_port() as port:
        patient = Patient(folder, port)
        with Up(patient, patient.words(server)) as up:
            assert up.stop() == 0
        with Serving("--port", str(port), "--config", "accredit.toml", folder=patient.work, env=patient.env):
            yield patient


def test_with_a_gateway_and_no_desk_all_is_well__and_nothing_is_changed_by_looking(patient: Patient) -> None:
    everything = everything_below(patient.home.parent)
    assert patient.doctor()[0] == 0
    shown = patient.run("doctor")
    assert (shown.returncode, "ok    desk: none runs" in shown.stdout, "0 bad" in shown.stdout) == (0, True, True), (
        shown
    )
    for subject in ("keys", "configuration", "store", "gateway", "clock", "desk", "versions"):
        assert f"ok    {subject}: " in shown.stdout, subject
    secrets = [PASSPHRASE, json.loads((patient.own / "agent.key").read_text())["seed"]["ed25519"]]
    assert not [each for each in secrets if each in shown.stdout]
    assert everything_below(patient.home.parent) == everything


def everything_below(folder: Path) -> dict[str, tuple[int, int]]:
    """Each file with its size and mode; those of the gateway that runs change by themselves."""
    return {
        str(each): (each.lstat().st_size, each.lstat().st_mode)
        for each in folder.rglob("*")
        if not each.name.endswith(("-wal", "-shm"))
    }


def other_public_half(patient: Newcomer) -> None:
    shutil.copy(patient.own / "agent.key.pub", patient.own / "owner.key.pub")


def another_agent_s(patient: Newcomer) -> None:
    write_key(patient.own / "agent.key", make_key("agent", "Other", int(time.time())), replace=True)


def a_host_s_own_key_is_open(patient: Newcomer) -> None:
    key = patient.own / "agents" / "cursor" / "agent.key"
    write_key(made(key), make_key("agent", "cursor", int(time.time())), replace=True)
    key.chmod(0o640)


def made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def ended(patient: Newcomer) -> None:
    signs(patient, -10)


def ends_soon(patient: Newcomer) -> None:
    signs(patient, 3_600)


def signs(patient: Newcomer, seconds: int, cert_id: str = "c" * 32) -> None:
    """A delegation that ends so many seconds from now."""
    owner = load_signing_key(patient.own / "owner.key", lambda _: passphrase_bytes(PASSPHRASE)).signer
    agent = load_signing_key(patient.own / "agent.key").about
    now = int(time.time())
    (patient.own / "delegation.json").unlink()
    grant = Grant(
        subject=agent.public_key,
        cert_id=cert_id,
        scope=("mcp:tool",),
        issued_at=now - 100_000,
        expires_at=now + seconds,
    )
    save_delegation(patient.own / "delegation.json", (issue_delegation(owner, grant, vocabulary=("mcp:tool",)),))


def taken_back(patient: Newcomer) -> None:
    signs(patient, 1_000_000, "d" * 32)
    secret = patient.home / "passphrase"
    secret.touch(0o600)
    secret.write_text(PASSPHRASE)
    words = ("--issuer", str(patient.own / "owner.key"), "--passphrase-file", str(secret))
    done = patient.run("revoke", "d" * 32, *words, "--store", "sqlite:///accredit.db")
    assert done.returncode == 0, done.stderr


def second_human(patient: Newcomer) -> None:
    write_key(patient.own / "z.key", lock_key(make_key("human", "Z", 1), passphrase_bytes("z")))


def stale(patient: Newcomer) -> None:
    installs(patient)
    changes(patient, command="/nowhere/accredit")


def changed(patient: Newcomer) -> None:
    installs(patient)
    changes(patient, env={"PYTHONPATH": "/tmp"})


def gone(patient: Newcomer) -> None:
    installs(patient)
    cursor(patient).write_text('{"mcpServers": {}}')


def of_another_version(patient: Newcomer) -> None:
    installs(patient)
    other = patient.home / "other"
    (other / "bin").mkdir(parents=True, exist_ok=True)
    (other / "lib/python3.11/site-packages/accredit-0.0.1.dist-info").mkdir(parents=True, exist_ok=True)
    program = other / "bin" / "accredit"
    program.write_text("#!/bin/sh\ntouch ran\n")
    program.chmod(0o755)
    state = patient.home / ".local/state/accredit/hosts.json"
    changes(patient, command=str(program))
    state.unlink()


def leads_nowhere(patient: Newcomer) -> None:
    installs(patient, "http://127.0.0.1:9/mcp")


def installs(patient: Newcomer, url: str | None = None) -> None:
    cursor(patient).parent.mkdir(exist_ok=True)
    done = patient.run("install", "cursor", "--name", "mail", "--url", url or patient.url, "--yes")
    assert done.returncode == 0, done.stderr


def cursor(patient: Newcomer) -> Path:
    return patient.home / ".cursor" / "mcp.json"


def changes(patient: Newcomer, **members: object) -> None:
    tree = json.loads(cursor(patient).read_text())
    tree["mcpServers"]["mail"] |= members
    cursor(patient).write_text(json.dumps(tree))


BROKEN: dict[str, tuple[Break, str, str]] = {
    "a private key that others read": (lambda p: (p.own / "agent.key").chmod(0o644), "others can read", "bad"),
    "a host's own key that others read": (a_host_s_own_key_is_open, "others can read", "bad"),
    "a folder of keys that others write to": (lambda p: p.own.chmod(0o777), "others may write", "bad"),
    "a public half that is lost": (lambda p: (p.own / "agent.key.pub").unlink(), "has no public half", "bad"),
    "a public half of another key": (other_public_half, "is not the public half", "bad"),
    "a delegation of another agent": (another_agent_s, "for another agent", "bad"),
    "a delegation that has ended": (ended, "ended at", "bad"),
    "a delegation that was taken back": (taken_back, "was taken back", "bad"),
    "a delegation that ends soon": (ends_soon, "ends soon", "note"),
    "two people's keys": (second_human, "several human keys", "bad"),
    "a configuration that others write": (lambda p: (p.work / "accredit.toml").chmod(0o666), "others may write", "bad"),
    "a root that is not there": (lambda p: (p.work / "owner.key.pub").unlink(), "there is no", "bad"),
    "a store that others write": (lambda p: (p.work / "accredit.db").chmod(0o666), "others may write", "bad"),
    "an entry whose program is gone": (stale, "is stale", "bad"),
    "an entry that somebody has changed": (changed, "is changed", "bad"),
    "an entry that somebody has taken out": (gone, "is gone", "bad"),
    "an entry of another version": (of_another_version, "another version", "bad"),
    "an entry that leads nowhere": (leads_nowhere, "leads to http://127.0.0.1:9/mcp", "bad"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_found__and_the_command_that_is_named_mends_it(name: str, patient: Patient) -> None:
    breaks, what, level = BROKEN[name]
    kept = patient.home.parent / "kept"
    for folder in (patient.own, patient.work):
        shutil.copytree(
            folder,
            kept / folder.name,
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("accredit.db*", "accredit.pid"),
        )
    try:
        breaks(patient)
        found = patient.found(what)
        assert (found["level"], patient.doctor()[0]) == (level, 1 if level == "bad" else 0)
        assert found["remedy"]
        assert found["command"], found
        patient.mends(found["command"])
        code, left = patient.doctor()
        assert (code, [each for each in left if each["remedy"] != "restart cursor"]) == (0, [])  # there is no cursor
        assert not (patient.work / "ran").exists()
    finally:
        shutil.rmtree(patient.home / ".cursor", ignore_errors=True)
        shutil.rmtree(patient.home / ".local" / "state" / "accredit", ignore_errors=True)
        for folder in (patient.own, patient.work):
            shutil.copytree(kept / folder.name, folder, dirs_exist_ok=True)
            for each in folder.iterdir():
                if each.suffix in (".key", ".pub", ".toml") and not (kept / folder.name / each.name).exists():
                    each.unlink()
        patient.own.chmod(0o700)
        shutil.rmtree(kept)


def test_the_how_to_shows_what_is_said(patient: Patient) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/doctor.md").read_text("utf-8")
    (said,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    said = said.replace("/home/ada", str(patient.home))
    (patient.own / "agent.key").chmod(0o644)
    told = patient.run("doctor")
    assert (told.returncode, said in told.stdout) == (1, True), told.stdout
    patient.mends(said.strip().splitlines()[-1])
    assert patient.run("doctor").returncode == 0


def test_a_host_s_file_that_is_broken_is_a_fault_only_where_something_was_installed_in_it(patient: Patient) -> None:
    try:
        cursor(patient).parent.mkdir()
        cursor(patient).write_text("{ broken")
        assert [(each["subject"], each["level"]) for each in patient.doctor()[1]] == [("hosts", "note")]
        cursor(patient).unlink()
        installs(patient)
        cursor(patient).write_text("{ broken")
        assert [(each["subject"], each["level"]) for each in patient.doctor()[1]] == [("hosts", "bad")]
    finally:
        shutil.rmtree(patient.home / ".cursor")
        shutil.rmtree(patient.home / ".local" / "state" / "accredit")


def test_an_entry_in_an_adopted_server_s_place_is_never_just_taken_out(patient: Patient) -> None:
    try:
        leads_nowhere(patient)
        key = made(patient.own / "agents" / "cursor" / "agent.key")
        write_key(key, make_key("agent", "cursor", 1), replace=True)
        args = ["-m", "accredit", "connect", "http://127.0.0.1:9/mcp", "--key", str(key)]
        changes(patient, command=COMMAND[0], args=args)
        (patient.home / ".local/state/accredit/hosts.json").unlink()
        found = patient.found("leads to")
        assert (found["level"], found["command"], "--restore" in found["remedy"]) == ("bad", "", True), found
    finally:
        shutil.rmtree(patient.home / ".cursor")
        shutil.rmtree(patient.own / "agents")
        shutil.rmtree(patient.home / ".local" / "state" / "accredit")


def test_a_gateway_that_does_not_run_is_started_by_the_command(patient: Patient, tmp_path: Path) -> None:
    with reserved_port() as port:
        other = tmp_path / "other.toml"
        text = (patient.work / "accredit.toml").read_text()
        other.write_text(text.replace(f"port = {patient.port}", f"port = {port}"))
        for name in ("gateway.key", "gateway.key.pub", "owner.key.pub", "accredit.lock"):
            shutil.copy2(patient.work / name, tmp_path)
        found = patient.found("no gateway runs", "--config", str(other))
        with Warm(
            [*COMMAND, *shlex.split(found["command"])[1:], "--no-browser"], cwd=patient.work,
            env=environment(patient.env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            try:
                assert process.stdout is not None
                while b"up: http" not in (line := process.stdout.readline()):
                    assert line
                code, findings = patient.doctor("--config", str(other))
                assert (code, [each["subject"] for each in findings]) == (0, ["desk"])  # what an unlocked key allows
            finally:
                process.terminate()
            assert process.wait(PATIENCE) == 0
        with socket.create_server(("127.0.0.1", port)):
            assert "another program listens" in str(patient.doctor("--config", str(other)))


def test_a_store_that_is_damaged_is_set_aside__and_one_in_memory_is_given_a_file(
    patient: Patient, tmp_path: Path
) -> None:
    config = tmp_path / "accredit.toml"
    base = f'[upstream]\nurl = "http://127.0.0.1:9/mcp"\n[gateway]\nid = "x"\nport = {patient.port}\n'
    proofs = (
        f'[proofs]\nmode = "required"\n[[proofs.roots]]\nname = "O"\npublic_key_file = "{patient.own}/owner.key.pub"\n'
    )
    config.write_text(base + proofs)
    found = patient.found("in memory", "--config", str(config))
    patient.mends(found["command"])
    assert "memory" not in str(patient.doctor("--config", str(config)))
    store = tmp_path / "accredit.db"
    for damage in (b"no database at all" * 99, b"SQLite format 3\0" + b"\xff" * 5_000):
        store.write_bytes(damage)
        store.chmod(0o600)
        found = patient.found("can't be read", "--config", str(config))
        assert found["level"] == "bad"
        patient.mends(found["command"])
        assert not store.exists()
        assert "can't be read" not in str(patient.doctor("--config", str(config)))


def test_a_database_without_tables_is_told__and_given_them_by_the_command(patient: Patient, tmp_path: Path) -> None:
    database = cluster().empty()
    url = f"postgresql://{database.user}@/{database.database}?host={database.hosts[0].name}"
    (tmp_path / "cluster.keys").write_text("YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=\n")
    (tmp_path / "cluster.keys").chmod(0o600)
    config = tmp_path / "accredit.toml"
    config.write_text(
        f'[upstream]\nurl = "http://127.0.0.1:9/mcp"\n[gateway]\nport = {patient.port}\n'
        f'[store]\nurl = "{url}"\nreplicas = "none"\n[cluster]\nkeys_file = "cluster.keys"\n'
    )
    found = patient.found("lacks tables", "--config", str(config))
    assert (found["subject"], found["level"]) == ("store", "bad")
    patient.mends(found["command"])
    assert "store" not in {each["subject"] for each in patient.doctor("--config", str(config))[1]}
    config.write_text(config.read_text().replace(database.hosts[0].name, str(tmp_path)))
    gone = [each for each in patient.doctor("--config", str(config))[1] if each["subject"] == "store"]
    assert [each["level"] for each in gone] == ["bad"]


class Answers(BaseHTTPRequestHandler):
    """What stands for a gateway: it says of itself what a test wants."""

    date = ""
    body = b'{"status": "ok"}'
    hangs = False

    def do_GET(self) -> None:
        if self.hangs:
            self.rfile.read(1)
            return
        self.send_response_only(200)
        self.send_header("Date", self.date or self.date_time_string())
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: object) -> None: ...


@contextlib.contextmanager
def stand_in(patient: Patient, **members: Any) -> Generator[type[Answers]]:
    """A gateway that an agent of the person's has met."""
    handler = type("Handler", (Answers,), members)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        known = patient.own / "known_gateways.json"
        known.write_text(json.dumps({f"http://127.0.0.1:{server.server_port}/mcp": "met"}))
        try:
            yield handler
        finally:
            known.unlink()
            server.shutdown()
            thread.join()


def test_a_clock_that_is_wrong_is_told__and_set_by_the_command(patient: Patient, tmp_path: Path) -> None:
    (tmp_path / "timedatectl").write_text(f'#!/bin/sh\n[ "$*" = "set-ntp true" ] && touch {tmp_path}/set\n')
    (tmp_path / "timedatectl").chmod(0o755)
    with stand_in(patient, date="Mon, 01 Jan 2024 00:00:00 GMT") as gateway:
        found = patient.found("behind this machine's")
        assert (found["subject"], found["level"]) == ("clock", "bad")
        patient.mends(found["command"], PATH=f"{tmp_path}{os.pathsep}{path()}")
        assert (tmp_path / "set").exists()
        gateway.date = ""  # what that has done
        assert patient.doctor() == (0, [])
        gateway.date = "\x1b]0;x"
        assert patient.doctor()[0] == 0


def test_a_gateway_whose_revocation_list_is_gone_is_a_fault__it_goes_on_only_while_it_runs(patient: Patient) -> None:
    with stand_in(patient, body=b'{"status": "ok", "revocations": false}'):
        found = patient.found("revocations is not well")
        assert (found["subject"], found["level"]) == ("gateway", "bad")
        assert "while it runs" in found["what"]


def test_what_hostile_gateways_and_files_say_steers_no_terminal__and_keeps_nobody_waiting(patient: Patient) -> None:
    parts = {
        "status": "not ready",
        "\x1b]0;owned\x07\n\u202e": False,
        "upstream": False,
        **{f"p{n}": False for n in range(999)},
    }
    name = "\x1b[2J$(touch ran)`touch ran`\n"
    cursor(patient).parent.mkdir()
    entry = {"command": "accredit", "args": ["connect", patient.url, "--key", "/nowhere/\x1b]0;x"]}
    cursor(patient).write_text(json.dumps({"mcpServers": {name: entry}}))
    try:
        with stand_in(patient, body=json.dumps(parts).encode()), patient.terminal("doctor") as terminal:
            assert terminal.end() == 1
            assert "\x1b]" not in terminal.seen
            assert "\x1b[2J" not in terminal.seen
            assert "\u202e" not in terminal.seen
            assert "is stale" in terminal.unfolded()
        found = patient.found("is stale")
        assert found["command"] == ""  # it would not show as it is
        with stand_in(patient, hangs=True):
            assert "no answer within" in str(patient.doctor())
    finally:
        shutil.rmtree(patient.home / ".cursor")


def test_a_configuration_of_somebody_else_s_makes_it_ask_nobody(patient: Patient, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.settimeout(0.2)
        port = trap.getsockname()[1]
        work = tmp_path / "checkout"
        (work / ".cursor").mkdir(parents=True)
        (work / "accredit.toml").write_text(
            f'[gateway]\nid = "x"\nport = {port}\n[upstream]\nurl = "http://127.0.0.1:{port}/mcp/"\n'
            f'[proofs]\nmode = "required"\n[store]\nurl = "postgresql://u@127.0.0.1:{port}/x"\nreplicas = "none"\n'
        )
        entry = {"command": "accredit", "args": ["connect", f"http://127.0.0.1:{port}/mcp"]}
        (work / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"x": entry}}))
        before = patient.work
        patient.work = work
        try:
            _, findings = patient.doctor()
        finally:
            patient.work = before
        assert "may be somebody else's" in str(findings)
        # a look whether the port is taken sends nothing
        with contextlib.suppress(TimeoutError):
            while True:
                connection, _ = trap.accept()
                with connection:
                    connection.settimeout(0.2)
                    assert connection.recv(100) == b""


def test_what_is_broken_for_good_is_told_without_a_command(patient: Patient, tmp_path: Path) -> None:
    desk, known = patient.own / "desk.toml", patient.own / "known_gateways.json"
    try:
        desk.write_text("[desk]\nunlock = 7\n")
        assert patient.found("desk.toml")["subject"] == "desk"
        desk.write_text('[desk]\nkey_file = "nothing.key"\n')
        assert "nothing.key" in patient.found("which is not there")["what"]
        known.write_text("[")
        assert patient.found("known_gateways.json")["subject"] == "gateway"
    finally:
        desk.unlink()
        known.unlink()
    config = tmp_path / "accredit.toml"
    config.write_text("[gateway]\nport = true\n")
    assert patient.found("gateway.port", "--config", str(config))["subject"] == "configuration"
    assert patient.run("doctor", "--config", "nothing.toml").returncode == 2
    empty = patient.run("doctor", "--json", env={"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)})
    assert "there are no keys" in empty.stdout


def test_a_pipe_in_a_folder_of_somebody_else_s_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "accredit.toml")
    done = accredit("doctor", "--json", folder=tmp_path, env={"HOME": str(tmp_path)})
    assert "there is none here" in done.stdout
