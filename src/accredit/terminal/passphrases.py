"""Where a command gets the passphrase of a person's key: a file, or a terminal. I/O: both.

- `--passphrase-file` names a file that only its owner can read. One line end at the file's end is not part of the
  passphrase.
- Without that file, a person at a terminal is asked, without echo; for a new key twice.
- Without file and terminal, nothing is signed, and the error names the option.
- Before anything is read, this process's memory is closed to other programs of the same user (`base.private_memory`).
- A new passphrase that consists of blanks is refused; a short one brings a warning. A key that was made with such a
  passphrase can still be opened.

A passphrase is never an argument, as every user of the machine can see these. It is never in the environment or in a
log.
"""

import getpass
import shlex
import sys
from pathlib import Path

import click

from accredit.base.private_memory import keep_memory_private
from accredit.errors import ConfigurationError
from accredit.keys import AskPassphrase, KeyFile, read_file
from accredit.keys.passphrase import passphrase_bytes

MAX_PASSPHRASE_FILE_BYTES = 1_024
"""The most bytes of a file that holds a passphrase, with its line end."""
ADVISED_PASSPHRASE_CHARS = 15
"""How many characters a new passphrase should have; a shorter one brings a warning. Somebody who copies the key's file
can try all short passphrases, and Argon2id only makes that more expensive. NIST SP 800-63B-4 (3.1.1.2) requires this
length for a password that is the only protection."""


_CONTROLS = frozenset("\0\n\r")


def passphrase_source(passphrase_file: Path | None) -> AskPassphrase:
    """Return a function that gets the passphrase of a key that is to sign. That function raises
    `ConfigurationError`."""

    def passphrase(key: KeyFile) -> bytearray:
        keep_memory_private()
        if passphrase_file is not None:
            return _in_file(passphrase_file)
        if not sys.stdin.isatty():
            raise ConfigurationError(
                f"{key.name}'s key is under a passphrase, and there is nobody to ask for it",
                "run this in a terminal, or name the file that holds it: --passphrase-file F",
            )
        return _ask_passphrase(f"Passphrase of {key.name}'s key ({key.id[:8]}): ")

    return passphrase


def new_passphrase(file: Path | None, name: str) -> bytearray | None:
    """Return the passphrase for a new key; None if there is neither a file nor a terminal. Raises
    `ConfigurationError`."""
    keep_memory_private()
    if file is not None:
        return _fit(_in_file(file))
    if not sys.stdin.isatty():
        return None
    first = _fit(_ask_passphrase(f"New passphrase for {name}'s key: "))
    if first != _ask_passphrase("The same once more: "):
        raise ConfigurationError("the two passphrases differ", "no key was made: try again")
    return first


def _fit(passphrase: bytearray) -> bytearray:
    """Check a new passphrase, and return it. Raises `ConfigurationError`."""
    text = passphrase.decode()
    if not any(each.isprintable() and not each.isspace() for each in text):
        raise ConfigurationError("the passphrase is blank", "type words that nobody would guess")
    if len(text) < ADVISED_PASSPHRASE_CHARS:
        click.echo(
            f"warning: the passphrase has fewer than {ADVISED_PASSPHRASE_CHARS} characters: whoever copies the key's"
            " file can try all short ones",
            err=True,
        )
    return passphrase


def _in_file(path: Path) -> bytearray:
    content = read_file(path, MAX_PASSPHRASE_FILE_BYTES)
    if content.open_to_others:
        raise ConfigurationError(
            f"{path} holds a passphrase, and others can read it (mode {content.mode:04o})",
            f"chmod 600 {shlex.quote(str(path))}; if others have an account here, make a new key: they may know both",
        )
    try:
        text = content.data.decode()
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: the passphrase is not UTF-8", "write it anew, as text") from None
    line = text.removesuffix("\n").removesuffix("\r")
    if not _CONTROLS.isdisjoint(line):
        raise ConfigurationError(f"{path}: a passphrase is one line of text", "no terminal could take this one")
    return passphrase_bytes(line)


def _ask_passphrase(prompt: str) -> bytearray:
    try:
        return passphrase_bytes(getpass.getpass(prompt, stream=sys.stderr))
    except EOFError:
        raise ConfigurationError("no passphrase was typed", "type one, or name a file: --passphrase-file F") from None
