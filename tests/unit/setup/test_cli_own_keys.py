"""Keys of a person and their agents: what is there is kept, what is half there is completed, what is not is made."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from accredit.errors import ConfigurationError, WrongPassphrase
from accredit.keys import LockedKeyFile, load_signing_key, make_key, read_key, write_key
from accredit.setup.own_keys import OwnKey, Passphrases, kept_key, own_config_folder, person_key

pytestmark = pytest.mark.holds("setup/own_keys")


class Person:
    """Somebody with a folder for their configuration, and a passphrase in a file."""

    def __init__(self, folder: Path) -> None:
        self.environ = {"XDG_CONFIG_HOME": str(folder / "config"), "HOME": str(folder)}
        self.folder = folder / "config" / "accredit"
        self.secret = self.written(folder / "secret", "correct horse")

    @staticmethod
    def written(path: Path, text: str) -> Path:
        path.write_text(text)
        path.chmod(0o600)
        return path

    def key(self) -> OwnKey:
        return person_key(self.environ, Passphrases(self.secret))

    def held(self) -> dict[str, bytes]:
        return {each.name: each.read_bytes() for each in self.folder.iterdir()}


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


def test_from_nothing_there_is_a_folder_for_one_alone__and_a_key_under_a_passphrase(person: Person) -> None:
    made = person.key()
    assert (made.path, made.made) == (person.folder / "owner.key", True)
    assert person.folder.stat().st_mode & 0o777 == 0o700
    assert made.path.stat().st_mode & 0o777 == 0o600
    assert isinstance(read_key(made.path), LockedKeyFile)
    assert "ed25519" not in json.loads(made.path.read_text())["seed"]


def test_into_a_folder_that_others_may_write_to_no_key_is_put(person: Person) -> None:
    person.folder.mkdir(parents=True)
    person.folder.chmod(0o777)
    with pytest.raises(ConfigurationError, match="others may write"):
        person.key()
    assert person.held() == {}
    person.folder.rmdir()
    person.folder.write_text("")
    with pytest.raises(ConfigurationError, match="no folder"):
        own_config_folder(person.environ)


@pytest.mark.parametrize("lost", [False, True], ids=["whole", "without its public half"])
def test_a_key_that_is_there_is_kept__and_its_lost_half_is_made_of_it_again(person: Person, lost: bool) -> None:
    person.key()
    kept_key(person.folder / "agent.key", "agent", "Agent")
    before = person.held()
    if lost:
        for name in ("owner.key.pub", "agent.key.pub"):
            (person.folder / name).unlink()
    again = person_key(person.environ, Passphrases(None))  # nobody is asked
    agent = kept_key(person.folder / "agent.key", "agent", "Other")
    assert (again.made, agent.made, agent.about.name) == (False, False, "Agent")
    assert person.held() == before


def a_human_s(folder: Path) -> None:
    write_key(folder / "agent.key", make_key("human", "A", 1))


def broken(folder: Path) -> None:
    (folder / "agent.key").write_text("{")


def link_to_nothing(folder: Path) -> None:
    (folder / "agent.key").symlink_to("/nowhere")


def mixed(folder: Path) -> None:
    for name in ("agent.key", "other.key"):
        write_key(folder / name, make_key("agent", "A", 1))
    (folder / "agent.key.pub").write_bytes((folder / "other.key.pub").read_bytes())


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (a_human_s, "of a human"),
        (broken, "not a key file"),
        (link_to_nothing, "can't read"),
        (mixed, "not the public half"),
    ],
    ids=["a human's", "broken", "a link to nothing", "another's public half"],
)
def test_what_is_in_the_place_of_a_key_is_never_replaced(
    person: Person, change: Callable[[Path], object], what: str
) -> None:
    folder = own_config_folder(person.environ)
    change(folder)
    names = sorted(each.name for each in folder.iterdir())
    with pytest.raises(ConfigurationError, match=what):
        kept_key(folder / "agent.key", "agent", "Agent")
    assert sorted(each.name for each in folder.iterdir()) == names


def test_the_only_human_key_counts_whatever_its_name__of_several_none_is_guessed(person: Person) -> None:
    write_key(own_config_folder(person.environ) / "ada.key", make_key("human", "Ada", 1))
    assert person.key().about.name == "Ada"
    write_key(person.folder / "bob.key", make_key("human", "Bob", 1))
    with pytest.raises(ConfigurationError, match="several human keys"):
        person.key()
    (person.folder / "desk.toml").write_text('[desk]\nkey_file = "bob.key"\n')
    assert person.key().about.name == "Bob"


def test_without_a_passphrase_there_is_a_warning__unless_that_was_said(
    person: Person, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert person_key(person.environ, Passphrases(None)).made
    assert "not encrypted" in capsys.readouterr().err
    for path in person.folder.iterdir():
        path.unlink()
    assert person_key(person.environ, Passphrases(None, declined=True)).made
    assert capsys.readouterr().err == ""
    with pytest.raises(ConfigurationError, match="no-passphrase"):
        Passphrases(person.secret, declined=True)


@pytest.mark.slow
def test_a_passphrase_is_read_once_for_all_that_is_signed__and_a_wrong_one_is_told(person: Person) -> None:
    passphrases = Passphrases(person.secret)
    made = person_key(person.environ, passphrases)
    person.secret.unlink()
    for _ in range(2):
        assert load_signing_key(made.path, passphrases.of).about == made.about
    known = passphrases._known
    passphrases.forget()
    assert known == bytearray(len("correct horse"))
    wrong = Passphrases(person.written(person.folder / "wrong", "wrong horse"))
    with pytest.raises(WrongPassphrase):
        load_signing_key(made.path, wrong.of)
