"""The desk's files: journal, names and settings."""

import json
import os
import stat
from pathlib import Path

import pytest
from tests.world.delegations import NOW

from accredit.console.journal import MAX_JOURNAL_READ_BYTES, Journal, read_journal
from accredit.console.names import known_names, read_names, set_name
from accredit.console.past import PastDecisions
from accredit.console.settings import UNLOCKED_SECONDS, find_key, read_settings
from accredit.errors import ConfigurationError, StoreUnavailable
from accredit.keys import make_key, write_key
from accredit.keys.places import config_folder, desk_socket, runtime_folder, state_folder

pytestmark = [
    pytest.mark.holds("console/journal"),
    pytest.mark.holds("console/names"),
    pytest.mark.holds("console/settings"),
    pytest.mark.holds("console/past"),
    pytest.mark.holds("keys/places"),
]


def test_the_journal_is_the_users_alone_and_keeps_what_was_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "state")
    journal.write("asked", NOW, code="7KQ4-M2", nothing=None)
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600
    assert read_journal(tmp_path / "state") == ({"at": NOW, "event": "asked", "code": "7KQ4-M2"},)


@pytest.mark.parametrize(
    "torn", [b'{"at": 1, "event"', b"\xff\xfe", b"[" * 10_000, b'{"at": "x", "event": 5}', b"null"]
)
def test_a_torn_line_hides_no_other(tmp_path: Path, torn: bytes) -> None:
    first = Journal(tmp_path)
    first.write("asked", NOW, code="A")
    first.close()
    with first.path.open("ab") as file:
        file.write(torn)
    second = Journal(tmp_path)
    second.write("denied", NOW, code="B")
    assert [each["code"] for each in read_journal(tmp_path)] == ["A", "B"]


