"""Files of the person are where the specification of such folders says, and nowhere a stranger could name."""

import os
import pwd
from pathlib import Path

import pytest

from accredit.console.settings import read_settings
from accredit.errors import ConfigurationError
from accredit.hosts.table import Places
from accredit.keys.places import config_folder, desk_socket, desk_sockets, home_folder, runtime_folder, state_folder

HOME = {"HOME": "/home/ada"}


def test_without_more_they_are_below_the_home_folder() -> None:
    assert config_folder(HOME) == Path("/home/ada/.config/accredit")
    assert state_folder(HOME) == Path("/home/ada/.local/state/accredit")
    assert runtime_folder(HOME) == state_folder(HOME)


def test_variables_name_other_folders() -> None:
    named = {"XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/run/user/7"}
    assert config_folder(HOME | named) == Path("/c/accredit")
    assert state_folder(HOME | named) == Path("/s/accredit")
    assert desk_socket(HOME | named) == Path("/run/user/7/accredit/desk.sock")
    assert desk_socket(HOME | named | {"ACCREDIT_DESK_SOCKET": "/x/d.sock"}) == Path("/x/d.sock")


@pytest.mark.parametrize("value", ["", ".", "relative/path"])
def test_what_is_no_absolute_path_does_not_count(value: str) -> None:
    assert config_folder(HOME | {"XDG_CONFIG_HOME": value}) == config_folder(HOME)
    assert desk_socket(HOME | {"ACCREDIT_DESK_SOCKET": value}) == desk_socket(HOME)


def test_a_host_that_hands_on_few_variables_does_not_hide_the_desk() -> None:
    person = HOME | {"XDG_RUNTIME_DIR": "/run/user/7"}
    for host in ({}, {"XDG_RUNTIME_DIR": ""}, {"XDG_RUNTIME_DIR": "/run/user/7"}):
        assert desk_sockets(HOME | host, 7) == (desk_socket(person), desk_socket(HOME))
    assert desk_sockets(HOME | {"XDG_RUNTIME_DIR": "/elsewhere"}, 7)[0] == Path("/elsewhere/accredit/desk.sock")
    assert desk_sockets(person | {"ACCREDIT_DESK_SOCKET": "/x/d.sock"}, 7) == (Path("/x/d.sock"),)


def test_on_macos_the_desk_of_a_terminal_is_where_a_host_that_hands_on_few_variables_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    terminal = HOME | {"TMPDIR": "/var/folders/1x/T/"}
    assert desk_socket(terminal) in desk_sockets(HOME, 501)


@pytest.mark.parametrize("home", ["", ".", "relative"])
def test_a_home_that_names_no_folder_is_that_of_the_user_database(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", home)  # what Python itself would go by
    registered = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert home_folder({"HOME": home}) == home_folder({}) == Places({"HOME": home}).home == registered
    assert config_folder({"HOME": home}) == registered / ".config" / "accredit"


def test_a_user_without_any_home_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 2_000_000_000)
    with pytest.raises(ConfigurationError, match="no home folder"):
        home_folder({"HOME": ""})


def test_a_tilde_in_the_desk_s_file_is_the_home_that_all_else_goes_by(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "accredit"
    folder.mkdir(parents=True)
    (folder / "desk.toml").write_text('[desk]\nkey_file = "~/k"\nrevocation_list = "list"\n')
    found = read_settings({"HOME": "/home/ada", "XDG_CONFIG_HOME": str(tmp_path / "config")})
    assert (found.key_file, found.revocation_list) == (Path("/home/ada/k"), folder / "list")
