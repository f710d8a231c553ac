"""Folders and files into which somebody else may write are not one's own, whatever they hold."""

import grp
import os
import pwd
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from accredit.errors import ConfigurationError
from accredit.keys.own_files import OwnFault, check_own_folder, fault_of_file, fault_of_folder


def told(fault: OwnFault | None) -> str:
    return fault.text if fault is not None else ""


pytestmark = pytest.mark.holds("keys/own_files")
OTHER_USER = 54_321


@pytest.fixture
def folder() -> Generator[Path]:
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


def test_a_folder_that_others_may_write_into_is_nobody_s_own__nor_is_what_lies_below_it(folder: Path) -> None:
    inner = folder / "a" / "b"
    assert fault_of_folder(inner) is None  # it is not there yet, and nobody else could make it
    inner.mkdir(parents=True)
    assert fault_of_folder(inner) is None
    (folder / "a").chmod(0o777)
    assert told(fault_of_folder(inner)) == f"others may write to {folder / 'a'}"
    (folder / "a").chmod(0o1777)
    assert fault_of_folder(inner) is None  # as in /tmp: nobody else may rename what is in it
    assert fault_of_folder(folder / "a") is not None  # but what they put there may be taken for one's own
    with pytest.raises(ConfigurationError, match="somebody else's"):
        check_own_folder(folder / "a", "")


def test_what_is_no_folder__or_leads_to_one_that_is_open__is_told(folder: Path) -> None:
    (folder / "file").write_text("")
    assert "no folder" in told(fault_of_folder(folder / "file"))
    assert fault_of_folder(folder / "file" / "below") is not None
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    (folder / "link").symlink_to("open")
    assert told(fault_of_folder(folder / "link" / "below")) == f"others may write to {folder.resolve() / 'open'}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_another_user_owns_is_theirs_to_change(folder: Path) -> None:
    (folder / "theirs").mkdir()
    file = folder / "theirs" / "file"
    file.write_text("")
    assert fault_of_file(file) is None
    os.chown(file, OTHER_USER, -1)
    assert told(fault_of_file(file)) == f"{file.resolve()} is another user's"
    os.chown(file, 0, -1)
    os.chown(folder / "theirs", OTHER_USER, -1)
    assert "another user's" in told(fault_of_file(file))


def test_a_file_counts_where_a_link_leads(folder: Path) -> None:
    (folder / "file").write_text("")
    (folder / "link").symlink_to("file")
    assert fault_of_file(folder / "link") is None
    (folder / "file").chmod(0o646)
    assert "others may write" in told(fault_of_file(folder / "link"))
    assert "can't look at" in told(fault_of_file(folder / "nothing"))


def test_where_a_link_leads_is_decided_by_who_can_replace_the_link(folder: Path) -> None:
    (folder / "own").mkdir()
    (folder / "own" / "file").write_text("")
    (folder / "open").mkdir()
    (folder / "open" / "file").symlink_to("../own/file")
    (folder / "open" / "own").symlink_to(folder / "own")
    (folder / "further").symlink_to("open/own")
    ways = [folder / "open" / "file", folder / "open" / "own" / "file", folder / "further" / ".." / "own" / "file"]
    assert [fault_of_file(each) for each in ways] == [None] * 3
    (folder / "round").symlink_to("round")
    assert "can't look at" in told(fault_of_file(folder / "round" / "file"))
    (folder / "open").chmod(0o777)
    assert [told(fault_of_file(each)) for each in ways] == [f"others may write to {folder.resolve() / 'open'}"] * 3
    assert told(fault_of_folder(folder / "further")) == f"others may write to {folder.resolve() / 'open'}"
    (folder / "open").chmod(0o1777)  # as where Kubernetes mounts secrets: nobody else may replace the link
    assert [fault_of_file(each) for each in ways] == [None] * 3
    if os.geteuid() == 0:
        os.chown(folder / "open" / "file", OTHER_USER, -1, follow_symlinks=False)
        assert told(fault_of_file(ways[0])) == f"{folder.resolve() / 'open' / 'file'} is another user's"


def test_the_group_that_is_the_user_s_alone_may_write__any_other_may_not(folder: Path) -> None:
    own = pwd.getpwuid(os.geteuid())
    alone = grp.getgrgid(own.pw_gid)
    folder.chmod(0o770)
    is_own = alone.gr_name == own.pw_name and not {*alone.gr_mem} - {own.pw_name}
    assert (fault_of_folder(folder) is None) == is_own
    if os.geteuid() == 0:
        other = next(each.gr_gid for each in grp.getgrall() if each.gr_name != own.pw_name)
        os.chown(folder, -1, other)
        assert fault_of_folder(folder) is not None
