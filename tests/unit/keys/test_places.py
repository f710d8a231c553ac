"""Files of the person are where the specification of such folders says, and nowhere a stranger could name."""

from pathlib import Path

import pytest

from accredit.keys.places import config_folder, desk_socket, desk_sockets, runtime_folder, state_folder

HOME = {"HOME": "/home/ada"}


def test_without_more_they_are_below_the_home_folder() -> None:
    assert config_folder(HOME) == Path("/home/ada/.config/accredit")
    assert state_folder(HOME) == Path("/home/ada/.local/state/accredit")
    assert runtime_folder(HOME) == state_folder(HOME)


def test_variables_name_other_folders() -> None:
    named = {"XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/run/user/7", "TMPDIR": "/run/user/7"}
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
