"""What a desk gets that a host's program starts, and how often one is started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.world.command import wait_until

from accredit.client.desk_start import DESK_RESTART_SECONDS, MAX_DESK_LOG_BYTES, DeskStarter, desk_environment
from accredit.keys.places import desk_log

pytestmark = pytest.mark.holds("client/desk_start")

NOBODY = 2**31 - 7
"""A user without a folder of sockets."""
ENDS = (sys.executable, "-S", "-c", "")


@pytest.mark.holds("client/desk_start", "environment")
def test_no_secret_of_a_hosts_configuration_goes_to_the_desk() -> None:
    kept = {"HOME": "/home/ada", "PATH": "/bin", "DISPLAY": ":0", "LC_ALL": "C", "XDG_STATE_HOME": "/s"}
    others = {"MAIL_TOKEN": "s3cret", "ACCREDIT_TOKEN": "s3cret", "PYTHONPATH": "/x", "LD_PRELOAD": "/x.so"}
    assert desk_environment(kept | others, NOBODY) == kept
    assert desk_environment({"XDG_RUNTIME_DIR": "/run/x"}, NOBODY) == {"XDG_RUNTIME_DIR": "/run/x"}


@pytest.mark.holds("client/desk_start", "once")
def test_one_that_ends_at_once_is_not_started_for_each_call(tmp_path: Path) -> None:
    now = 0.0
    starter = DeskStarter({"XDG_STATE_HOME": str(tmp_path)}, command=ENDS, clock=lambda: now)
    first = starter.start()
    assert first is not None
    assert first.wait() == 0
    assert starter.start() is first
    now = DESK_RESTART_SECONDS
    assert starter.start() not in (first, None)


@pytest.mark.holds("client/desk_start", "detached")
def test_one_that_has_ended_is_no_zombie(tmp_path: Path) -> None:
    process = DeskStarter({"XDG_STATE_HOME": str(tmp_path)}, command=ENDS).start()
    assert isinstance(process, subprocess.Popen)
    wait_until(lambda: process.returncode is not None)  # nobody has asked


@pytest.mark.holds("client/desk_start", "no-terminal")
def test_what_it_says_is_for_its_user_alone__and_does_not_grow_for_ever(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    log = desk_log(environ)
    log.parent.mkdir()
    log.write_bytes(b"-" * (MAX_DESK_LOG_BYTES + 1))
    log.chmod(0o644)
    assert DeskStarter(environ, command=ENDS).start() is not None
    assert log.stat().st_mode & 0o777 == 0o600
    assert log.read_text("utf-8").startswith("started by accredit connect: `kill ")


def test_a_pipe_in_the_place_of_the_log_holds_nobody_up(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    desk_log(environ).parent.mkdir()
    os.mkfifo(desk_log(environ))
    assert DeskStarter(environ, command=ENDS).start() is None


def test_a_program_that_is_not_there_is_no_desk(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    assert DeskStarter(environ, command=("/nowhere/at/all",)).start() is None
    (tmp_path / "accredit" / "desk.log").unlink()
    (tmp_path / "accredit" / "desk.log").symlink_to(tmp_path / "elsewhere")
    assert DeskStarter(environ, command=ENDS).start() is None
