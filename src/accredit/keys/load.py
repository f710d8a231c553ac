"""Makes keys, and reads and writes their files. Uses the operating system's randomness.

A private key that others can read counts as compromised, and is refused. An encrypted key opens only if there is
somebody to ask for the passphrase. A gateway signs each log record only with the Ed25519 half of its key.
`HybridSigner` always signs with both, so there is `LogSigner`.
"""

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from accredit.attest import LogKey, LogSigner
from accredit.base.deferred import Deferred
from accredit.base.files import beside
from accredit.base.text import one_line
from accredit.errors import ConfigurationError, WireError, WrongPassphrase
from accredit.keys.files import MissingFile, exists_already, read_file, write_file
from accredit.keys.formats import KEY_FILE_VERSION, KeyFile, KeyKind, LockedKeyFile, PrivateKeyFile, Seeds, name_fault
from accredit.keys.passphrase import lock, unlock, wipe
from accredit.keys.reading import FileContent
from accredit.limits import MAX_KEY_FILE_BYTES, MAX_KEY_FILES
from accredit.ratify import HybridPrivateKey, HybridSigner
from accredit.ratify.hybrid import SEED_BYTES
from accredit.ratify.strict_json import parse

if TYPE_CHECKING:
    import secrets
else:  # for who makes keys
    secrets = Deferred("secrets")

PUBLIC_SUFFIX = ".pub"
_SALT_BYTES = 16
_NONCE_BYTES = 12
_NONE = object()


class SigningKey(Struct, frozen=True):
    """A holder that can sign, and its public key file."""

    about: KeyFile
    signer: HybridSigner


def public_path(path: Path) -> Path:
    """Return the path of the public half of a private key's file. Raises `ConfigurationError` (`base.files.beside`)."""
    return beside(path, path.name + PUBLIC_SUFFIX)


def make_key(kind: KeyKind, name: str, created_at: int) -> PrivateKeyFile:
    """Return a new key; `created_at` is in unix seconds. Raises `ConfigurationError` for an invalid name."""
    fault = name_fault(name)
    if fault:
        raise ConfigurationError(f"--name: {fault}", "give a short name, such as --name Owner")
    seeds = Seeds(secrets.token_bytes(SEED_BYTES), secrets.token_bytes(SEED_BYTES))
    key = HybridPrivateKey(seeds.ed25519, seeds.ml_dsa_65)
    return PrivateKeyFile(KEY_FILE_VERSION, kind, name, key.id, created_at, key.public_key, seeds)


def write_key(path: Path, key: PrivateKeyFile | LockedKeyFile, *, replace: bool = False) -> None:
    """Write the private key to `path`, and the public one to `path.pub`. Raises `ConfigurationError`; if one of the
    files exists, neither is written."""
    write_pair(path, key.encode() + b"\n", key.public().encode() + b"\n", replace=replace)


def write_pair(path: Path, private: bytes, public: bytes, *, replace: bool) -> None:
    """Write both halves of a key, in any format. Raises `ConfigurationError`; if one of the files exists, neither is
    written."""
    check_free(path, replace=replace)
    write_file(path, private, private=True, replace=replace)
    try:
        write_file(public_path(path), public, replace=replace)
    except ConfigurationError:
        if not replace:
            path.unlink(missing_ok=True)
        raise


def check_free(path: Path, *, replace: bool) -> None:
    """Check that a key may be written to `path`, and its public half beside it. Raises `ConfigurationError`, which
    offers `--force`: every command that makes a key has it."""
    for each in () if replace else (path, public_path(path)):
        if os.path.lexists(each):
            raise exists_already(each, can_force=True)


def lock_key(key: PrivateKeyFile, passphrase: bytearray) -> LockedKeyFile:
    """Encrypt a key with a passphrase, which is wiped."""
    try:
        return lock(key, passphrase, secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(_NONCE_BYTES))
    finally:
        wipe(passphrase)


def read_key(path: Path) -> KeyFile | PrivateKeyFile | LockedKeyFile:
    """Read a key file, public or private. Raises `ConfigurationError`."""
    try:
        content = read_file(path, MAX_KEY_FILE_BYTES)
    except MissingFile:
        if path.is_symlink():  # it is there, and leads to nothing: no new key can be made in its place
            raise
        raise MissingFile(f"there is no key {path}", _how_to_make(path)) from None
    try:
        tree = parse(content.data, MAX_KEY_FILE_BYTES)
        seed = cast("dict[str, object]", tree).get("seed", _NONE) if isinstance(tree, dict) else _NONE
        if seed is not _NONE:
            check_private(path, content)
        kind = KeyFile if seed is _NONE else LockedKeyFile if _is_sealed(seed) else PrivateKeyFile
        return kind.decode(content.data)
    except WireError as error:
        where = error.path.partition(".")[2]
        raise ConfigurationError(
            f"{path} is not a key file: {f'{where}: ' if where else ''}{error.reason}",
            "name a file that `accredit keys new` made",
        ) from None


