"""Finds or makes the keys of the person and their agents, in the person's folder. I/O: files, the terminal.

- The folder must be the person's own (`own_files`), and is created private.
- An existing key is kept. If a killed command left a private key without its public half, the public half is added.
  Nothing is ever replaced.
- A new human key is encrypted with a passphrase, from a file or typed. It has no passphrase if the user says so or,
  with a warning, if there is no terminal.
- A passphrase is asked for once per command, and wiped at its end.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from accredit.base.clock import unix_seconds
from accredit.base.files import make_folder
from accredit.console.settings import find_key, keys_in, read_settings
from accredit.errors import ConfigurationError
from accredit.keys import (
    KeyFile,
    KeyKind,
    load_public_key,
    lock_key,
    make_key,
    public_path,
    read_key,
    write_file,
    write_key,
)
from accredit.keys.own_files import check_own_folder
from accredit.keys.passphrase import wipe
from accredit.keys.places import config_folder
from accredit.terminal.output import tell
from accredit.terminal.passphrases import new_passphrase, passphrase_source

OWNER_KEY = "owner.key"
AGENT_KEY = "agent.key"


class OwnKey(NamedTuple):
    """A private key's path, its public part, and whether it was just made."""

    path: Path
    about: KeyFile
    made: bool


class Passphrases:
    """The person's passphrase during one command: read from `file`, or typed. If `declined`, a new key gets none."""

    def __init__(self, file: Path | None, *, declined: bool = False) -> None:
        if file is not None and declined:
            raise ConfigurationError("--passphrase-file and --no-passphrase are given", "name one of them")
        self._file = file
        self._declined = declined
        self._known: bytearray | None = None

    def new(self, name: str) -> bytearray | None:
        """Return the passphrase for a new key. Raises `ConfigurationError`."""
        if self._declined:
            return None
        self._known = new_passphrase(self._file, name)
        if self._known is None:
            tell("warning: the key is not encrypted, as there is nobody to ask for a passphrase: --passphrase-file F")
            return None
        return bytearray(self._known)

    def of(self, key: KeyFile) -> bytearray:
        """Return a copy of the passphrase of an existing key. Raises `ConfigurationError`."""
        if self._known is None:
            self._known = passphrase_source(self._file)(key)
        return bytearray(self._known)

    def forget(self) -> None:
        """Wipe the passphrase."""
        if self._known is not None:
            wipe(self._known)
            self._known = None


def own_config_folder(environ: Mapping[str, str]) -> Path:
    """Return the person's folder of keys, creating it if needed. Raises `ConfigurationError`."""
    folder = config_folder(environ)
    check_own_folder(folder, "let nobody else write there: who does can sign in your name")
    make_folder(folder)
    return folder


def has_person_key(environ: Mapping[str, str]) -> bool:
    """Return whether the person has a key, or has named one in their settings. Only reads."""
    settings = read_settings(environ)
    named = settings.key_file is not None or (settings.folder / OWNER_KEY).is_file()
    return named or bool(keys_in(settings.folder))


def person_key(environ: Mapping[str, str], passphrases: Passphrases) -> OwnKey:
    """Return the person's key: the one that `desk.toml` names, or the only human one in their folder. If there is none,
    make one. Raises `ConfigurationError`."""
    folder = own_config_folder(environ)
    if has_person_key(environ):
        _complete(folder / OWNER_KEY)
        return _keep(find_key(read_settings(environ)), "human")
    return _make_own_key(folder / OWNER_KEY, "human", "Owner", passphrases.new("Owner"))


def kept_key(path: Path, kind: KeyKind, name: str) -> OwnKey:
    """Return a key, made without a passphrase if it doesn't exist. Raises `ConfigurationError`, also for a key of
    another kind."""
    return _keep(path, kind) if os.path.lexists(path) else _make_own_key(path, kind, name, None)


def _complete(private: Path) -> None:
    """Write the missing public half of a private key. Raises `ConfigurationError`."""
    if private.is_file() and not os.path.lexists(public_path(private)):
        write_file(public_path(private), read_key(private).public().encode() + b"\n")


def _make_own_key(path: Path, kind: KeyKind, name: str, passphrase: bytearray | None) -> OwnKey:
    key = make_key(kind, name, unix_seconds())
    write_key(path, key if passphrase is None else lock_key(key, passphrase))
    return OwnKey(path, key.public(), made=True)


def _keep(path: Path, kind: KeyKind) -> OwnKey:
    about = read_key(path).public()
    if about.kind != kind:
        raise ConfigurationError(f"{path} is the key of a {about.kind}, not of a {kind}", "move it away")
    _complete(path)
    if about != load_public_key(public_path(path)):
        raise ConfigurationError(
            f"{public_path(path)} is not the public half of {path}", "move it away: the right one is made then"
        )
    return OwnKey(path, about, made=False)
