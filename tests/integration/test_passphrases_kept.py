"""A passphrase in the memory of a command, and one that others would guess."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.world.command import accredit
from tests.world.command_tree import sources
from tests.world.ordinary import NOBODY
from tests.world.terminal import Terminal

from accredit.base.clock import unix_seconds
from accredit.keys import LockedKeyFile, lock_key, make_key, read_key, write_key
from accredit.keys.passphrase import passphrase_bytes
from accredit.terminal.passphrases import ADVISED_PASSPHRASE_CHARS

pytestmark = [pytest.mark.slow, pytest.mark.holds("terminal/passphrases")]

ORDINARY = (sys.executable, "-m", "tests.world.ordinary")
NEW = ("keys", "new", "owner.key", "--kind", "human", "--name", "Ada")
GRANT = ("grant", "--issuer", "ada.key", "--agent", "agent.key.pub", "--scope", "a:b:read", "--out", "delegation.json")
SNOOP = (
    "import os, sys\n"
    "from tests.world.ordinary import become_ordinary\n"
    "become_ordinary()\n"
    "for each in sys.argv[1:]:\n"
    "    try: print(len(os.read(os.open(f'/proc/{each}/maps', os.O_RDONLY), 9)))\n"
    "    except PermissionError: print('refused')\n"
    "    try: os.open(f'/proc/{each}/mem', os.O_RDONLY); print('open')\n"
    "    except PermissionError: print('refused')\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of an ordinary user's, with a key under a passphrase and an agent's."""
    now = unix_seconds()
    write_key(tmp_path / "ada.key", lock_key(make_key("human", "Ada", now), passphrase_bytes("correct horse")))
    write_key(tmp_path / "agent.key", make_key("agent", "Agent", now))
    if os.geteuid() == 0:
        for each in (tmp_path, *tmp_path.iterdir()):
            os.chown(each, NOBODY, NOBODY)
    return tmp_path


@pytest.mark.skipif(sys.platform != "linux", reason="where programs see each other in /proc")
@pytest.mark.parametrize(
    ("command", "asked"),
    [
        (NEW, "New passphrase"),
        (GRANT, "Passphrase of"),
        (("revoke", "0" * 32, "--issuer", "ada.key", "--list", "revoked.json"), "Passphrase of"),
    ],
    ids=["keys new", "grant", "revoke"],
)
def test_no_other_program_of_the_user_reads_a_passphrase_out_of_a_command_s_memory(
    command: tuple[str, ...], asked: str, folder: Path
) -> None:
    root = str(Path(__file__).parents[2])
    with Terminal(*command, folder=folder, env={"PYTHONPATH": root}, command=ORDINARY) as terminal:
        terminal.wait_for(asked)
        words = [sys.executable, "-c", SNOOP, str(terminal.pid)]
        told = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True).stdout.split()
        assert told == ["refused", "refused"]


def test_no_command_takes_a_passphrase_but_where_its_memory_is_closed_first() -> None:
    reads = re.compile(r"\bgetpass\b|\bpassphrase_bytes\b|\binput\(")
    readers = {path.name: path.read_text() for path in sources() if reads.search(path.read_text())}
    assert set(readers) == {"passphrases.py"}
    given = [text for text in readers["passphrases.py"].split("\ndef ")[1:] if not text.startswith("_")]
    assert [re.split(r"\W", text)[0] for text in given] == ["passphrase_source", "new_passphrase"]
    for text in given:
        assert text.index("keep_memory_private()") < min(
            text.index(each) for each in ("_in_file(", "_ask_passphrase(") if each in text
        )


@pytest.mark.parametrize("word", [" ", "   \t ", "\N{NO-BREAK SPACE}", "\N{ZERO WIDTH SPACE}"])
def test_blanks_alone_protect_no_new_key(tmp_path: Path, word: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{word}\n")
    secret.chmod(0o600)
    done = accredit(*NEW, "--passphrase-file", "secret", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the passphrase is blank" in done.stderr
    assert not (tmp_path / "owner.key").exists()


@pytest.mark.parametrize(
    ("length", "warned"), [(1, True), (ADVISED_PASSPHRASE_CHARS - 1, True), (ADVISED_PASSPHRASE_CHARS, False)]
)
def test_whoever_takes_a_short_passphrase_is_told_what_it_is_worth(tmp_path: Path, length: int, warned: bool) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{'é' * length}\n", "utf-8")
    secret.chmod(0o600)
    done = accredit(*NEW, "--passphrase-file", "secret", folder=tmp_path)
    assert done.returncode == 0
    assert (f"fewer than {ADVISED_PASSPHRASE_CHARS} characters" in done.stderr) is warned
    assert isinstance(read_key(tmp_path / "owner.key"), LockedKeyFile)


def test_a_key_that_was_made_under_blanks_still_signs(folder: Path) -> None:
    write_key(
        folder / "ada.key", lock_key(make_key("human", "Ada", unix_seconds()), passphrase_bytes("  ")), replace=True
    )
    (folder / "secret").write_text("  \n")
    (folder / "secret").chmod(0o600)
    assert accredit(*GRANT, "--passphrase-file", "secret", folder=folder).returncode == 0
