"""Files are read bounded, and written whole, privately where that is asked for, and never over another one."""

import os
import resource
import stat
import tracemalloc
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from accredit.errors import ConfigurationError
from accredit.keys import read_file, replace_file, write_file
from accredit.keys.files import write_lines

pytestmark = pytest.mark.holds("keys/files")


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_file(path, b"data")
    assert read_file(path, 4) == (b"data", 0o644, os.geteuid())
    assert os.listdir(tmp_path) == ["file"]


def test_a_private_file_is_its_owners_only(tmp_path: Path) -> None:
    write_file(tmp_path / "file", b"", private=True)
    assert mode(tmp_path / "file") == 0o600


def test_the_umask_makes_it_stricter(tmp_path: Path) -> None:
    os.umask(0o277)
    write_file(tmp_path / "file", b"", private=True)
    assert mode(tmp_path / "file") == 0o400


@pytest.mark.parametrize("private", [True, False])
def test_what_is_there_is_not_overwritten(private: bool, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(ConfigurationError, match="exists already"):
        write_file(path, b"new", private=private)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_nor_is_what_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    with pytest.raises(ConfigurationError, match="exists already"):
        write_file(tmp_path / "link", b"new")
    assert os.listdir(tmp_path) == ["link"]


def test_a_replaced_file_gets_its_new_mode(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o666)
    write_file(path, b"new", private=True, replace=True)
    assert (path.read_bytes(), mode(path)) == (b"new", 0o600)
    assert os.listdir(tmp_path) == ["file"]


def test_replacing_follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    write_file(tmp_path / "link", b"new", replace=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_who_reads_an_old_file_keeps_it_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        write_file(path, b"new", replace=True)
        assert reader.read() == b"old"


@pytest.mark.parametrize("replace", [True, False])
def test_where_nothing_can_be_written_nothing_is_left(replace: bool, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can't write"):
        write_file(tmp_path / "no-such-folder" / "file", b"", replace=replace)
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigurationError):
        write_file(tmp_path / "folder", b"", replace=replace)
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.parametrize("whole", [True, False])
def test_without_room_the_old_file_is_left__and_room_is_what_is_asked_for(whole: bool, tmp_path: Path) -> None:
    path = tmp_path / "file"
    write = partial(write_file, replace=True) if whole else partial(replace_file, old=b"old")
    write_file(path, b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        with pytest.raises(ConfigurationError) as refused:
            write(path, b"new" * 99)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert refused.value.remedy == "make room on that disk, and run the command again"
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == {path: b"old"}


def test_a_longer_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    with pytest.raises(ConfigurationError, match="more than 4 bytes"):
        read_file(tmp_path / "file", 4)


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(ConfigurationError, match="not a regular file"):
            read_file(path, 4)


@pytest.mark.parametrize("name", [".", "missing", "missing/file"])
def test_what_can_not_be_read_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can't read"):
        read_file(tmp_path / name, 4)


@pytest.mark.parametrize("old_mode", [0o600, 0o640, 0o664])
def test_a_file_that_gets_other_bytes_keeps_its_mode__whatever_the_umask(old_mode: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(old_mode)
    replace_file(path, b"new", old=b"old")
    assert (path.read_bytes(), mode(path)) == (b"new", old_mode)
    assert os.listdir(tmp_path) == ["file"]


def test_what_somebody_has_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"theirs")
    with pytest.raises(ConfigurationError, match="was changed meanwhile"):
        replace_file(path, b"new", old=b"old")
    with pytest.raises(ConfigurationError, match="can't replace"):
        replace_file(tmp_path / "nothing", b"new", old=b"")
    assert path.read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["file"]


def test_other_bytes_go_where_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("there/file")
    replace_file(tmp_path / "link", b"new", old=b"old")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there/file").read_bytes() == b"new"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_it_keeps_its_owner__who_has_to_go_on_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o600)
    os.chown(path, 12345, 54321)
    replace_file(path, b"new", old=b"old")
    assert (path.stat().st_uid, path.stat().st_gid, mode(path)) == (12345, 54321, 0o600)


def test_reading_takes_as_much_memory_as_there_is_to_read__not_as_there_may_be(tmp_path: Path) -> None:
    """A process with little memory reads a small file, whatever its bound."""
    (tmp_path / "file").write_bytes(b"small")
    tracemalloc.start()
    try:
        assert read_file(tmp_path / "file", 1 << 40).data == b"small"
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (3 << 20) + 7])
def test_what_comes_in_pieces_is_whole__and_one_byte_too_many_is_refused(size: int, tmp_path: Path) -> None:
    data = os.urandom(size)
    (tmp_path / "file").write_bytes(data)
    assert read_file(tmp_path / "file", size).data == data
    if size:
        with pytest.raises(ConfigurationError, match="has more than"):
            read_file(tmp_path / "file", size - 1)


def test_lines_without_one_make_no_file(tmp_path: Path) -> None:
    assert write_lines(tmp_path / "file", iter(()), private=True) == 0
    assert os.listdir(tmp_path) == []
    assert write_lines(tmp_path / "file", iter((b"a", b"b")), private=True) == 2
    assert ((tmp_path / "file").read_bytes(), mode(tmp_path / "file")) == (b"ab", 0o600)
