"""Renders a host's own server as a table of `[servers]`; possible secrets go into files beside the configuration. No
I/O.

- A value that may be a credential goes into a file, which the table names as `{ file = ... }`. A value that the host
  takes from a variable becomes `{ env = ... }`.
- If a word of a command has such a part, the table never holds the secret: the command is run by a shell, which takes
  the part from a variable. The variable is set from the file or environment. The other words are quoted.
- The name in `[servers]` is a slug of the entry's name, with a number if the slug is taken.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from accredit.hosts.credentials import without_secrets
from accredit.hosts.foreign import Command, Credential, Own, Remote, Text, Variable
from accredit.hosts.toml_text import inline, key

MAX_SECRET_NAME_CHARS = 64
"""How many characters of a variable's or header's name are in the name of the file with its value."""


SECRETS = "secrets"
"""The folder of credential files, beside the configuration."""
_SLUG_CHARS = 32
_ARGUMENT = "ARGUMENT_"
_OTHERS = re.compile(r"[^a-z0-9]+")
_OTHERS_IN_FILES = re.compile(r"[^A-Za-z0-9_-]+")

HEAD = """\
# The gateway in front of what hosts on this machine use. Made by `accredit install {host} --adopt`.
# Every key: `accredit config schema`. `accredit reload` has a gateway that runs take changes.

[gateway]
host = "127.0.0.1"
port = {port}

[attest]
mode = "durable"           # each call is on record before it goes on, and so is its outcome
key_file = "gateway.key"   # signs the records
arguments = "digest"       # "full": records hold the arguments of calls

[store]
url = "sqlite:///accredit.db"
"""
OBSERVE = """\

[proofs]
mode = "observe"           # what would be refused is on record, and passes; "required": no proof, no call
binding = "required"       # a proof counts for the very call that it was made for; "optional": one made for none, too

[[proofs.roots]]           # whose delegations count
name = {name}
public_key_file = {file}
"""


class Value(NamedTuple):
    """The value of a header or environment variable. `text` is the value itself, which may be secret, or the name of a
    variable to read it from."""

    text: str
    is_secret: bool = False
    is_variable: bool = False
    scheme: str = ""


class ServerTable(NamedTuple):
    """The content of a server's table: plain members, and `env` or `headers`."""

    plain: Mapping[str, object]
    values: Mapping[str, Value]
    kind: str
    holds_secret: bool
    """Whether a plain member may still hold a credential."""


def build_server_table(own: Own) -> ServerTable:
    """Convert a host's server to the content of its table."""
    server = own.server
    if isinstance(server, Remote):
        values = {name: _value(text) for name, text in server.headers.items()}
        return ServerTable({"url": server.url}, values, "headers", server.holds_secret)
    values = {name: _value(text) for name, text in server.env.items()}
    words, more = _words(server, values)
    return ServerTable({"command": words, "cwd": server.cwd}, {**values, **more}, "env", holds_secret=False)


def with_values(own: Own, values: Mapping[str, str]) -> Own:
    """Return the server with variables replaced by these values."""

    def filled(parts: Text) -> Text:
        return tuple(
            Credential(values[each.name]) if isinstance(each, Variable) and each.name in values else each
            for each in parts
        )

    server = own.server
    if isinstance(server, Remote):
        headers = {name: _join_if_secret(filled(parts)) for name, parts in server.headers.items()}
        return own._replace(server=server._replace(headers=headers))
    env = {name: filled(parts) for name, parts in server.env.items()}
    return own._replace(server=server._replace(words=tuple(map(filled, server.words)), env=env))


def _join_if_secret(parts: Text) -> Text:
    """Return a header's parts. If one of them is a credential, the whole header counts as one."""
    if not any(isinstance(each, Credential) for each in parts):
        return parts
    return (Credential("".join(each.text if isinstance(each, Credential) else str(each) for each in parts)),)


def slugs(name: str) -> Iterator[str]:
    """Generate names for a server in `[servers]`, best first."""
    slug = _OTHERS.sub("-", name.lower()).strip("-")[:_SLUG_CHARS].strip("-") or "server"
    yield slug
    number = 2
    while True:
        end = f"-{number}"
        yield slug[: _SLUG_CHARS - len(end)].rstrip("-") + end
        number += 1


def secret_file(slug: str, name: str) -> Iterator[str]:
    """Generate file names for a secret value, relative to the configuration's folder, best first."""
    stem = f"{SECRETS}/{slug}.{_OTHERS_IN_FILES.sub('_', name)[:MAX_SECRET_NAME_CHARS]}"
    yield stem
    number = 2
    while True:
        yield f"{stem}-{number}"
        number += 1


def table(slug: str, server: ServerTable, files: Mapping[str, str], host: str, *, shown: bool = False) -> str:
    """Return a server's table. `files` maps its secret values to the names of their files. If `shown`, secrets in the
    URL are hidden."""
    lines = [f"# Of {host}: `accredit install {host} --adopt`.", f"[servers.{slug}]"]
    for name, value in server.plain.items():
        text = without_secrets(value) if shown and isinstance(value, str) and name == "url" else value
        lines.append(f"{name} = {inline(text)}")
    if server.values:
        lines.append(f"[servers.{slug}.{server.kind}]")
        lines += [
            f"{key(name)} = {inline(member(value, files.get(name, '')))}" for name, value in server.values.items()
        ]
    return "\n".join(["", *lines, ""])


def member(value: Value, file: str) -> object:
    """Return a value in the form that the table has for it."""
    scheme = {"scheme": value.scheme} if value.scheme else {}
    if value.is_variable:
        return {"env": value.text, **scheme}
    return {"file": file} if value.is_secret else value.text


def _value(text: Text) -> Value:
    *before, last = text or ("",)
    if isinstance(last, Variable):
        return Value(last.name, is_variable=True, scheme="".join(map(str, before)).strip())
    if isinstance(last, Credential):
        return Value(last.text, is_secret=True)
    return Value("".join(map(str, text)))


def _words(server: Command, taken: Mapping[str, Value]) -> tuple[list[str], dict[str, Value]]:
    """Return the words of the command to write into the configuration's table, and the variables that supply its
    secrets."""
    if all(isinstance(part, str) for word in server.words for part in word):
        return ["".join(map(str, word)) for word in server.words], {}
    values: dict[str, Value] = {}
    script: list[str] = ["exec"]
    number = 0
    for word in server.words:
        quoted = ""
        for part in word:
            if isinstance(part, str):
                quoted += shlex.quote(part)
                continue
            number += 1
            while f"{_ARGUMENT}{number}" in taken:
                number += 1
            values[f"{_ARGUMENT}{number}"] = _value((part,))
            quoted += f'"${{{_ARGUMENT}{number}}}"'
        script.append(quoted or "''")
    return ["/bin/sh", "-c", " ".join(script)], values
