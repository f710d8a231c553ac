"""Who serves a configuration is told by a lock, not by a number in a file."""

import fcntl
import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from accredit.app.pid_file import PID_FILE, PidFile, Reloads, find, place, serving
from accredit.errors import ConfigurationError
from accredit.ops.reload import reload_gateway

pytestmark = pytest.mark.holds("app/pid_file")


def test_without_the_lock_the_file_says_nothing(tmp_path: Path) -> None:
    assert find(tmp_path) is None
    held = PidFile.lock(tmp_path / "accredit.toml")
    held.tell(Reloads(str(tmp_path / "accredit.toml"), place(), begun=1, done=1, problem="x" * 2_000))
    held.tell(Reloads(str(tmp_path / "accredit.toml"), place(), begun=2, done=2, changed="tools"))
    found = find(tmp_path)
    assert found is not None
    assert (found.pid, found.reloads) == (os.getpid(), held.reloads)
    assert (tmp_path / PID_FILE).stat().st_mode & 0o777 == 0o600
    text = (tmp_path / PID_FILE).read_bytes()
    held.end()
    (tmp_path / PID_FILE).write_bytes(text)
    assert find(tmp_path) is None


def test_one_gateway_has_it__and_one_that_can_not_is_told_why(tmp_path: Path) -> None:
    held = PidFile.lock(tmp_path / "accredit.toml")
    with pytest.raises(ConfigurationError, match="another gateway has"):
        PidFile.lock(tmp_path / "other.toml")
    held.end()
    PidFile.lock(tmp_path / "other.toml").end()
    (tmp_path / PID_FILE).unlink()
    (tmp_path / PID_FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="can't write"):
        PidFile.lock(tmp_path / "accredit.toml")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.slow
def test_a_file_that_is_locked_by_a_stranger_names_nobody(tmp_path: Path) -> None:
    held = PidFile.lock(tmp_path / "accredit.toml")
    for text in (b"", b"1\n{}", b"-1\n", b"x\ny", b'2\n{"a":%b}' % (b"[" * 5_000 + b"]" * 5_000)):
        (tmp_path / PID_FILE).write_bytes(text)
        with pytest.raises(ConfigurationError, match="says nothing of a gateway"):
            find(tmp_path)
    held.end()


def test_a_link_to_another_file_of_its_own_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    os.link(tmp_path / "precious", tmp_path / PID_FILE)
    with pytest.raises(ConfigurationError, match="another file's"):
        PidFile.lock(tmp_path / "accredit.toml")
    assert (tmp_path / "precious").read_text() == "kept"
    (tmp_path / PID_FILE).unlink()
    os.mkfifo(tmp_path / PID_FILE)
    with pytest.raises(ConfigurationError, match="another file's"):
        PidFile.lock(tmp_path / "accredit.toml")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_that_another_user_has_made_is_not_taken__and_has_nobody_of_others_sent_a_signal(tmp_path: Path) -> None:
    file, configuration = tmp_path / PID_FILE, tmp_path / "accredit.toml"
    with subprocess.Popen(["sleep", "600"]) as bystander:
        reloads = msgspec.json.encode(Reloads(str(configuration), place()))
        file.write_bytes(b"%d\n%b\n" % (bystander.pid, reloads))
        os.chown(file, 65_534, 65_534)
        with pytest.raises(ConfigurationError, match="another user's"):
            PidFile.lock(configuration)
        with file.open("rb") as locked:
            fcntl.flock(locked, fcntl.LOCK_EX)
            found = find(tmp_path)
            assert found is not None
            assert (found.pid, found.owner, found.is_its_owners) == (bystander.pid, 65_534, False)
            assert reload_gateway(configuration) == 1
            os.chown(file, 0, 0)
            again = find(tmp_path)
            assert again is not None
            assert again.is_its_owners
        assert bystander.poll() is None
        bystander.kill()


def test_a_loop_of_links_in_the_configuration_s_place_is_served_by_nobody(tmp_path: Path) -> None:
    loop = tmp_path / "accredit.toml"
    loop.symlink_to(loop)
    assert serving(loop) is None
    assert reload_gateway(loop, {}) == 1
