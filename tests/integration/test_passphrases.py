"""A person's passphrase: asked for in a real terminal or read from a file, and nowhere else to be found."""

import json
import shutil
import stat
from pathlib import Path

import pytest
from tests.world.command import accredit
from tests.world.terminal import Terminal

from accredit.keys import LockedKeyFile, PrivateKeyFile, load_signing_key, read_key
from accredit.keys.passphrase import passphrase_bytes

pytestmark = [pytest.mark.slow, pytest.mark.holds("terminal/passphrases")]

TYPED = "correct horse"
NEW = ("keys", "new", "owner.key", "--kind", "human", "--name", "Ada")


def write_secret(folder: Path) -> None:
    secret = folder / "secret"
    secret.write_text(f"{TYPED}\n")
    secret.chmod(0o600)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_secret(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an owner's key under the passphrase, an agent's, and the file of the passphrase."""
    folder = tmp_path_factory.mktemp("keys")
    write_secret(folder)
    assert accredit(*NEW, "--passphrase-file", "secret", folder=folder).returncode == 0
    assert accredit("keys", "new", "agent.key", "--kind", "agent", folder=folder).returncode == 0
    return folder


@pytest.fixture
def made(keys: Path, tmp_path: Path) -> Path:
    """A copy of `keys`: what `grant` needs."""
    return Path(shutil.copytree(keys, tmp_path, dirs_exist_ok=True))


GRANT = (
    *("grant", "--issuer", "owner.key", "--agent", "agent.key.pub", "--scope", "comms:email:read"),
    *("--out", "delegation.json"),
)


def test_a_new_key_s_passphrase_is_typed_twice_and_does_not_show(folder: Path) -> None:
    with Terminal(*NEW, folder=folder) as terminal:
        terminal.wait_for("New passphrase for Ada's key: ")
        assert not terminal.echoes()
        terminal.types(f"{TYPED}\n")
        terminal.wait_for("once more: ")
        assert not terminal.echoes()
        assert TYPED not in terminal.command_line()
        terminal.types(f"{TYPED}\n")
        assert terminal.end() == 0
        assert TYPED not in terminal.seen
    assert isinstance(read_key(folder / "owner.key"), LockedKeyFile)
    assert stat.S_IMODE((folder / "owner.key").stat().st_mode) == 0o600
    assert load_signing_key(folder / "owner.key", lambda _: passphrase_bytes(TYPED)).about.name == "Ada"


@pytest.mark.parametrize(("again", "told"), [("correct house\n", "the two passphrases differ"), ("\n", "is empty")])
def test_of_two_that_differ_no_key_is_made(again: str, told: str, folder: Path) -> None:
    with Terminal(*NEW, folder=folder) as terminal:
        terminal.wait_for("New passphrase")
        terminal.types(f"{TYPED}\n")
        terminal.wait_for("once more")
        terminal.types(again)
        assert terminal.end() == 2
        assert told in terminal.seen
    assert not (folder / "owner.key").exists()


def test_who_interrupts_the_question_has_no_key(folder: Path) -> None:
    with Terminal(*NEW, folder=folder) as terminal:
        terminal.wait_for("New passphrase")
        terminal.types("\x03")
        assert terminal.end() == 130
        assert "Traceback" not in terminal.seen
    assert not (folder / "owner.key").exists()


def test_in_a_terminal_a_passphrase_can_be_declined(folder: Path) -> None:
    with Terminal(*NEW, "--no-passphrase", folder=folder) as terminal:
        assert terminal.end() == 0
        assert "warning" not in terminal.seen
    assert isinstance(read_key(folder / "owner.key"), PrivateKeyFile)


@pytest.mark.parametrize("kind", ["agent", "gateway"])
def test_nobody_is_asked_for_the_passphrase_of_a_machine(kind: str, folder: Path) -> None:
    with Terminal("keys", "new", "its.key", "--kind", kind, folder=folder) as terminal:
        assert terminal.end() == 0
    done = accredit(
        "keys", "new", "other.key", "--kind", kind, "--passphrase-file", "secret", folder=folder
    )  # fmt: skip
    assert (done.returncode, "nobody could type" in done.stderr) == (2, True)


def test_without_a_terminal_nobody_s_key_is_left_without_a_passphrase_but_on_their_word(folder: Path) -> None:
    done = accredit(*NEW, folder=folder)
    assert done.returncode == 2
    assert "no terminal" in done.stderr
    for option in ("--passphrase-file", "--no-passphrase"):
        assert option in done.stderr
    assert not (folder / "owner.key").exists()
    assert not (folder / "owner.key.pub").exists()
    assert accredit(*NEW, "--no-passphrase", folder=folder).returncode == 0
    assert isinstance(read_key(folder / "owner.key"), PrivateKeyFile)


@pytest.mark.slow
def test_a_file_s_passphrase_makes_the_key_and_signs_with_it(made: Path) -> None:
    assert isinstance(read_key(made / "owner.key"), LockedKeyFile)
    assert accredit(*GRANT, "--passphrase-file", "secret", folder=made).returncode == 0
    cert = json.loads((made / "delegation.json").read_bytes())["delegations"][0]["cert_id"]
    revoke = ("revoke", cert, "--issuer", "owner.key", "--list", "revoked.json", "--passphrase-file", "secret")
    assert accredit(*revoke, folder=made).returncode == 0
    shown = json.loads(accredit("keys", "show", "owner.key", "--json", folder=made).stdout)
    assert (shown["private"], shown["encrypted"]) == (True, True)


@pytest.mark.slow
def test_whoever_signs_in_a_terminal_is_asked__and_a_wrong_one_signs_nothing(made: Path) -> None:
    for typed, code in (("wrong", 2), (TYPED, 0)):
        with Terminal(*GRANT, folder=made) as terminal:
            terminal.wait_for("Passphrase of Ada's key")
            assert not terminal.echoes()
            terminal.types(f"{typed}\n")
            assert terminal.end() == code
            assert typed not in terminal.seen
            assert ("this is not the passphrase of Ada's key" in terminal.seen) is bool(code)
        assert (made / "delegation.json").exists() is not bool(code)


@pytest.mark.parametrize(
    "command", [GRANT, ("revoke", "0" * 32, "--issuer", "owner.key", "--list", "revoked.json")], ids=["grant", "revoke"]
)
def test_without_either_nothing_is_signed_and_the_option_is_named(command: tuple[str, ...], made: Path) -> None:
    done = accredit(*command, folder=made)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--passphrase-file" in done.stderr
    assert not (made / "delegation.json").exists()
    assert not (made / "revoked.json").exists()


@pytest.mark.parametrize(
    ("content", "mode", "told"),
    [(b"wrong\n", 0o600, "not the passphrase"), (b"\n", 0o600, "empty"), (b"\xff", 0o600, "UTF-8"),
     (b"x" * 1_025, 0o600, "more than"), (TYPED.encode(), 0o640, "help: chmod 600 secret;")],
)  # fmt: skip
def test_a_file_that_can_t_be_the_passphrase_signs_nothing(content: bytes, mode: int, told: str, made: Path) -> None:
    (made / "secret").write_bytes(content)
    (made / "secret").chmod(mode)
    done = accredit(*GRANT, "--passphrase-file", "secret", folder=made)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "x" * 20 not in done.stderr
    assert not (made / "delegation.json").exists()


@pytest.mark.parametrize(("url", "told"), [("memory:", True), ("sqlite:///accredit.db", False)])
def test_a_store_that_forgets_what_was_used_is_told_before_it_serves(url: str, told: bool, made: Path) -> None:
    (made / "accredit.toml").write_text(
        f"""
[gateway]
id = "mail"
[upstream]
url = "http://127.0.0.1:9/mcp"
[proofs]
mode = "required"
[[proofs.roots]]
name = "Ada"
public_key_file = "owner.key.pub"
[store]
url = "{url}"
""",
        "utf-8",
    )
    done = accredit("config", "check", folder=made)
    assert (done.returncode, "a restart forgets" in done.stdout) == (0, told), done.stderr
