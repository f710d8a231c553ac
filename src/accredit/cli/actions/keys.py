"""What `accredit keys new|show` run. Seeds never reach a terminal."""

from pathlib import Path

from accredit.base.clock import unix_seconds
from accredit.cli.actions import wording as words
from accredit.cli.actions.output import print_facts, print_json
from accredit.keys import KeyFile, KeyKind, PrivateKeyFile, make_key, public_path, read_key, write_key


def make(path: Path, kind: KeyKind, name: str, *, replace: bool, as_json: bool) -> None:
    """Make a key and write both files. Raises `ConfigurationError`."""
    now = unix_seconds()
    key = make_key(kind, name, now)
    write_key(path, key, replace=replace)
    files = {"private": str(path), "public": str(public_path(path))}
    if as_json:
        print_json({**key_members(key.public()), "files": files})
    else:
        print_facts([*key_facts(key.public(), now), *((f"{half} key", file) for half, file in files.items())])


def show_file(path: Path, *, as_json: bool) -> None:
    """Show the key of a file, of either half. Raises `ConfigurationError`."""
    key = read_key(path)
    private = isinstance(key, PrivateKeyFile)
    public = key.public() if isinstance(key, PrivateKeyFile) else key
    if as_json:
        print_json({**key_members(public), "private": private})
    else:
        print_facts([*key_facts(public, unix_seconds()), ("can sign", "yes" if private else "no")])


def key_members(key: KeyFile) -> dict[str, object]:
    """Return a public key for programs."""
    members = key.to_dict()
    return {name: members[name] for name in ("kind", "name", "id", "public_key")} | {
        "created_at": words.timestamp(key.created_at)
    }


def key_facts(key: KeyFile, now: int) -> list[tuple[str, str]]:
    """Return a public key for people."""
    return [
        ("name", key.name),
        ("kind", key.kind),
        ("id", key.id),
        ("made", f"{words.relative(key.created_at, now)} ({words.timestamp(key.created_at)})"),
    ]
