"""Implements `accredit keys new|show`. Private seeds are never printed."""

import shlex
from pathlib import Path

import click

from accredit.base.clock import unix_seconds
from accredit.base.standard import is_for_programs
from accredit.errors import ConfigurationError
from accredit.keys import (
    KeyFile,
    KeyKind,
    LockedKeyFile,
    PrivateKeyFile,
    lock_key,
    make_key,
    public_path,
    read_key,
    write_key,
)
from accredit.keys.load import check_free
from accredit.terminal import wording as words
from accredit.terminal.output import print_facts, print_result, tell
from accredit.terminal.passphrases import new_passphrase

_NEXT = {
    "human": "name {0} as public_key_file under [[proofs.roots]] of a gateway, and sign with `accredit grant`",
    "agent": "nothing is allowed to it yet; whoever may, signs with this, where PATH is their private key:\n"
    "  accredit grant --issuer PATH --agent {0} --scope SCOPE --expires 30d --out delegation.json",
    "gateway": "name the private key as key_file under [attest]; give {0} to whoever checks the gateway's records",
}


def run_new(
    *,
    path: Path,
    kind: KeyKind,
    name: str | None,
    passphrase_file: Path | None,
    no_passphrase: bool,
    replace: bool,
) -> None:
    """Run `accredit keys new`: make a key and write both files. Raises `ConfigurationError`."""
    now = unix_seconds()
    key = make_key(kind, path.name.removesuffix(".key") if name is None else name, now)
    check_free(path, replace=replace)
    passphrase = _passphrase(key, passphrase_file, declined=no_passphrase)
    write_key(path, key if passphrase is None else lock_key(key, passphrase), replace=replace)
    files = {"private": str(path), "public": str(public_path(path))}
    print_result({**key_members(key.public()), "files": files})
    print_facts([*key_facts(key.public(), now), *((f"{half} key", file) for half, file in files.items())])
    if not is_for_programs():
        for line in f"next: {_NEXT[kind].format(shlex.quote(files['public']))}".split("\n"):
            tell(line)


def _passphrase(key: PrivateKeyFile, file: Path | None, *, declined: bool) -> bytearray | None:
    """Return the passphrase for a new key, from `file` or typed. Return None for a key that gets none: only a person's
    key has a passphrase, unless the person `declined` it."""
    if key.kind != "human" and file is not None:
        raise ConfigurationError(
            f"--passphrase-file: nobody could type the passphrase of {key.name}, a key of kind {key.kind}",
            "leave it out: only keys of people have one",
        )
    if file is not None and declined:
        raise ConfigurationError("--passphrase-file and --no-passphrase are given", "name one of them")
    if key.kind != "human" or declined:
        return None
    passphrase = new_passphrase(file, key.name)
    if passphrase is None:
        raise ConfigurationError(
            f"there is no terminal to ask for the passphrase of {key.name}'s key",
            "name the file that holds it, --passphrase-file F, or say that the key has none: --no-passphrase",
        )
    return passphrase


def show_file(path: Path, *, public: bool) -> None:
    """Print what a key file says. With `public`, print its public half, in the format of key files. Raises
    `ConfigurationError`."""
    key = read_key(path)
    if public:
        click.echo(key.public().encode().decode())
        return
    locked = isinstance(key, LockedKeyFile)
    private = locked or isinstance(key, PrivateKeyFile)
    print_result({**key_members(key.public()), "private": private} | ({"encrypted": True} if locked else {}))
    can = "yes, with its passphrase" if locked else "yes" if private else "no"
    print_facts([*key_facts(key.public(), unix_seconds()), ("can sign", can)])


def key_members(key: KeyFile) -> dict[str, object]:
    """Return a public key's JSON members."""
    members = key.to_dict()
    return {name: members[name] for name in ("kind", "name", "id", "public_key")} | {
        "created_at": words.date_time(key.created_at)
    }


def key_facts(key: KeyFile, now: int) -> list[tuple[str, str]]:
    """Return what a public key's file says, for people."""
    return [
        ("name", key.name),
        ("kind", key.kind),
        ("id", key.id),
        ("made", f"{words.relative(key.created_at, now)} ({words.date_time(key.created_at)})"),
    ]
