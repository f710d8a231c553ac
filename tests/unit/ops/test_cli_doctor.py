"""How the looks of `accredit doctor` are taken: at one time, bounded, and whatever one of them meets."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from accredit.base.standard import printing_json
from accredit.errors import AccreditError, ConfigurationError, StoreUnavailable
from accredit.limits import MAX_FINDING_CHARS
from accredit.ops.doctor.engine import (
    Result,
    Unknown,
    bad,
    command_line,
    good,
    into_file,
    no,
    note,
    ok,
    print_results,
    run_looks,
    unknown,
)
from accredit.ops.doctor.entries import other_version
from accredit.ops.doctor.examine import MAX_FINDINGS, findings_of, members
from accredit.ops.doctor.production.checklist import members_in
from accredit.ops.doctor.setup import look_at_configuration
from accredit.ops.doctor.surroundings import Surroundings, surroundings

pytestmark = [
    pytest.mark.holds("ops/doctor/engine"),
    pytest.mark.holds("ops/doctor/examine"),
]

NO_ROOM = 1 << 60
"""Bytes of a thread's stack that no machine has."""


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Surroundings:
    monkeypatch.chdir(tmp_path)
    return surroundings(None, {"HOME": str(tmp_path)})


def well(_: Surroundings) -> Iterator[Result]:
    yield good("desk", "well")


def test_who_can_write_where_a_server_s_command_runs_may_change_what_is_run__so_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "accredit.toml").write_text('[servers.files]\ncommand = ["true"]\ncwd = "run"\n')
    (tmp_path / "run").mkdir(mode=0o755)
    at = surroundings(tmp_path / "accredit.toml", {"HOME": str(tmp_path)})
    assert "bad" not in [each.state for each in look_at_configuration(at)]
    (tmp_path / "run").chmod(0o777)
    (found,) = [each for each in look_at_configuration(at) if each.state == "bad"]
    assert found.what == f"servers.files.cwd: others may write to {tmp_path}/run"
    assert found.command == f"chmod go-w {tmp_path}/run"


def test_a_look_that_never_ends_keeps_nobody_waiting_for_the_others(at: Surroundings) -> None:
    stop = threading.Event()

    def hangs(_: Surroundings) -> Iterator[Result]:
        stop.wait()
        yield good("store", "late")

    try:
        found = findings_of(at, {"store": hangs, "desk": well}, seconds=0.2)
    finally:
        stop.set()
    assert [(each.about, each.state) for each in found] == [("store", "bad"), ("desk", "good")]
    assert "more than 0.2 s" in found[0].what


def test_a_look_that_was_abandoned_can_t_make_the_command_die__whose_exit_code_and_words_would_be_lost() -> None:
    statements = (
        "import atexit, sys, threading; import accredit.cli as cli; from accredit.__main__ import main\n"
        "from accredit.ops.doctor.engine import run_looks\n"
        "def run(): return print('told', *run_looks({'late': threading.Event().wait}, 0.01)) or 3\n"
        "cli.main = run; atexit.register(print, 'Python takes the libraries away under the look'); sys.exit(main())\n"
    )
    ended = subprocess.run([sys.executable, "-c", statements], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "told late\n", "")


@pytest.mark.parametrize(
    "error",
    [
        OSError(5, "I/O error"),
        ConfigurationError("what", "remedy"),
        StoreUnavailable("gone"),
        RecursionError(),
        RuntimeError("can't start new thread"),
        MemoryError(),
    ],
)
def test_a_look_that_fails_says_so__with_what_it_had_found__and_the_others_go_on(
    at: Surroundings, error: Exception
) -> None:
    def fails(_: Surroundings) -> Iterator[Result]:
        yield good("store", "so far")
        raise error

    found = findings_of(at, {"store": fails, "desk": well})
    assert [(each.about, each.state) for each in found] == [("store", "good"), ("store", "bad"), ("desk", "good")]
    assert found[1].what in ("what", "gone") if isinstance(error, AccreditError) else "has failed" in found[1].what


def test_where_there_is_no_room_for_a_thread_the_doctor_says_that__and_not_nothing(at: Surroundings) -> None:
    before = threading.stack_size(NO_ROOM)
    try:
        found = findings_of(at, {"store": well, "desk": well})
        told = run_looks({"store": lambda: 1}, seconds=1)
    finally:
        threading.stack_size(before)
    assert [(each.about, each.state) for each in found] == [("store", "bad"), ("desk", "bad")]
    assert "can't start new thread" in found[0].what
    assert told == {"store": Unknown("this look has failed: can't start new thread", "see what is there")}


