"""A desk goes by the gateways of its person, and by nothing that somebody else could have put there."""

import json
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from accredit.app.pid_file import PidFile
from accredit.cli.actions.desk import desk_sources
from accredit.client.pins import gateways_met
from accredit.console.names import known_names, set_name
from accredit.console.settings import read_settings
from accredit.errors import ConfigurationError
from accredit.keys import PrivateKeyFile, SigningKey, make_key, write_key
from accredit.ops.doctor.surroundings import surroundings
from accredit.ops.own_gateways import MAX_OWN_GATEWAYS, names_here, own_gateways
from accredit.ratify import issue_revocation_list

pytestmark = pytest.mark.holds("ops/own_gateways")
OWNER = make_key("human", "Ada", 1_800_000_000)
TEXT = """
[gateway]
port = {port}
[servers.mail]
url = "http://127.0.0.1:9/mcp"
[proofs]
mode = "required"
[[proofs.roots]]
name = "Ada"
public_key_file = "owner.key.pub"
[attest]
mode = "durable"
key_file = "gateway.key"
[store]
url = "{store}"
"""


class Home:
    """A person's home, with gateways in folders of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.own = folder / ".config" / "accredit"
        self.own.mkdir(parents=True)
        write_key(self.own / "owner.key", OWNER)
        self.environ = {"HOME": str(folder)}
        self.keys: dict[str, PrivateKeyFile] = {}

    def gateway(self, name: str, *, known: bool = True, store: str = "sqlite:///accredit.db", more: str = "") -> Path:
        """The configuration of a gateway in a folder of this name."""
        place = self.folder / name
        place.mkdir()
        self.keys[name] = make_key("gateway", "gateway", 1_800_000_000)
        write_key(place / "gateway.key", self.keys[name])
        (place / "owner.key.pub").write_bytes((self.own / "owner.key.pub").read_bytes())
        file = place / "accredit.toml"
        file.write_text(TEXT.format(port=8484 + len(self.keys), store=store) + more)
        if known:
            self.know(file)
        return file

    def know(self, file: Path) -> None:
        """Have `accredit up` know a configuration."""
        path = self.own / "configurations.json"
        before = json.loads(path.read_text()) if path.exists() else []
        path.write_text(json.dumps([*before, str(file)]))

    def files(self, named: Path | None = None) -> tuple[list[Path], list[str]]:
        """What is found, and what is warned of."""
        warned: list[str] = []
        return [each.file for each in own_gateways(self.environ, named, warned.append)], warned


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Generator[Home]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "elsewhere").mkdir()
        monkeypatch.chdir(Path(folder) / "elsewhere")
        yield Home(Path(folder))


@pytest.mark.holds("ops/own_gateways", "order")
def test_the_named_one_comes_first__then_one_that_runs__then_the_latest(home: Home) -> None:
    first, runs, last = home.gateway("first"), home.gateway("runs"), home.gateway("last")
    gone = home.gateway("gone")
    gone.unlink()
    assert home.files()[0] == [last, runs, first]
    lock = PidFile.lock(runs)
    try:
        assert home.files()[0] == [runs, last, first]
        assert home.files(first)[0] == [first, runs, last]
        assert surroundings(None, home.environ).file == runs  # as `accredit doctor` finds it
    finally:
        lock.end()
    assert surroundings(None, home.environ).file == last
    assert surroundings(first, home.environ).file == first


@pytest.mark.holds("ops/own_gateways", "whose")
def test_what_merely_lies_in_the_current_folder_is_not_gone_by__unless_this_user_runs_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = home.gateway("found", known=False)
    monkeypatch.chdir(file.parent)
    assert home.files() == ([], [])
    lock = PidFile.lock(file)
    try:
        assert home.files()[0] == [file]
    finally:
        lock.end()
    assert home.files(file)[0] == [file]
    with pytest.raises(ConfigurationError, match="there is no"):
        home.files(home.folder / "none.toml")


def _others_may_write(path: Path) -> None:
    path.chmod(path.stat().st_mode | 0o022)


def _is_a_link_to_an_open_folder(path: Path) -> None:
    there = path.parent.parent / "open"
    there.mkdir(exist_ok=True)
    path.rename(there / path.name)
    path.symlink_to(there / path.name)
    there.chmod(0o777)


@pytest.mark.parametrize("spoil", [_others_may_write, _is_a_link_to_an_open_folder])
@pytest.mark.parametrize("what", ["accredit.toml", "accredit.db", "gateway.key.pub", "owner.key.pub"])
@pytest.mark.holds("ops/own_gateways", "own-files")
def test_what_others_may_write_is_believed_nowhere(home: Home, what: str, spoil: Callable[[Path], None]) -> None:
    good, bad = home.gateway("good"), home.gateway("bad")
    (bad.parent / "accredit.db").touch()
    spoil(bad.parent / what)
    found, warned = home.files()
    assert found == [good]
    assert len(warned) == 1
    assert "may be somebody else's" in warned[0]
    with pytest.raises(ConfigurationError, match="somebody else's"):
        home.files(bad)
    lock = PidFile.lock(bad)  # that it runs makes it no better
    try:
        assert home.files()[0] == [good]
    finally:
        lock.end()


@pytest.mark.holds("ops/own_gateways", "own-files")
def test_nothing_in_a_folder_that_others_may_write_counts__nor_a_store_beside_it(home: Home) -> None:
    open_folder, elsewhere = home.gateway("open"), home.gateway("store", store="sqlite:///../shared/log.db")
    (home.folder / "shared").mkdir()
    (home.folder / "shared").chmod(0o777)  # the store is not there yet: anybody may make it
    open_folder.parent.chmod(0o777)
    found, warned = home.files()
    assert (found, len(warned)) == ([], 2)
    for each in (open_folder, elsewhere):
        with pytest.raises(ConfigurationError, match="somebody else's"):
            home.files(each)


def test_a_broken_one_keeps_the_others__and_there_is_a_bound(home: Home) -> None:
    for number in range(MAX_OWN_GATEWAYS + 2):
        home.gateway(f"gateway-{number}")
    (home.folder / "gateway-17" / "accredit.toml").write_text("[gateway")
    found, warned = home.files()
    assert (len(found), len(warned)) == (MAX_OWN_GATEWAYS, 1)


def test_names_are_those_of_the_person_first__then_of_keys_and_servers(home: Home) -> None:
    file = home.gateway("mail")
    agent = make_key("agent", "Cursor of ada", 1_800_000_000)
    (home.own / "agents" / "cursor").mkdir(parents=True)
    write_key(home.own / "agents" / "cursor" / "agent.key", agent)
    helper = make_key("agent", "Helper", 1_800_000_000)
    write_key(file.parent / "helper.key", helper)
    (gateway,) = own_gateways(home.environ)
    assert gateway.id == home.keys["mail"].id
    names = names_here(home.environ, [gateway])
    assert names[gateway.id] == "gateway"
    assert names[f"{gateway.id}/mail"] == "mail"
    assert (names[agent.id], names[helper.id], names[OWNER.id]) == ("Cursor of ada", "Helper", "Ada")
    set_name(home.own, gateway.id, "post")
    assert names_here(home.environ, [gateway])[gateway.id] == "post"
    assert known_names(home.own)[agent.id] == "Cursor of ada"


def test_two_gateways_of_one_name_are_told_apart(home: Home) -> None:
    home.gateway("mail")
    home.gateway("bank")
    names = names_here(home.environ, own_gateways(home.environ))
    assert {names[home.keys[each].id] for each in ("mail", "bank")} == {"gateway in mail", "gateway in bank"}


def test_agents_of_adopted_hosts_tell_which_gateways_they_have_met(home: Home) -> None:
    for folder, url in ((home.own, "http://a/"), (home.own / "agents" / "cursor", "http://b/")):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "known_gateways.json").write_text(json.dumps({url: "id"}))
    assert gateways_met(home.own) == {"http://a/": "id", "http://b/": "id"}


def test_a_private_key_is_not_needed__and_not_read(home: Home) -> None:
    file = home.gateway("mail")
    (file.parent / "gateway.key").write_text("unreadable")
    (gateway,) = own_gateways(home.environ)
    assert (gateway.id, len(gateway.keys)) == (home.keys["mail"].id, 1)


def test_a_list_goes_where_the_gateway_reads_it__and_only_if_it_trusts_the_person(home: Home) -> None:
    home.gateway("stored")
    (stored,) = own_gateways(home.environ)
    assert [each.name for each in stored.list_places(OWNER.public())] == [str(home.folder / "stored" / "accredit.db")]
    stranger = make_key("human", "Eve", 1_800_000_000)
    assert stored.list_places(stranger.public()) == []
    more = '[proofs.revocation]\nfiles = ["ada.list", "eve.list", "none.list"]\n'
    file = home.gateway("forgetful", store="memory:", more=more)
    for name, key in (("ada", OWNER), ("eve", stranger)):
        signed = issue_revocation_list(SigningKey(key.public(), key.signer()).signer, (), 0)
        (file.parent / f"{name}.list").write_bytes(signed.encode() + b"\n")
    gateway = own_gateways(home.environ, file)[0]
    assert gateway.store is None
    assert [each.place for each in gateway.list_places(OWNER.public())] == [file.parent / "ada.list"]


def test_each_gateways_log_is_its_own__and_what_desk_toml_names_comes_first(home: Home) -> None:
    home.gateway("mail")
    home.gateway("bank")
    gateways = own_gateways(home.environ)
    sources = desk_sources(read_settings(home.environ), OWNER.public(), gateways, home.environ)
    mail, bank = (sources.log_of(home.keys[each].id) for each in ("mail", "bank"))
    assert mail is not None
    assert bank is not None
    assert mail.store != bank.store
    assert sources.log_of(f"{home.keys['mail'].id}/mail") is mail
    assert sources.log_of("another") is None  # whether something was used there is not known
    assert len(sources.lists) == 2
    (home.own / "desk.toml").write_text('[desk]\nstore = "sqlite:///other.db"\n')
    sources = desk_sources(read_settings(home.environ), OWNER.public(), gateways, home.environ)
    assert sources.log is sources.log_of("another")
    assert [each.name for each in sources.lists][:1] == [str(home.own / "other.db")]
    assert len(sources.lists) == 3  # what is taken back is taken back everywhere
