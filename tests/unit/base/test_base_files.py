"""Nothing that somebody else has put in a file's place is waited for or read without end, and no folder of ours is
open to others."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from accredit.base.files import PRIVATE_FOLDER, SHARED_FOLDER, beside, make_folder, open_file, open_locked
from accredit.console.journal import Journal
from accredit.console.names import set_name
from accredit.errors import ConfigurationError
from accredit.keys import read_file
from accredit.keys.places import config_folder, state_folder
from accredit.setup.own_keys import own_config_folder

pytestmark = pytest.mark.holds("base/files")


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.mark.parametrize("what", ["pipe", "folder", "/dev/zero", "/dev/stdin", "missing"])
def test_what_is_no_regular_file_is_not_opened(what: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / what)
    for path in (tmp_path / what, tmp_path / "link"):
        with pytest.raises(OSError, match=r"it is not a regular file|Is a directory|No such file"):
            open_file(path)


def test_a_pipe_that_the_shell_has_handed_on_is_read_to_its_end_or_bound() -> None:
    for sent, read in ((b"whole", b"whole"), (b"x" * 5_000, None)):
        ours, theirs = os.pipe()
        os.write(theirs, sent)
        os.close(theirs)
        try:
            if read is not None:
                assert read_file(Path(f"/dev/fd/{ours}"), 4_096).data == read
            else:
                with pytest.raises(ConfigurationError, match="more than 4096 bytes"):
                    read_file(Path(f"/dev/fd/{ours}"), 4_096)
        finally:
            os.close(ours)


def test_a_link_to_a_descriptor_is_no_descriptor(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    (tmp_path / "link").symlink_to(f"/dev/fd/{ours}")
    with pytest.raises(OSError, match="not a regular file"):
        open_file(tmp_path / "link")
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize("wanted", [PRIVATE_FOLDER, SHARED_FOLDER])
def test_no_folder_that_is_made_is_open_to_others_writing(umask: int, wanted: int, tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b" / "c", wanted)
    assert {mode(tmp_path / each) for each in ("a", "a/b", "a/b/c")} == {wanted & ~umask}


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0o750)
    make_folder(tmp_path / "a")
    assert mode(tmp_path / "a") == 0o750
    (tmp_path / "link").symlink_to("a")
    make_folder(tmp_path / "link")


def test_what_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("file", "file/below"):
        with pytest.raises(ConfigurationError, match="can't make"):
            make_folder(tmp_path / name)


def test_what_a_person_s_first_commands_make_is_their_own_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    set_name(config_folder(home), "agent-1", "Assistant")
    own_config_folder(home)  # refuses a folder, or one above it, that others may write to
    Journal(state_folder(home)).close()
    made = {path for name, _, _ in os.walk(tmp_path) for path in [Path(name)] if path != tmp_path}
    assert len(made) == 5
    assert {mode(path) for path in made} == {0o700}


@pytest.mark.slow
def test_names_that_no_file_has_and_folders_without_end_are_refused_or_made__and_raise_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OSError, match="NUL"):
        open_file(tmp_path / "a\0b")
    with pytest.raises(ConfigurationError, match="NUL"):
        make_folder(tmp_path / "a\0b")
    monkeypatch.chdir(tmp_path)  # a whole path has 4,095 bytes
    make_folder(Path("a/" * 1_200))
    os.removedirs("a/" * 1_200)  # which fails if it is not there; what clears up after tests goes less deep
    assert not Path("a").exists()


@pytest.mark.parametrize("name", ["", ".", "/", "..", "a/.."])
def test_what_names_no_file_has_nothing_beside_it(name: str) -> None:
    with pytest.raises(ConfigurationError, match="names no file"):
        beside(Path(name), "other")


def test_what_lies_beside_a_file_is_in_its_folder() -> None:
    assert beside(Path("a/b.key"), "b.key.pub") == Path("a/b.key.pub")


def test_a_lock_is_held_once__follows_no_link__and_is_free_when_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    held = open_locked(path)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(BlockingIOError):
        open_locked(path)
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(held)
    os.close(open_locked(path, waits=True))
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError, match="link"):
        open_locked(tmp_path / "link")