def _how_to_make(path: Path) -> str:
    new = f"accredit keys new {shlex.quote(str(path.with_suffix('') if path.suffix == PUBLIC_SUFFIX else path))}"
    return f"`{one_line(new)} --kind agent` makes one (--kind human for a person), or name another file"


def _is_sealed(seed: object) -> bool:
    return isinstance(seed, dict) and "kdf" in seed


def check_private(path: Path, content: FileContent) -> None:
    """Refuse a private key that others can read. Raises `ConfigurationError`."""
    if content.open_to_others:
        raise ConfigurationError(
            f"{path} is a private key that others can read (mode {content.mode:04o})",
            f"chmod 600 {shlex.quote(str(path))}, and think of the key as known to whoever could read it",
        )


def load_public_key(path: Path) -> KeyFile:
    """Read a public key file. Raises `ConfigurationError`, also for a private key: it should not be passed around in
    place of a public one."""
    key = read_key(path)
    if isinstance(key, PrivateKeyFile | LockedKeyFile):
        raise ConfigurationError(
            f"{path} is {key.name}'s private key, and a public one is asked for", _public_half(path)
        )
    return key


def public_keys_in(*folders: Path) -> Iterator[tuple[Path, KeyFile]]:
    """Yield the public keys in folders, which need not exist, with their paths: `MAX_KEY_FILES` of each at most. A file
    that holds something else is left out, such as the public key of a token's issuer, which is in PEM."""
    for path in chain.from_iterable(sorted(each.glob(f"*{PUBLIC_SUFFIX}"))[:MAX_KEY_FILES] for each in folders):
        with suppress(ConfigurationError):
            yield path, load_public_key(path)


def load_root(path: Path) -> KeyFile:
    """Read a person's public key file, for use as a trusted root. Raises `ConfigurationError`."""
    key = load_public_key(path)
    if key.kind != "human":
        raise ConfigurationError(
            f"{path} is a key of kind {key.kind!r}", "name the public key of the person who grants, as a root"
        )
    return key


def _public_half(path: Path) -> str:
    if path.suffix == PUBLIC_SUFFIX:  # a private key that was given a public one's name
        return "name the public key's file, which `accredit keys new` made with it; this one is to be kept secret"
    return f"name {public_path(path)}"


AskPassphrase = Callable[[KeyFile], bytearray]
"""Returns a key's passphrase, which is wiped after use. Raises `ConfigurationError`."""


def load_signing_key(path: Path, ask: AskPassphrase | None = None) -> SigningKey:
    """Read a private key file, ready to sign. Raises `ConfigurationError`, also if the key is encrypted and there is
    nobody to ask for the passphrase."""
    key = _read_open(path, ask)
    return SigningKey(key.public(), key.signer())


def read_private_key(path: Path) -> PrivateKeyFile | LockedKeyFile:
    """Read a private key file, which may be encrypted. Raises `ConfigurationError`."""
    key = read_key(path)
    if not isinstance(key, PrivateKeyFile | LockedKeyFile):
        raise ConfigurationError(
            f"{path} is {key.name}'s public key, which can't sign",
            "name the private key: the same path without .pub",
        )
    return key


def _read_open(path: Path, ask: AskPassphrase | None) -> PrivateKeyFile:
    key = read_private_key(path)
    return unlock_key(path, key, ask) if isinstance(key, LockedKeyFile) else key


def unlock_key(path: Path, key: LockedKeyFile, ask: AskPassphrase | None) -> PrivateKeyFile:
    """Unlock a key with a person's passphrase. Raises `ConfigurationError`."""
    if ask is None:
        raise ConfigurationError(
            f"{path} is under a passphrase, and nobody is asked for it here",
            "name a key without one: only keys of people have a passphrase",
        )
    passphrase = ask(key.public())
    try:
        return unlock(key, passphrase)
    except WrongPassphrase:
        raise WrongPassphrase(key.name, key.id, str(path)) from None
    finally:
        wipe(passphrase)


def log_signer(key: PrivateKeyFile) -> LogSigner:
    """Return the signer of the log for a key."""
    return LogSigner(key.id, key.seed.ed25519, key.seed.ml_dsa_65)


def log_key(key: KeyFile) -> LogKey:
    """Return the key that verifies its holder's log."""
    return LogKey(key.id, key.public_key.ed25519, key.public_key.ml_dsa_65)


def load_log_signer(path: Path) -> LogSigner:
    """Read a gateway's private key file, ready to sign the log. Raises `ConfigurationError`."""
    key = _read_open(path, None)
    if key.kind != "gateway":
        raise ConfigurationError(
            f"{path} is the key of {key.name}, a {key.kind}, and a gateway signs the log",
            "make one with `accredit keys new gateway.key --kind gateway`",
        )
    return log_signer(key)