def test_what_programs_and_people_read_of_both_lists_stays_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    findings = [bad("keys", "open", "close it", "chmod 600 a.key"), note("desk", "unlocked"), good("versions", "0.1")]
    lines = [each.fit(f"production.{name}", str) for name, each in LINES.items()]

    def of_doctor(results: list[Result]) -> int:
        return print_results(results, "findings", members, ("bad", "note", "good"))

    def of_checklist(results: list[Result], *left_out: str) -> int:
        return print_results(results, "checks", partial(members_in, left_out), ("ok", "no", "unknown"), left_out)

    assert [of_doctor(findings), of_doctor(findings[1:])] == [1, 0]
    assert of_checklist(lines, "production.tls") == 1
    assert of_checklist(lines, "production.tls", "production.clock") == 0
    assert capsys.readouterr().out == SHOWN
    with printing_json():
        assert of_doctor(findings[:1]) == 1
        assert of_checklist(lines[1:2]) == 1
        assert of_checklist(lines[1:2], "production.tls") == 0
    assert capsys.readouterr().out == JSON


def test_a_command_is_whole_in_a_narrow_window__what_is_copied_from_a_folded_one_would_not_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def narrow(_: object) -> int:
        return 80

    monkeypatch.setattr("accredit.terminal.output.width_of", narrow)
    command = command_line("accredit", "grant", "--issuer", "/home/ada/a folder/owner.key", "--scope", "mcp:tool" * 9)
    print_results([bad("keys", "it has ended " * 9, "sign another", command)], "findings", members, ("bad",))
    said = capsys.readouterr().out.splitlines()
    assert f"      {command}" in said
    assert any(len(line) <= 80 and "  | " in line for line in said)  # the rest is folded


LINES = {"files": ok("4 files"), "tls": no("none", "set it"), "clock": unknown("not told")}
SHOWN = """\
BAD   keys: open
      close it
      chmod 600 a.key
note  desk: unlocked
ok    versions: 0.1

1 bad, 1 to know, 1 good
note  desk: unlocked
ok    versions: 0.1

0 bad, 1 to know, 1 good
ok    production.files: 4 files
--    production.tls: none
      set it
?     production.clock: not told

1 ok, 0 not, 1 can't be told from here, 1 left out on your word
ok    production.files: 4 files
--    production.tls: none
      set it
--    production.clock: not told

1 ok, 0 not, 0 can't be told from here, 2 left out on your word
"""
JSON = """\
{
  "ok": false,
  "findings": [
    {
      "subject": "keys",
      "level": "bad",
      "what": "open",
      "remedy": "close it",
      "command": "chmod 600 a.key"
    }
  ]
}
{
  "ok": false,
  "checks": [
    {
      "id": "production.tls",
      "state": "no",
      "what": "none",
      "remedy": "set it",
      "command": "",
      "left_out": false
    }
  ]
}
{
  "ok": true,
  "checks": [
    {
      "id": "production.tls",
      "state": "no",
      "what": "none",
      "remedy": "set it",
      "command": "",
      "left_out": true
    }
  ]
}
"""


def test_what_is_found_is_bounded__and_told_once(at: Surroundings) -> None:
    def endless(_: Surroundings) -> Iterator[Result]:
        for number in range(2 * MAX_FINDINGS):
            yield bad("hosts", f"{number}" + "x" * 9 * MAX_FINDING_CHARS, "y" * 9 * MAX_FINDING_CHARS)
            yield good("desk", "well")

    found = findings_of(at, {"hosts": endless, "desk": well})
    assert len(found) == MAX_FINDINGS
    assert max(len(each.what + each.remedy) for each in found) < 2 * MAX_FINDING_CHARS + 10
    assert [each.about for each in found].count("desk") <= 1


@pytest.mark.parametrize("word", ["a\nb", "\x1b[2J", "\u202eab", "x" * (MAX_FINDING_CHARS + 1), "\udce9"])
def test_a_command_that_would_not_show_as_it_is_is_none(word: str) -> None:
    assert (command_line("chmod", "600", word), into_file(word, "ls"), into_file("f", "ls", word)) == ("", "", "")
    assert command_line("rm", "$(touch ran)", "a'b") == "rm '$(touch ran)' 'a'\"'\"'b'"


def test_which_accredit_a_command_starts_is_told_by_what_is_installed_beside_it(tmp_path: Path) -> None:
    program = tmp_path / "bin/accredit"
    assert other_version(str(program)) is None
    (tmp_path / "lib/python3.12/site-packages/accredit-9.9.dist-info").mkdir(parents=True)
    assert other_version(str(program)) == "9.9"
    assert other_version("accredit") is None


def test_a_configuration_that_only_lies_there_is_not_one_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {"HOME": str(tmp_path)}
    (tmp_path / "accredit.toml").write_text("")
    assert surroundings(None, environ).is_own is False
    assert surroundings(Path("accredit.toml"), environ).is_own is True
    assert surroundings(None, {**environ, "ACCREDIT_CONFIG": "accredit.toml"}).is_own is True
    known = tmp_path / ".config/accredit/configurations.json"
    known.parent.mkdir(parents=True)
    known.write_text(f'["{(tmp_path / "accredit.toml").resolve()}"]')
    assert surroundings(None, environ).is_own is True
    known.write_text("{")
    assert surroundings(None, environ).is_own is False
    with pytest.raises(ConfigurationError):
        surroundings(Path("nothing.toml"), environ)
