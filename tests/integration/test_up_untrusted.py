"""`accredit up` in a folder that somebody else has filled, or may write into: what lies there decides nothing."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from tests.world.mail import MAIL
from tests.world.up import Newcomer

from accredit.keys import make_key, write_key
from accredit.setup.own_keys import AGENT_KEY

pytestmark = [pytest.mark.slow, pytest.mark.holds("setup/up_place")]


def trap(person: Newcomer, server: str) -> Path:
    """A configuration for this very server that would run a program and write over a file of whoever starts it."""
    file = person.work / "accredit.toml"
    ran = [sys.executable, "-c", f"open({str(person.home / 'ran')!r}, 'w')"]
    words = ", ".join(f'"{word}"' for word in ran)
    file.write_text(f'[servers.mail]\nurl = "{server}"\n[servers.other]\ncommand = [{words}]\n')
    return file


@pytest.mark.slow
def test_a_configuration_that_lies_there_is_not_gone_by__until_it_is_named(server: str, person: Newcomer) -> None:
    trap(person, server)
    before = person.files()
    refused = person.run("up", server)
    assert (refused.returncode, "has not made it" in refused.stderr) == (2, True), refused
    assert "--config FILE" in refused.stderr
    for answer in ("\n", "n\n"):
        with person.terminal("up", server) as terminal:
            terminal.wait_for(r"Is it yours, and meant\? \[y/N\]")
            terminal.types(answer)
            assert terminal.end() == 1
    assert {path for path in person.files() if not path.startswith(str(person.own))} == before.keys()
    assert not (person.home / "ran").exists()


@pytest.mark.slow
def test_what_init_has_written_is_gone_by__as_nobody_has_changed_it(server: str, person: Newcomer) -> None:
    assert person.run("init", server).returncode == 0
    env = {"ACCREDIT_GATEWAY__PORT": str(person.port)}
    person.env |= env
    with person.up(server) as up:
        assert "result" in str(person.calls())
        assert up.stop() == 0


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777], ids=["group", "all", "as /tmp"])
def test_a_folder_into_which_others_may_write_is_no_place_for_it(server: str, person: Newcomer, mode: int) -> None:
    if mode == 0o770:
        os.chown(person.work, -1, 12_345) if os.geteuid() == 0 else pytest.skip("the group is one's own")
    person.work.chmod(mode)
    refused = person.run(*person.words(server))
    assert (refused.returncode, "others may write" in refused.stderr) == (2, True), refused
    assert person.files() == {}


def test_a_configuration_that_others_may_change_is_refused__also_when_it_is_named(
    server: str, person: Newcomer
) -> None:
    file = trap(person, server)
    file.chmod(0o666)
    for words in (["up", server], ["up", "--config", str(file)]):
        refused = person.run(*words)
        assert (refused.returncode, "others may write" in refused.stderr) == (2, True), refused
    file.unlink()
    file.symlink_to("/dev/null")
    assert person.run("up", server).returncode == 2
    assert person.run("up", "--config", "nothing.toml").returncode == 2


@pytest.mark.slow
def test_a_configuration_of_another_server_protects_this_one_not(server: str, person: Newcomer) -> None:
    assert person.run("init", server).returncode == 0
    text = (person.work / "accredit.toml").read_text()
    (person.work / "accredit.toml").write_text(text.replace(server, "http://127.0.0.1:9/mcp"))
    with person.terminal("up", server) as terminal:
        terminal.wait_for("Is it yours")
        terminal.types("y\n")
        assert terminal.end() == 2
        assert "the configuration of another server" in terminal.unfolded()


@pytest.mark.parametrize("name", ["gateway.key", "gateway.key.pub", "accredit.lock", "owner.key.pub"])
def test_a_key_or_a_lock_that_lies_there_is_not_taken_for_one_s_own(server: str, person: Newcomer, name: str) -> None:
    kind = "human" if name.startswith("owner") else "gateway"
    write_key(person.work / "planted.key", make_key(kind, "trap", 1))
    shutil.copy2(person.work / f"planted.key{'.pub' if name.endswith('.pub') else ''}", person.work / name)
    before = person.files()
    refused = person.run(*person.words(server))
    assert refused.returncode == 2, refused
    assert (
        f"{person.work / name} exists already" in refused.stderr or "none of proofs.roots is the key" in refused.stderr
    )
    after = person.files()
    assert {path: after[path] for path in before} == before
    assert not (person.own / "delegation.json").exists()


def test_a_root_s_file_is_made_only_beside_the_configuration(server: str, person: Newcomer) -> None:
    elsewhere = person.home / "startup"
    (person.work / "accredit.toml").write_text(
        f'[upstream]\nurl = "{server}"\n[gateway]\nid = "x"\nport = {person.port}\n[proofs]\nmode = "required"\n'
        f'[[proofs.roots]]\nname = "O"\npublic_key_file = "{elsewhere}"\n'
    )
    refused = person.run("up", "--config", "accredit.toml")
    assert (refused.returncode, "none of proofs.roots" in refused.stderr, elsewhere.exists()) == (2, True, False), (
        refused
    )


def test_keys_that_others_could_put_there_are_not_used(server: str, person: Newcomer) -> None:
    person.own.mkdir(parents=True)
    write_key(person.own / AGENT_KEY, make_key("agent", "trap", 1))
    person.own.chmod(0o777)
    refused = person.run(*person.words(server))
    assert (refused.returncode, "others may write" in refused.stderr) == (2, True), refused


@pytest.mark.parametrize("words", [[], ["--config", "a", "http://x/"], ["--config", "accredit.toml", "--port", "9"]])
def test_what_is_meant_has_to_be_said(person: Newcomer, words: list[str]) -> None:
    (person.work / "accredit.toml").write_text("")
    refused = person.run("up", *words)
    assert (refused.returncode, refused.stderr.count("error: ")) == (2, 1), refused
    assert person.run("up", env={"ACCREDIT_CONFIG": "nothing.toml"}).returncode == 2


def test_a_folder_whose_name_is_no_text_is_told(server: str, person: Newcomer) -> None:
    os.mkdir(os.fsencode(person.work) + b"/\xff")
    refused = person.run(*person.words(server), "--dir", os.fsdecode(os.fsencode(person.work) + b"/\xff"))
    assert (refused.returncode, refused.stderr.count("error: "), "Traceback" in refused.stderr) == (2, 1, False), (
        refused
    )
    assert person.run("doctor", "--json").returncode == 0


def test_a_command_that_is_not_the_configured_one_is_not_run(person: Newcomer) -> None:
    (person.work / "accredit.toml").write_text('[upstream]\ncommand = ["true"]\n')
    refused = person.run("up", "--", *MAIL)
    assert (refused.returncode, "has not made it" in refused.stderr) == (2, True), refused
