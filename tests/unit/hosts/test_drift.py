"""What became of entries that were installed is seen: somebody's change, their end, and what they lead to that is not
there."""

import json
from pathlib import Path

import pytest

from accredit.hosts.drift import EntryState, HostState, host_states
from accredit.hosts.edit import Edit, EntryLocation, apply, edit_entry, read_host_file
from accredit.hosts.installed import MAX_INSTALLED, read_installed, remember
from accredit.hosts.table import HOSTS, Entry, Places
from accredit.hosts.undo import without
from accredit.keys.places import entry_mark

pytestmark = [pytest.mark.holds("hosts/drift"), pytest.mark.holds("hosts/installed")]


class Machine:
    """A home folder, with a program that is there, and what is installed in it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder
        self.environ = {"HOME": str(folder)}
        self.state = folder / ".local/state/accredit"
        self.program = folder / "accredit"
        self.program.write_text("#!/bin/sh\n")
        self.program.chmod(0o755)
        self.words = [str(self.program), "connect", "http://127.0.0.1:8484/mcp", "--hold", "50"]

    def file(self, host: str) -> Path:
        return HOSTS[host].file(Places(self.environ))

    def install(self, host: str, words: list[str] | None = None, file: Path | None = None) -> Path:
        file = file or self.file(host)
        at, old = EntryLocation(HOSTS[host], file, "mail"), read_host_file(file)
        entry = at.host.entry("mail", words or self.words)
        apply(Edit(file, old, edit_entry(at, old or b"", entry), host, {"mail": entry}), self.state)
        return file

    def look(self, host: str, folder: Path | None = None) -> HostState:
        (found,) = [each for each in host_states(self.environ, folder) if each.host == host]
        return found


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def change(file: Path, **members: object) -> None:
    tree = json.loads(file.read_text())
    tree["mcpServers"]["mail"] |= members
    file.write_text(json.dumps(tree))


@pytest.mark.parametrize("host", HOSTS)
def test_what_is_as_it_was_written_is_installed__in_every_host(host: str, machine: Machine) -> None:
    before = machine.look(host)
    assert before.entries == ()
    machine.install(host)
    assert machine.look(host).entries == (EntryState("mail", "installed"),)
    (machine.state / "hosts.json").write_text("{ broken")
    assert machine.look(host).entries == (EntryState("mail", "installed"),)


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"args": ["connect", "http://127.0.0.1:6666/mcp"]}, "args is another"),
        ({"command": "/bin/sh"}, "another command"),
        ({"env": {"LD_PRELOAD": "/tmp/x.so"}}, "env was added"),
        ({"args": 3}, "another command"),
    ],
)
def test_a_change_of_what_the_host_starts_is_seen(members: Entry, why: str, machine: Machine) -> None:
    file = machine.install("cursor")
    change(file, **members)
    (entry,) = machine.look("cursor").entries
    assert (entry.name, entry.state) == ("mail", "changed")
    assert why in entry.why


def test_a_server_that_was_switched_off_in_the_host_is_none(machine: Machine) -> None:
    file = machine.install("cursor")
    change(file, disabled=True, autoApprove=["read"])
    assert machine.look("cursor").entries == (EntryState("mail", "installed"),)
    codex = machine.install("codex")
    codex.write_text(codex.read_text().replace("300", "400"))
    assert machine.look("codex").entries == (EntryState("mail", "changed", "tool_timeout_sec is another"),)


def test_an_entry_that_a_host_has_dropped_is_gone__and_one_that_was_taken_out_here_is_not(machine: Machine) -> None:
    file = machine.install("cursor")
    file.write_text("{}")
    assert [each.state for each in machine.look("cursor").entries] == ["gone"]
    file.unlink()
    assert [each.state for each in machine.look("cursor").entries] == ["gone"]
    machine.install("cursor")
    apply(without(EntryLocation(HOSTS["cursor"], file, "mail"), machine.state), machine.state)
    assert machine.look("cursor").entries == ()
    assert read_installed(machine.state) == ()


def test_an_entry_whose_program_or_key_is_gone_is_stale(machine: Machine) -> None:
    key = machine.home / "agent.key"
    key.touch()
    machine.install("cursor", [*machine.words, "--key", str(key)])
    assert [each.state for each in machine.look("cursor").entries] == ["installed"]
    key.unlink()
    assert machine.look("cursor").entries == (EntryState("mail", "stale", f"there is no {key}"),)
    machine.program.unlink()
    assert machine.look("cursor").entries == (EntryState("mail", "stale", f"there is no {machine.program}"),)


def test_a_file_of_a_project_is_looked_at_wherever_the_command_runs(machine: Machine) -> None:
    file = machine.install("cursor", file=machine.home / "project/.cursor/mcp.json")
    states = [each for each in host_states(machine.environ) if each.file == file]
    assert [each.entries for each in states] == [(EntryState("mail", "installed"),)]
    (machine.state / "hosts.json").unlink()
    assert [each for each in host_states(machine.environ) if each.file == file] == []
    assert [each.entries for each in host_states(machine.environ, machine.home / "project") if each.file == file] == [
        (EntryState("mail", "installed"),)
    ]


def test_what_is_remembered_is_bounded__and_its_owner_s(machine: Machine) -> None:
    machine.state.mkdir(parents=True)
    every = {f"n{number}": {"command": "x"} for number in range(MAX_INSTALLED + 1)}
    remember(machine.state, "cursor", Path("/file"), every)
    assert [each.name for each in read_installed(machine.state)] == list(every)[1:]
    assert (machine.state / "hosts.json").stat().st_mode & 0o777 == 0o600


def test_a_broken_file_is_told_and_not_an_error(machine: Machine) -> None:
    file = machine.install("cursor")
    file.write_text("{ broken")
    assert "line 1" in (machine.look("cursor").problem or "")


def test_a_mark_stays_until_its_command_is_started__or_its_entry_is_changed_or_gone(machine: Machine) -> None:
    other = [*machine.words, "--key", "a\ud800"]
    file = machine.install("cursor")
    marks = lambda: [*machine.state.glob("*.unstarted")]  # noqa: E731
    assert marks() == [entry_mark(machine.state, machine.words)]
    assert marks() == [entry_mark(machine.state, ["python", "-m", "accredit", *machine.words[1:]])]
    assert entry_mark(machine.state, other) not in marks()
    machine.install("cursor", [*machine.words, "--modern"])
    assert marks() == [entry_mark(machine.state, [*machine.words, "--modern"])]
    apply(without(EntryLocation(HOSTS["cursor"], file, "mail"), machine.state), machine.state)
    assert marks() == []
