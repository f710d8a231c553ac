"""What was put in comes out, and nothing else is lost by it unless somebody asks for that."""

from pathlib import Path

import pytest

from accredit.errors import ConfigurationError
from accredit.hosts.edit import Edit, EntryLocation, apply, edit_entry, read_host_file
from accredit.hosts.table import HOSTS
from accredit.hosts.undo import plan_restore, without


def place(folder: Path, host: str = "cursor") -> EntryLocation:
    return EntryLocation(HOSTS[host], folder / "file", "mail")


def install(at: EntryLocation, name: str = "mail") -> None:
    old = read_host_file(at.file)
    entry = at.host.entry(name, ["/opt/accredit", "connect"])
    apply(Edit(at.file, old, edit_entry(at._replace(name=name), old or b"", entry)), at.file.parent / "state")


@pytest.mark.parametrize("host", HOSTS)
def test_a_file_that_was_made_for_the_entry_goes_with_it(host: str, tmp_path: Path) -> None:
    at = place(tmp_path, host)
    install(at)
    assert without(at, tmp_path / "state").new is None
    apply(without(at, tmp_path / "state"), tmp_path / "state")
    assert not at.file.exists()


def test_a_file_stays_that_was_there_before__or_holds_something_else(tmp_path: Path) -> None:
    at = place(tmp_path)
    at.file.write_text("{}\n")
    install(at)
    assert without(at, tmp_path / "state").new == b"{}\n"
    at.file.unlink()
    for backup in tmp_path.glob("file.*"):
        backup.unlink()
    install(at)
    install(at, "other")
    assert b"other" in (without(at, tmp_path / "state").new or b"")
    at.file.unlink()
    install(at)
    at.file.write_text(at.file.read_text() + "// of mine\n")
    assert b"// of mine" in (without(at, tmp_path / "state").new or b"")


def test_the_file_is_put_back_as_it_was_when_it_last_did_not_have_the_entry(tmp_path: Path) -> None:
    at = place(tmp_path)
    with pytest.raises(ConfigurationError, match="nothing is kept"):
        plan_restore(at.host, at.file, {at.name}, tmp_path / "state")
    at.file.write_text('{"a": 1}')
    install(at)
    at.file.write_text(at.file.read_text().replace("connect", "connect-"))
    install(at)
    assert plan_restore(at.host, at.file, {at.name}, tmp_path / "state")[:3] == (
        at.file,
        at.file.read_bytes(),
        b'{"a": 1}',
    )
    apply(plan_restore(at.host, at.file, {at.name}, tmp_path / "state"), tmp_path / "state")
    assert at.file.read_text() == '{"a": 1}'


def test_where_there_was_no_file_there_is_none_again(tmp_path: Path) -> None:
    at = place(tmp_path)
    install(at)
    at.file.write_text(at.file.read_text() + "// of mine\n")
    assert plan_restore(at.host, at.file, {at.name}, tmp_path / "state").new is None
    with pytest.raises(ConfigurationError, match="there is no"):
        without(at._replace(file=tmp_path / "nothing"), tmp_path / "state")
