"""A configuration's files are read once, and who builds from what was read looks at no file again."""

import os
from pathlib import Path

import pytest

from accredit.errors import ConfigurationError
from accredit.keys import ReadFiles, is_there, read_file, reading
from accredit.keys.reading import FileContent

pytestmark = [pytest.mark.holds("keys/reading"), pytest.mark.holds("keys")]


def test_a_file_that_changes_between_two_looks_gives_no_half(tmp_path: Path) -> None:
    one, other, none = tmp_path / "one", tmp_path / "other", tmp_path / "none"
    one.write_text("1", "utf-8")
    other.write_text("1", "utf-8")
    files = ReadFiles()
    with reading(files):
        assert not is_there(none)
        assert read_file(one, 10).data == b"1"
        for each in (one, none):
            each.write_text("22", "utf-8")
        assert read_file(one, 10).data == b"1"
        with pytest.raises(ConfigurationError, match="more than 0"):
            read_file(one, 0)
    with reading(ReadFiles.of(files.encoded())):
        assert read_file(one, 10) == (b"1", 0o644, os.geteuid())
        assert (is_there(one), is_there(none)) == (True, False)
        assert not is_there(other)
        for each in (other, none):  # it was not asked for then
            with pytest.raises(ConfigurationError, match="was not there when the configuration was read"):
                read_file(each, 10)
    assert read_file(one, 10).data == b"22"


def test_files_that_differ_are_told_by_their_names(tmp_path: Path) -> None:
    def read(*names: str) -> ReadFiles:
        files = ReadFiles()
        with reading(files):
            for name in names:
                read_file(tmp_path / name, 10)
        return files

    for name in "abc":
        (tmp_path / name).write_text("1", "utf-8")
    before = read("a", "b")
    (tmp_path / "a").write_text("2", "utf-8")
    assert [each.name for each in read("a", "c").changed(before)] == ["a", "b", "c"]
    assert [*before.changed(before)] == []


@pytest.mark.parametrize(
    ("owner", "mode", "as_user", "open_to_others"),
    [
        (1000, 0o600, 1000, False), (1000, 0o640, 1000, True), (1000, 0o604, 1000, True), (1000, 0o640, 0, True),
        (0, 0o600, 0, False), (0, 0o440, 0, True),
        # what systemd and Kubernetes mount for a process that is not root
        (0, 0o440, 65532, False), (0, 0o640, 65532, False), (0, 0o460, 65532, True), (0, 0o450, 65532, True),
        (0, 0o444, 65532, True), (1000, 0o440, 65532, True),
    ],
)  # fmt: skip
def test_a_key_that_somebody_else_can_read_is_found(
    monkeypatch: pytest.MonkeyPatch, owner: int, mode: int, as_user: int, open_to_others: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: as_user)
    assert FileContent(b"", mode, owner).open_to_others is open_to_others
