"""A host's own server as a table of `[servers]`, with what may be secret in files beside the configuration. No I/O.

1. A value that may be a credential goes into a file, named in the table by `{ file = ... }`; one that the host takes
   from a variable is `{ env = ... }`.
2. A word of a command that has such a part is put together by a shell, from a variable that rule 1 gives it: the table
   never holds it, and the command's other words are quoted.
3. A name in `[servers]` is a slug of the entry's: another of the same slug gets a number.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

from accredit.hosts.credentials import without_secrets
from accredit.hosts.foreign import Command, Credential, Own, Remote, Text, Variable
from accredit.hosts.toml_text import key, string
from accredit.limits import MAX_SECRET_NAME_CHARS

SECRETS = "secrets"
"""The folder of these files, beside the configuration."""
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
    """A header's or a variable's value: a text, which `is_secret` or not, or the name of the variable that has it."""

    text: str
    is_secret: bool = False
    is_variable: bool = False
    scheme: str = ""


class Wanted(NamedTuple):
    """A server's table: its plain members, and `env` or `headers`."""

    plain: Mapping[str, object]
    values: Mapping[str, Value]
    kind: str
    holds_secret: bool
    """Whether a plain member may hold a credential after all."""


def wanted(own: Own) -> Wanted:
    """Return what a server's table says."""
    server = own.server
    if isinstance(server, Remote):
        values = {name: _value(text) for name, text in server.headers.items()}
        return Wanted({"url": server.url}, values, "headers", server.holds_secret)
    values = {name: _value(text) for name, text in server.env.items()}
    words, more = _words(server, values)
    return Wanted({"command": words, "cwd": server.cwd}, {**values, **more}, "env", holds_secret=False)


def with_values(own: Own, values: Mapping[str, str]) -> Own:
    """Return the server with values in place of variables."""

    def filled(parts: Text) -> Text:
        return tuple(
            Credential(values[each.name]) if isinstance(each, Variable) and each.name in values else each
            for each in parts
        )

    server = own.server
    if isinstance(server, Remote):
        headers = {name: _joined(filled(parts)) for name, parts in server.headers.items()}
        return own._replace(server=server._replace(headers=headers))
    env = {name: filled(parts) for name, parts in server.env.items()}
    return own._replace(server=server._replace(words=tuple(map(filled, server.words)), env=env))


def _joined(parts: Text) -> Text:
    """Return a header's parts, of which one that is a credential makes the whole one."""
    if not any(isinstance(each, Credential) for each in parts):
        return parts
    return (Credential("".join(each.text if isinstance(each, Credential) else str(each) for each in parts)),)


def slugs(name: str) -> Iterator[str]:
    """Give names for a server in `[servers]`, the best first (rule 3)."""
    slug = _OTHERS.sub("-", name.lower()).strip("-")[:_SLUG_CHARS].strip("-") or "server"
    yield slug
    number = 2
    while True:
        end = f"-{number}"
        yield slug[: _SLUG_CHARS - len(end)].rstrip("-") + end
        number += 1


def secret_file(slug: str, name: str) -> Iterator[str]:
    """Give names for the file of a value, from the configuration's folder on, the best first."""
    stem = f"{SECRETS}/{slug}.{_OTHERS_IN_FILES.sub('_', name)[:MAX_SECRET_NAME_CHARS]}"
    yield stem
    number = 2
    while True:
        yield f"{stem}-{number}"
        number += 1


def table(slug: str, server: Wanted, files: Mapping[str, str], host: str, *, shown: bool = False) -> str:
    """Return a server's table; `files` are those of its values. With `shown` it is for a terminal: a URL is without
    what may be secret."""
    lines = [f"# Of {host}: `accredit install {host} --adopt`.", f"[servers.{slug}]"]
    for name, value in server.plain.items():
        text = without_secrets(value) if shown and isinstance(value, str) and name == "url" else value
        lines.append(f"{name} = {_toml(text)}")
    if server.values:
        lines.append(f"[servers.{slug}.{server.kind}]")
        lines += [f"{key(name)} = {_toml(member(value, files.get(name, '')))}" for name, value in server.values.items()]
    return "\n".join(["", *lines, ""])


def member(value: Value, file: str) -> object:
    """Return a value as the table has it."""
    scheme = {"scheme": value.scheme} if value.scheme else {}
    if value.is_variable:
        return {"env": value.text, **scheme}
    return {"file": file} if value.is_secret else value.text


def _toml(value: object) -> str:
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return f"{{ {', '.join(f'{name} = {_toml(each)}' for name, each in members.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, cast('list[object]', value)))}]"
    return string(str(value))


def _value(text: Text) -> Value:
    *before, last = text or ("",)
    if isinstance(last, Variable):
        return Value(last.name, is_variable=True, scheme="".join(map(str, before)).strip())
    if isinstance(last, Credential):
        return Value(last.text, is_secret=True)
    return Value("".join(map(str, text)))


def _words(server: Command, taken: Mapping[str, Value]) -> tuple[list[str], dict[str, Value]]:
    """Return a command's words, and the variables of rule 2."""
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
