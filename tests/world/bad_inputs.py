"""Every command, each place where it takes a file, a name or a store, and what may be there in its stead. I/O: files.

A command line is words; `{}` is where the bad input goes. `KINDS` makes it.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from accredit.base.clock import unix_seconds
from accredit.keys import make_key, write_key

CONFIGURATION = """\
[gateway]
id = "mail"
port = 1
[upstream]
url = "http://127.0.0.1:9/mcp"
[proofs]
mode = "required"
[[proofs.roots]]
name = "Ada"
public_key_file = "owner.key.pub"
[store]
url = "sqlite:///accredit.db"
"""
_GRANT = ("grant", "--agent", "agent.key.pub", "--scope", "comms:email:read")
_ID = "0123456789abcdef0123456789abcdef"
_STORE = "sqlite:///{}"
_PRUNE = ("log", "prune", "--before", "1d")
_FOLLOW = ("log", "follow", "--sink", "siem", "--format", "jsonl")
_TOKEN = ("token", "issue", "--subject", "ada", "--audience", "http://127.0.0.1:9/mcp", "--issuer", "ada")

OF_FILES: tuple[tuple[str, ...], ...] = (
    ("serve", "--config", "{}"),
    ("wrap", "--config", "{}"),
    ("reload", "--config", "{}"),
    ("up", "--config", "{}"),
    ("doctor", "--config", "{}"),
    ("doctor", "--production", "--config", "{}"),
    ("drill", "--issuer", "owner.key", "--config", "{}"),
    ("drill", "--issuer", "{}"),
    ("add", "calendar", "http://127.0.0.1:9/mcp", "--config", "{}"),
    ("check", "--config", "{}"),
    ("pin", "--config", "{}"),
    ("suggest", "--config", "{}"),
    ("replay", "--config", "{}"),
    ("config", "check", "--config", "{}"),
    ("config", "show", "--config", "{}"),
    ("connect", "http://127.0.0.1:9/mcp", "--key", "{}"),
    ("connect", "http://127.0.0.1:9/mcp", "--key", "agent.key", "--delegation", "{}"),
    ("call", "tool", "--url", "http://127.0.0.1:9/mcp", "--key", "{}"),
    ("keys", "new", "{}", "--kind", "agent"),
    ("keys", "new", "new.key", "--kind", "human", "--name", "Ada", "--passphrase-file", "{}"),
    ("keys", "show", "{}"),
    ("token", "keygen", "{}"),
    (*_TOKEN, "--key", "{}"),
    (*_TOKEN, "--key", "token.key", "--out", "{}"),
    ("token", "verify", "{}"),
    ("inspect", "{}"),
    ("inspect", "owner.key.pub", "--key", "{}"),
    ("verify", "{}", "--root", "owner.key.pub"),
    ("verify", "owner.key.pub", "--root", "{}"),
    (*_GRANT, "--issuer", "{}", "--out", "out.json"),
    (*_GRANT, "--issuer", "owner.key", "--out", "{}"),
    (*_GRANT, "--issuer", "owner.key", "--out", "out.json", "--config", "{}"),
    ("grant", "--agent", "{}", "--scope", "comms:email:read", "--issuer", "owner.key", "--out", "out.json"),
    ("revoke", _ID, "--issuer", "{}", "--list", "revoked.json"),
    ("revoke", _ID, "--issuer", "owner.key", "--list", "{}"),
    ("log", "list", "--config", "{}"),
    ("log", "verify", "{}", "--key", "gateway.key.pub"),
    ("log", "verify", "--store", "sqlite:///accredit.db", "--key", "{}"),
    ("log", "verify", "--store", "sqlite:///accredit.db", "--key", "gateway.key.pub", "--since", "{}"),
    (*_PRUNE, "--store", "sqlite:///accredit.db", "--key", "{}"),
    ("install", "claude-code", "--config", "{}"),
)
"""Where a file is read or written."""
OF_STORES: tuple[tuple[str, ...], ...] = (
    ("log", "list", "--store", _STORE),
    ("log", "show", _ID, "--store", _STORE),
    ("log", "verify", "--store", _STORE, "--key", "gateway.key.pub"),
    ("log", "export", "--store", _STORE),
    ("log", "checkpoint", "--store", _STORE),
    (*_FOLLOW, "--store", _STORE),
    (*_PRUNE, "--key", "gateway.key", "--store", _STORE),
    ("revoke", _ID, "--issuer", "owner.key", "--store", _STORE),
    ("suggest", "--store", _STORE),
    ("store", "status", "--store", _STORE),
    ("store", "migrate", "--store", _STORE),
)
"""Where a store is opened."""
OF_NAMES: tuple[tuple[str, ...], ...] = (
    ("log", "export", "--store", "sqlite:///log.db", "--out", "{}"),
    ("init", "http://127.0.0.1:9/mcp", "--out", "{}"),
    ("approve", "{}"),
    ("deny", "{}"),
    ("grants", "show", "{}"),
    ("names", "set", "{}", "Ada"),
    ("names", "set", _ID, "{}"),
    ("log", "show", "{}", "--store", "sqlite:///accredit.db"),
    ("uninstall", "claude-code", "--name", "{}"),
    ("check", "{}"),
    ("completion", "bash", "--", "accredit", "{}"),
)
"""What else is named."""
OF_NOTHING: tuple[tuple[str, ...], ...] = (
    ("check",), ("doctor",), ("doctor", "--json"), ("install", "--list"), ("replay", "--config", "accredit.toml"),
    ("asked",), ("grants", "list"), ("desk", "open"), ("desk", "lock"), ("config", "check"), ("config", "show"),
    ("config", "schema"), ("reload",), ("suggest",), ("pin",), ("log", "list"), ("store", "status"),
    ("completion", "fish"), ("keys", "show", "owner.key"), ("inspect", "owner.key.pub"), ("--version",), ("--help",),
    ("keys", "new", "new.key", "--kind", "agent"), ("up", "http://127.0.0.1:9/mcp", "--dry-run"),
)  # fmt: skip
"""What goes by the place alone."""
CONFIGURED = (
    'gateway.tls_cert_file = "{}"\ngateway.tls_key_file = "{}"',
    'attest.key_file = "{}"\nattest.mode = "durable"',
    'attest.signer_public_key_file = "{}"',
    'rounds.keys_file = "{}"',
    'cluster.keys_file = "{}"',
    'proofs.revocation.files = ["{}"]\nproofs.revocation.public_key_files = ["owner.key.pub"]',
    'proofs.revocation.public_key_files = ["{}"]',
    'proofs.mode = "required"\nproofs.roots = [{ name = "Ada", public_key_file = "{}" }]',
    'tokens.mode = "required"\ntokens.issuers = [{ issuer = "https://a.example", audience = "a", jwks_file = "{}" }]',
    'upstream.headers = { X-Key = { file = "{}" } }',
    'store.url = "sqlite:///{}"',
    'store.url = "postgresql://a@127.0.0.1:9/b?sslmode=disable"\nstore.password = { file = "{}" }',
)
"""Lines of a configuration, each of which names what is not as it should be."""


def _pipe(path: Path) -> str:
    os.mkfifo(path)
    return path.name


def _loop(path: Path) -> str:
    path.symlink_to(path.name)
    return path.name


def _folder(path: Path) -> str:
    path.mkdir()
    return path.name


def _holding(data: bytes) -> Callable[[Path], str]:
    def make(path: Path) -> str:
        path.write_bytes(data)
        path.chmod(0o600)
        return path.name

    return make


def _socket(path: Path) -> str:
    os.mknod(path, 0o140600)
    return path.name


def _huge(path: Path) -> str:
    with path.open("wb") as file:
        file.truncate(1 << 34)
    path.chmod(0o600)
    return path.name


def _named(name: str) -> Callable[[Path], str]:
    return lambda _path: name


DEEP = 5_000
KINDS: Mapping[str, Callable[[Path], str]] = {
    "a pipe": _pipe,
    "a device": _named("/dev/zero"),
    "a folder": _folder,
    "a loop of links": _loop,
    "a socket": _socket,
    "nothing": _named("missing/and/missing"),
    "below a file": _named("owner.key.pub/below"),
    "no name": _named(""),
    "the folder": _named("."),
    "the root": _named("/"),
    "a long name": _named("x" * 5_000),
    "a long path": _named("x/" * 5_000),
    "controls": _named("a\x1b[31m\nb"),
    "no text": _named("\udcff\udcfe"),
    "nested TOML": _holding(b"a = " + b"[" * DEEP + b"]" * DEEP),
    "nested tables": _holding(b"a = " + b"{ a = " * DEEP + b"1" + b"}" * DEEP),
    "dotted keys": _holding(b"a." * 200_000 + b"a = 1"),
    "nested JSON": _holding(b"[" * DEEP + b"]" * DEEP),
    "nested objects": _holding(b'{"a":' * DEEP + b"1" + b"}" * DEEP),
    "empty": _holding(b""),
    "bytes": _holding(bytes(range(256)) * 9),
    "a NUL in a name": _holding(b'[upstream]\nurl = "http://127.0.0.1:9/mcp"\n[store]\nurl = "sqlite:///a\\u0000b"\n'
                                b'[attest]\nkey_file = "a\\u0000b"\n[rounds]\nkeys_file = "a\\u0000b"\n'),
    "a huge number": _holding(b"a = " + b"9" * 20_000),
    "huge": _huge,
}  # fmt: skip


def furnish(folder: Path) -> None:
    """Makes the files that a command needs beside the bad one."""
    for name, kind in (("owner", "human"), ("agent", "agent"), ("gateway", "gateway")):
        write_key(folder / f"{name}.key", make_key(kind, name.title(), unix_seconds()))  # type: ignore[arg-type]
    (folder / "accredit.toml").write_text(CONFIGURATION, "utf-8")


def line(command: tuple[str, ...], bad: str) -> list[str]:
    """The command line with a bad input in its place."""
    return [each.replace("{}", bad) for each in command]


def configure(folder: Path, lines: str, bad: str) -> None:
    """Has the configuration name a bad input."""
    quoted = json.dumps(bad)[1:-1]
    text = f'{lines}\nupstream.url = "http://127.0.0.1:9/mcp"\ngateway.port = 1\ngateway.id = "mail"\n'
    (folder / "accredit.toml").write_text(text.replace("{}", quoted), "utf-8")
