"""A desk that `connect` starts, as `desk.toml` says: real processes, and hosts that come and go."""

import os
import signal
import socket
import struct
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.world.agents import AgentFiles
from tests.world.authorization import Trust
from tests.world.command import Serving, accredit, wait_until
from tests.world.connected import Connected
from tests.world.desk import CALL, PASSPHRASE, Line, write_locked
from tests.world.terminal import Terminal

pytestmark = [pytest.mark.slow, pytest.mark.holds("client/desk_start")]


class Person:
    """Who has a key, and wants the desk to be started. Hosts hand on `HOME` and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {"HOME": str(folder), "SECRET_OF_THE_HOST": "marked"} | dict.fromkeys(
            ("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER"), ""
        )
        self.config = folder / ".config" / "accredit"
        self.state = folder / ".local" / "state" / "accredit"
        self.socket = self.state / "desk.sock"
        self.config.mkdir(parents=True)
        (self.config / "desk.toml").write_text("[desk]\nstart = true\n", "utf-8")

    @property
    def log(self) -> str:
        """What the desk has said, which has no terminal."""
        return (self.state / "desk.log").read_text("utf-8")

    def desk(self) -> int | None:
        """The process that listens, or None."""
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self.socket))
            except OSError:
                return None
            return struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]

    def started(self) -> list[int]:
        """Every desk that was started."""
        return [int(line.split("`kill ")[1].split("`")[0]) for line in self.log.splitlines() if "`kill " in line]

    def waiting(self) -> list[str]:
        """The codes of what is asked."""
        with Line(self.socket) as line:
            return [each["code"] for each in line.tell({"list": True})["asks"]]


@pytest.fixture
def person(trust: Trust, tmp_path: Path) -> Generator[Person]:
    person = Person(tmp_path / "ada")
    write_locked(person.config, trust.owner)
    # Where the system has folders of sockets for each user, another desk may listen there.
    person.env["ACCREDIT_DESK_SOCKET"] = str(person.socket)
    yield person
    for pid in {person.desk(), *(person.started() if person.state.exists() else ())} - {None}:
        if pid is not None and is_alive(pid):
            os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Whether a process runs; what has ended and was not reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_call_that_is_refused_starts_the_desk__which_outlives_the_host(
    gateway: Serving, files: AgentFiles, person: Person
) -> None:
    with Connected(files.folder, gateway.url, *files.options, "--hold", "120", **person.env) as host:
        host.initialize()
        assert person.desk() is None  # nobody needed one yet
        host.say(id=7, method="tools/call", params=CALL)
        wait_until(lambda: person.desk() is not None and bool(person.waiting()))
        (code,) = person.waiting()
        desk = person.desk()
        assert desk is not None
        assert [desk] == person.started()
        assert os.getsid(desk) == desk  # what ends the host's group or terminal does not end it
        if os.geteuid() == 0:  # nobody else looks into a desk
            assert "marked" not in Path(f"/proc/{desk}/environ").read_text("utf-8")
            assert {os.readlink(f"/proc/{desk}/fd/{number}") for number in (0, 1)} == {"/dev/null"}
        with Terminal("approve", code, "--once", folder=person.folder, env=person.env) as terminal:
            terminal.wait_for("assphrase")
            terminal.types(f"{PASSPHRASE}\n")
            assert terminal.end() == 0, terminal.seen
        assert "sent to ada@example.org" in str(host.hear()["result"])
    assert person.desk() == desk
    assert (person.state / "desk.log").stat().st_mode & 0o777 == 0o600
    in_a_session = {**person.env, "ACCREDIT_DESK_SOCKET": "", "XDG_RUNTIME_DIR": str(person.folder / "run")}
    found = accredit("asked", folder=person.folder, env=in_a_session)  # which looks in another folder first
    assert (found.returncode, found.stdout) == (0, "Nobody is asking.\n"), found
    opened = accredit("desk", "open", folder=person.folder, env=person.env)
    assert (opened.returncode, str(person.state / "desk.log") in opened.stdout) == (0, True), opened
    second = accredit("desk", "--port", "0", "--no-browser", folder=person.folder, env=person.env)
    assert (second.returncode, "a desk is running already" in second.stderr) == (2, True)


def test_a_desk_without_a_screen_stays_locked_and_says_how_to_unlock_it(
    gateway: Serving, files: AgentFiles, person: Person
) -> None:
    with Connected(files.folder, gateway.url, *files.options, "--hold", "0.1", **person.env) as host:
        host.initialize()
        host.ask("tools/call", CALL)  # patience ends before the desk is there
        wait_until(lambda: person.desk() is not None)
        folder, secret = person.folder, person.folder / "passphrase"
        secret.write_text(PASSPHRASE, "utf-8")
        secret.chmod(0o600)
        for command, state in (("lock", "locked"), ("unlock", "unlocked"), ("lock", "locked")):
            more = ("--passphrase-file", str(secret)) if command == "unlock" else ()
            done = accredit("desk", command, *more, folder=folder, env=person.env)
            assert (done.returncode, done.stdout) == (0, f"the key is {state}\n"), done


def test_two_hosts_at_once_start_one_desk__and_both_are_asked_there(
    gateway: Serving, files: AgentFiles, person: Person
) -> None:
    hold = ("--hold", "120")
    with (
        Connected(files.folder, gateway.url, *files.options, *hold, **person.env) as one,
        Connected(files.folder, gateway.url, *files.options, *hold, **person.env) as two,
    ):
        for number, host in enumerate((one, two)):
            host.initialize()
            arguments = {"to": "ada@example.org", "subject": str(number)}
            host.say(id=7, method="tools/call", params={**CALL, "arguments": arguments})
        wait_until(lambda: person.desk() is not None and len(person.waiting()) == 2)
        desk = person.desk()
        wait_until(lambda: [pid for pid in person.started() if is_alive(pid)] == [desk])
        for code in person.waiting():
            accredit("deny", code, folder=person.folder, env=person.env)
        for host in (one, two):
            assert "said no to this call" in str(host.hear()["result"])


def test_a_desk_that_ends_at_once_leaves_the_refusal__no_zombie_and_no_second_start(
    gateway: Serving, files: AgentFiles, person: Person
) -> None:
    (person.config / "owner.key.pub").unlink()
    (person.config / "owner.key").unlink()
    with Connected(files.folder, gateway.url, *files.options, **person.env) as host:
        host.initialize()
        for number in (7, 8):
            told = host.ask("tools/call", CALL, id=number)["result"]
            assert "accredit grant" in str(told)
        (pid,) = person.started()
        wait_until(lambda: not Path(f"/proc/{pid}").exists())
        assert "there is no human key" in person.log


def test_a_desk_is_not_started_where_nobody_said_so(gateway: Serving, files: AgentFiles, person: Person) -> None:
    (person.config / "desk.toml").write_text("[desk]\nstart = false\n", "utf-8")
    for options in ((), ("--ask", "auto")):
        with Connected(files.folder, gateway.url, *files.options, *options, **person.env) as host:
            host.initialize()
            assert "accredit grant" in str(host.ask("tools/call", CALL)["result"])
    (person.config / "desk.toml").write_text("[desk]\nstart = true\n", "utf-8")
    with Connected(files.folder, gateway.url, *files.options, "--ask", "off", **person.env) as host:
        host.initialize()
        assert "accredit grant" in str(host.ask("tools/call", CALL)["result"])
    assert not person.state.exists()