def test_of_a_journal_that_has_grown_the_end_is_read(tmp_path: Path) -> None:
    line = json.dumps({"at": NOW, "event": "asked", "code": "x" * 1_000}).encode() + b"\n"
    (tmp_path / "journal.jsonl").write_bytes(line * (MAX_JOURNAL_READ_BYTES // len(line) + 10))
    entries = Journal(tmp_path).past
    assert 0 < len(entries) <= MAX_JOURNAL_READ_BYTES // len(line)


def test_what_agents_ask_without_end_does_not_push_out_what_was_allowed(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write("allowed", NOW, target="\U0001f600" * 60_000)
    before = journal.path.stat().st_size
    for _ in range(60):
        journal.write("asked", NOW, id="a" * 32, target="\U0001f600" * 60_000)
    assert journal.path.stat().st_size - before < MAX_JOURNAL_READ_BYTES / (24 * 4)  # for days
    assert len(read_journal(tmp_path)[0]["target"]) == 60_000


def test_a_journal_that_can_t_be_written_says_so(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.close()
    with pytest.raises(StoreUnavailable):
        journal.write("asked", NOW)


def test_two_desks_do_not_write_one_journal__each_could_allow_what_the_other_has(tmp_path: Path) -> None:
    first = Journal(tmp_path)
    with pytest.raises(ConfigurationError, match="a desk is running already"):
        Journal(tmp_path)
    first.close()
    Journal(tmp_path).close()


def test_a_journal_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / "journal.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="journal"):
        Journal(tmp_path)


def test_entries_without_their_members_say_nothing() -> None:
    past = PastDecisions([{"at": NOW, "event": "allowed"}, {"at": NOW, "event": "denied", "id": 5}])
    assert past.used_ids(0) == []


def test_a_name_is_given_changed_and_taken_away(tmp_path: Path) -> None:
    set_name(tmp_path, "b4a4c717", "Assistant")
    set_name(tmp_path, "b4a4c717", "Helper")
    set_name(tmp_path, "9f0c2d11", "mail")
    assert read_names(tmp_path) == {"b4a4c717": "Helper", "9f0c2d11": "mail"}
    assert stat.S_IMODE((tmp_path / "names.json").stat().st_mode) == 0o600
    set_name(tmp_path, "b4a4c717", "")
    assert read_names(tmp_path) == {"9f0c2d11": "mail"}


@pytest.mark.parametrize(
    ("holder", "name"), [("a", "x\ny"), ("a", "\u202eevil"), ("a", "n" * 300), ("", "n"), ("\n", "n")]
)
def test_what_is_no_name_is_not_given(tmp_path: Path, holder: str, name: str) -> None:
    with pytest.raises(ConfigurationError):
        set_name(tmp_path, holder, name)


def test_no_two_have_one_name(tmp_path: Path) -> None:
    set_name(tmp_path, "a", "mail")
    with pytest.raises(ConfigurationError, match="already"):
        set_name(tmp_path, "b", "mail")


@pytest.mark.parametrize("text", ["[]", "{", '{"a": 5}', '{"a": "x\\u0000"}', "[" * 100_000])
def test_a_file_of_names_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "names.json").write_text(text)
    with pytest.raises(ConfigurationError):
        read_names(tmp_path)
    assert known_names(tmp_path) == {}


def test_keys_that_lie_beside_the_persons_own_have_their_names(tmp_path: Path) -> None:
    key = make_key("agent", "Mailer", NOW)
    write_key(tmp_path / "agent.key", key)
    (tmp_path / "broken.pub").write_text("x")
    assert known_names(tmp_path) == {key.id: "Mailer"}
    set_name(tmp_path, key.id, "Assistant")
    assert known_names(tmp_path) == {key.id: "Assistant"}


def env(folder: Path) -> dict[str, str]:
    (folder / "accredit").mkdir(exist_ok=True)
    return {"XDG_CONFIG_HOME": str(folder)}


def test_without_a_file_the_key_stays_open_for_a_quarter_of_an_hour(tmp_path: Path) -> None:
    assert read_settings(env(tmp_path)).unlock_seconds == UNLOCKED_SECONDS


@pytest.mark.parametrize(("text", "seconds"), [("each", None), ("1m", 60), ("12h", 43_200), ("90m", 5_400)])
def test_how_long_the_key_stays_open_can_be_said(tmp_path: Path, text: str, seconds: int | None) -> None:
    environ = env(tmp_path)
    (tmp_path / "accredit" / "desk.toml").write_text(f'[desk]\nunlock = "{text}"\nkey_file = "my.key"\n')
    settings = read_settings(environ)
    assert settings.unlock_seconds == seconds
    assert find_key(settings) == tmp_path / "accredit" / "my.key"


@pytest.mark.parametrize(
    "text",
    [
        *('[desk]\nunlock = "13h"', '[desk]\nunlock = "0m"', '[desk]\nunlock = "never"', "[desk]\nunlock = 15"),
        *("[desk]\nmore = 1", "[other]", "x", "[desk]\nunlock = '\xff'", "\x00"),
    ],
)
def test_what_desk_toml_does_not_have_stops_the_start(tmp_path: Path, text: str) -> None:
    environ = env(tmp_path)
    (tmp_path / "accredit" / "desk.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigurationError):
        read_settings(environ)


def test_the_only_human_key_is_found__and_of_several_none(tmp_path: Path) -> None:
    environ = env(tmp_path)
    settings = read_settings(environ)
    with pytest.raises(ConfigurationError, match="no human key"):
        find_key(settings)
    write_key(tmp_path / "accredit" / "agent.key", make_key("agent", "A", NOW))
    write_key(tmp_path / "accredit" / "owner.key", make_key("human", "O", NOW))
    assert find_key(settings) == tmp_path / "accredit" / "owner.key"
    write_key(tmp_path / "accredit" / "second.key", make_key("human", "S", NOW))
    with pytest.raises(ConfigurationError, match="several"):
        find_key(settings)


def test_places_are_where_the_system_says() -> None:
    environ = {"HOME": "/home/ada", "XDG_RUNTIME_DIR": "/run/user/7"}
    assert config_folder(environ) == Path("/home/ada/.config/accredit")
    assert state_folder(environ) == Path("/home/ada/.local/state/accredit")
    assert runtime_folder(environ) == Path("/run/user/7/accredit")
    assert desk_socket(environ) == Path("/run/user/7/accredit/desk.sock")
    assert desk_socket({**environ, "ACCREDIT_DESK_SOCKET": "/x/y.sock"}) == Path("/x/y.sock")
    # a relative path counts as not set: who runs this in a hostile folder is not led into it
    assert config_folder({**environ, "XDG_CONFIG_HOME": "here"}) == Path("/home/ada/.config/accredit")
    assert desk_socket({"HOME": "/home/ada"}) == Path("/home/ada/.local/state/accredit/desk.sock")
    assert os.path.isabs(desk_socket({}))
