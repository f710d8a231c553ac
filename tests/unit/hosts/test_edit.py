"""A host's file changes by one entry, whole or not at all, and what it held is kept."""

import fcntl
import os
from pathlib import Path

import pytest

from accredit.errors import ConfigurationError
from accredit.hosts.edit import (
    MAX_BACKUPS,
    MAX_HOST_FILE_BYTES,
    Edit,
    EntryLocation,
    apply,
    backups,
    edit_entry,
    entries,
    read_host_file,
    was_missing,
)
from accredit.hosts.table import HOSTS

CURSOR = HOSTS["cursor"]
ENTRY = CURSOR.entry("mail", ["/opt/accredit", "connect"])


def place(folder: Path, host: str = "cursor") -> EntryLocation:
    return EntryLocation(HOSTS[host], folder / "mcp.json", "mail")


def install(at: EntryLocation, locks: Path, text: str = "") -> Path:
    """Writes the file if a text is given, and puts the entry in."""
    if text:
        at.file.write_text(text)
    old = read_host_file(at.file)
    return apply(Edit(at.file, old, edit_entry(at, old or b"", ENTRY)), locks)


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("codex", 'mcp_servers = { a = { command = "x" } }\n'),
        ("codex", 'mcp_servers.mail = { command = "x" }\n'),
        ("codex", 'a = """\n[mcp_servers.mail]\ncommand = "x"\n"""\n'),
        ("continue", "mcpServers:\n- name: mail\n- name: mail\n"),
        ("cursor", '{"mcpServers": 3}'),
        ("cursor", "\ufeff{}"),
        ("cursor", "\xff"),
    ],
)
def test_what_would_mean_something_else_afterwards_is_not_touched(host: str, text: str, tmp_path: Path) -> None:
    data = text.encode("latin-1" if text == "\xff" else "utf-8")
    entry = HOSTS[host].entry("mail", ["/opt/accredit", "connect"])
    with pytest.raises(ConfigurationError):
        edit_entry(place(tmp_path, host), data, entry)


def test_an_entry_that_is_no_text_is_not_written(tmp_path: Path) -> None:
    entry = CURSOR.entry("mail", [os.fsdecode(b"/\xff/accredit")])
    with pytest.raises(ConfigurationError, match="UTF-8"):
        edit_entry(place(tmp_path), b"{}", entry)


def test_two_edits_do_not_overtake_each_other(tmp_path: Path) -> None:
    at = place(tmp_path)
    install(at, tmp_path / "state", "{}")
    stale = Edit(at.file, b"{}", b"{ }")
    with pytest.raises(ConfigurationError, match="changed meanwhile"):
        apply(stale, tmp_path / "state")
    with pytest.raises(ConfigurationError, match="changed meanwhile"):
        apply(Edit(at.file, None, b"{}"), tmp_path / "state")
    with open(tmp_path / "state/hosts.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ConfigurationError, match="another accredit"):
            apply(Edit(at.file, read_host_file(at.file), b"{}"), tmp_path / "state")
    assert "mail" in entries(CURSOR, at.file.read_bytes())


def test_what_it_held_is_kept_for_its_owner_alone__five_times(tmp_path: Path) -> None:
    at = place(tmp_path)
    first = install(at, tmp_path / "state")
    assert was_missing(first)
    others = tmp_path / "mcp.json.accredit-of-mine"
    others.touch()
    kept: list[Path] = []
    for number in range(MAX_BACKUPS + 1):
        kept.append(install(at, tmp_path / "state", f'{{"number": {number}, "token": "secret"}}'))
        assert kept[-1].read_text() == f'{{"number": {number}, "token": "secret"}}'
        assert kept[-1].stat().st_mode & 0o777 == 0o600
    assert backups(at.file, tmp_path / "state") == kept[:0:-1]
    assert not first.exists()
    assert others.exists()


def test_links_are_followed__and_the_mode_stays(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    real = tmp_path / "dotfiles/real.json"
    real.write_text("{}")
    real.chmod(0o640)
    at = place(tmp_path)
    at.file.symlink_to(real)
    install(at, tmp_path / "state")
    assert at.file.is_symlink()
    assert "mail" in entries(CURSOR, real.read_bytes())
    assert real.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path / "dotfiles") == ["real.json"]


@pytest.mark.parametrize("linked", [True, False])
def test_no_backup_lies_in_a_checkout_that_a_link_leads_into__a_commit_could_take_credentials_along(
    linked: bool, tmp_path: Path
) -> None:
    checkout, host = tmp_path / "dotfiles", tmp_path / "home" / "User"
    (checkout / ".git").mkdir(parents=True)
    (checkout / "User").mkdir()
    host.parent.mkdir()
    if linked:
        host.symlink_to(checkout / "User")
    else:
        host.mkdir()
    state = tmp_path / "state"
    backup = install(place(host), state, '{"mcpServers": {"a": {"env": {"TOKEN": "1"}}}}')
    assert [*(checkout / "User").iterdir()] == ([checkout / "User" / "mcp.json"] if linked else [])
    assert backup.is_relative_to(state if linked else host)
    assert backups(host / "mcp.json", state) == [backup]


def test_a_new_file_is_its_owner_s_alone__and_its_folders_are_made(tmp_path: Path) -> None:
    at = EntryLocation(CURSOR, tmp_path / "a/b/mcp.json", "mail")
    install(at, tmp_path / "state")
    assert at.file.stat().st_mode & 0o777 == 0o600


def test_what_is_no_file_or_too_long_is_told(tmp_path: Path) -> None:
    assert read_host_file(tmp_path / "nothing") is None
    (tmp_path / "long").write_bytes(b" " * (MAX_HOST_FILE_BYTES + 1))
    os.mkfifo(tmp_path / "pipe")
    for name in ("long", "pipe", ""):
        with pytest.raises(ConfigurationError):
            read_host_file(tmp_path / name)
