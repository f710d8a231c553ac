"""`accredit keys new|show`."""

import json
import stat
from pathlib import Path

import pytest
from tests.world.delegations import World
from tests.world.in_process import Refused, Run

from accredit.keys import load_signing_key, read_key

pytestmark = [pytest.mark.holds("signing/keys"), pytest.mark.holds("cli/commands/keys")]


@pytest.mark.parametrize("kind", ["human", "agent", "gateway"])
def test_a_key_is_made(kind: str, run: Run, folder: Path) -> None:
    protection = ("--no-passphrase",) if kind == "human" else ()
    done = run("keys", "new", "new.key", "--kind", kind, "--name", "Ada Lovelace", *protection)
    assert done.code == 0
    key = load_signing_key(folder / "new.key")
    assert (key.about.kind, key.about.name) == (kind, "Ada Lovelace")
    assert stat.S_IMODE((folder / "new.key").stat().st_mode) == 0o600
    assert read_key(folder / "new.key.pub") == key.about
    for said in ("Ada Lovelace", kind, key.about.id, "new.key.pub"):
        assert said in done.words


@pytest.mark.parametrize(("path", "name"), [("ada.key", "ada"), ("ada", "ada"), ("./a.b.key", "a.b")])
def test_without_a_name_it_is_known_by_its_files(path: str, name: str, run: Run) -> None:
    assert run("keys", "new", path, "--kind", "agent", "--json").json["name"] == name


def test_for_programs_it_is_json_without_seeds(run: Run, folder: Path) -> None:
    made = run("keys", "new", "new.key", "--kind", "human", "--no-passphrase", "--json").json
    shown = run("keys", "show", "new.key", "--json").json
    public = run("keys", "show", "new.key.pub", "--json").json
    assert made["files"] == {"private": "new.key", "public": "new.key.pub"}
    assert (shown["private"], public["private"]) == (True, False)
    for each in (made, shown, public):
        assert set(each) - {"files", "private"} == {"kind", "name", "id", "created_at", "public_key"}
        assert each["public_key"] == json.loads((folder / "new.key.pub").read_bytes())["public_key"]
        assert each["created_at"].endswith("Z")


@pytest.mark.parametrize("json_too", [(), ("--json",)])
def test_seeds_are_never_shown(json_too: tuple[str, ...], run: Run, folder: Path) -> None:
    for arguments in (("new", "new.key", "--kind", "human", "--no-passphrase"), ("show", "new.key")):
        done = run("keys", *arguments, *json_too)
        seeds = json.loads((folder / "new.key").read_bytes())["seed"]
        assert not any(seed in done.out + done.err for seed in seeds.values())


def test_a_key_is_shown_in_words(run: Run, world: World) -> None:
    private, public = run("keys", "show", "owner.key"), run("keys", "show", "owner.key.pub")
    assert (private.code, public.code) == (0, 0)
    for done in (private, public):
        assert f"name Owner kind human id {world.owner.id}" in done.words
    assert "can sign yes" in private.words
    assert "can sign no" in public.words


@pytest.mark.parametrize("path", ["owner.key", "other.key"])
def test_no_key_is_lost_without_force(path: str, run: Run, refused: Refused, folder: Path) -> None:
    (folder / "other.key.pub").write_bytes(b"precious")
    what, remedy = refused("keys", "new", path, "--kind", "human")
    assert "exists already" in what
    assert "--force" in remedy
    assert run("keys", "new", path, "--kind", "human", "--no-passphrase", "--force").code == 0
    assert read_key(folder / path).id == read_key(folder / f"{path}.pub").id


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("new", "new.key"), "--kind"),
        (("new", "--kind", "human"), "PATH"),
        (("new", "new.key", "--kind", "robot"), "--kind"),
        (("new", "new.key", "--kind", "human", "--name", ""), "--name"),
        (("new", "new.key", "--kind", "human", "--name", "a\tb"), "--name"),
        (("new", ".key", "--kind", "human"), "--name"),
        (("new", "nowhere/new.key", "--kind", "human", "--no-passphrase"), "nowhere"),
        (("show", "missing.key"), "missing.key"),
        (("show", "."), "can't read"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], word: str, refused: Refused) -> None:
    assert word in refused("keys", *arguments)[0]


def test_a_private_key_that_others_can_read_is_not_shown(refused: Refused, folder: Path) -> None:
    (folder / "owner.key").chmod(0o640)
    assert "others can read" in refused("keys", "show", "owner.key")[0]
