"""Plans the configuration and credential files that `accredit install --adopt` writes. I/O: reads existing ones.

- A server that the configuration already has, with the same values, is reused. Any other gets a free name.
- A server that would keep the gateway from starting stays in the host: its program or folder is missing, a value can't
  be written in a table, or its URL leads to the gateway itself. If others can read the configuration, a server whose
  URL may hold a credential stays there, too.
- The new text must mean the old one plus the new servers, and nothing else.
"""

import asyncio
import contextlib
import os
import shlex
import shutil
import socket
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from accredit.base.toml import append_text, says
from accredit.config.conversion import convert_tables
from accredit.config.listen import leads_to
from accredit.config.load import Loaded, load
from accredit.config.schema import Gateway
from accredit.config.servers import views
from accredit.config.values import WrongValue, check_header_text
from accredit.errors import ConfigurationError
from accredit.gateway.settings import HttpUpstream
from accredit.hosts.foreign import Command, Own, Remote, SkippedEntry
from accredit.hosts.installed import read_installed
from accredit.hosts.table import HOSTS
from accredit.hosts.toml_text import string
from accredit.keys import read_file
from accredit.keys.places import state_folder
from accredit.limits import MAX_VALUE_FILE_BYTES
from accredit.setup import adopt_text as text
from accredit.setup.adopt_text import ServerTable

ADOPTION_KNOCK_SECONDS = 5.0
"""How many seconds a server behind a URL has to answer whether it wants a sign-in. One that does not answer is
adopted."""
MAX_ADOPTION_PORTS = 20
"""How many ports are tried for a new gateway, from the default one on."""


class Adopted(NamedTuple):
    """A server as it is in the host's file, and its name in `[servers]`."""

    own: Own
    server: str


class Plan(NamedTuple):
    """What to write: the configuration's bytes before (None: no file) and after, the added text as it is shown to the
    user, and the credential files. `loaded` is the new configuration."""

    file: Path
    old: bytes | None
    new: bytes
    shown: str
    secrets: Mapping[Path, bytes]
    adopted: Sequence[Adopted]
    left: Sequence[SkippedEntry]
    loaded: Loaded


class Root(NamedTuple):
    """The root whose delegations will count: its name and its public key file."""

    name: str
    file: Path


def plan(file: Path, own: Sequence[Own], host: str, root: Root) -> Plan:
    """Return the files' new contents. Raises `ConfigurationError`."""
    before = _before(file, host)
    content = before.content if before is not None else None
    tables = tomllib.loads(content.decode()) if content is not None else {}
    known: dict[str, Any] = tables.get("servers", {})
    names = _Names(file.parent, known)
    gateway = before.config.gateway if before is not None else Gateway(port=_free_port())
    head = _head(before, host, root, gateway.port)
    added, shown = [head], [head]
    adopted: list[Adopted] = []
    left: list[SkippedEntry] = []
    is_private = content is None or not read_file(file, len(content)).open_to_others
    for each in own:
        wanted = text.build_server_table(each)
        fault = _fault(each, wanted, file, gateway, is_private=is_private)
        if fault is not None:
            left.append(SkippedEntry(each.name, *fault))
            continue
        server = names.find(each.name, wanted)
        adopted.append(Adopted(each, server.name))
        if server.is_new:
            added.append(text.table(server.name, wanted, server.files, host))
            shown.append(text.table(server.name, wanted, server.files, host, shown=True))
    new, loaded = _content(file, content, "".join(added))
    return Plan(file, content, new, "".join(shown), names.secrets, adopted, left, loaded)


class _Server(NamedTuple):
    name: str
    files: Mapping[str, str]
    is_new: bool


class _Names:
    """Assigns names to servers and credential files, and collects those files' contents."""

    def __init__(self, folder: Path, known: Mapping[str, Any]) -> None:
        self._folder = folder
        self._known = known
        self._taken: set[str] = set()
        self.secrets: dict[Path, bytes] = {}

    def find(self, name: str, wanted: ServerTable) -> _Server:
        for slug in text.slugs(name):
            if slug in self._taken:
                continue
            if slug not in self._known:
                self._taken.add(slug)
                files = {key: self._file(slug, key, each.text) for key, each in wanted.values.items() if each.is_secret}
                return _Server(slug, files, is_new=True)
            if self._is_same(self._known[slug], wanted):
                self._taken.add(slug)
                return _Server(slug, {}, is_new=False)
        raise AssertionError("slugs never end")

    def _file(self, slug: str, key: str, secret: str) -> str:
        data = f"{secret}\n".encode()
        for name in text.secret_file(slug, key):
            path = self._folder / name
            if path in self.secrets:
                continue
            if not os.path.lexists(path) or _holds(path, data):
                self.secrets[path] = data
                return name
        raise AssertionError("names of files never end")

    def _is_same(self, table: Mapping[str, Any], wanted: ServerTable) -> bool:
        """Return whether the table is this server with the same values."""
        plain = {name: value for name, value in table.items() if name in ("url", "command", "cwd", "urls", "auth")}
        values = cast("dict[str, object]", table.get(wanted.kind, {}))
        if plain != dict(wanted.plain) or values.keys() != wanted.values.keys():
            return False
        for name, value in wanted.values.items():
            there = values[name]
            if value.is_secret:
                file = cast("dict[str, str]", there).get("file") if isinstance(there, dict) else None
                if there != {"file": file} or not _holds(self._folder / str(file), f"{value.text}\n".encode()):
                    return False
            elif there != text.member(value, ""):
                return False
        return True


def _before(file: Path, host: str) -> Loaded | None:
    """Return the existing configuration, if any. Raises `ConfigurationError` if servers can't be added to it."""
    if not os.path.lexists(file):
        return None
    loaded = load(file, os.environ, {})
    one = next(
        (section for section, _ in loaded.origins if section in ("upstream", "tools", "resources", "prompts")), ""
    )
    if one:
        raise ConfigurationError(
            f"{file} has one server, which has no name ([{one}])",
            "name another file, or give its server a name: accredit add ... --name-existing NAME",
        )
    if loaded.config.proofs.mode == "required":
        own = file.parent.with_name(f"{file.parent.name}-{host}") / file.name
        raise ConfigurationError(
            f"{file} requires proofs: {host} could call nothing there until somebody allows it",
            f"begin {host} with a file of its own: accredit install {host} --adopt --config {shlex.quote(str(own))}",
        )
    return loaded


def _free_port() -> int:
    """Return the first port, from the default one up, that is free now and that no installed entry points to."""
    first, taken = Gateway().port, set(_ports_of_entries())
    for port in range(first, first + MAX_ADOPTION_PORTS):
        if port in taken:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((Gateway().host, port))
            return port
    return first


def _ports_of_entries() -> Iterator[int | None]:
    for each in read_installed(state_folder(os.environ)):
        words = HOSTS[each.host].words(each.entry) if each.host in HOSTS else []
        with contextlib.suppress(ValueError):  # no URL of ours
            yield from (urlsplit(word).port for word in words if word.startswith("http"))


def _head(before: Loaded | None, host: str, root: Root, port: int) -> str:
    """Return what precedes the servers: a new file's head, or `[proofs]` in observe mode if the file has none."""
    observe = text.OBSERVE.format(name=string(root.name), file=string(str(root.file)))
    if before is None:
        return text.HEAD.format(host=host, port=port) + observe
    return "" if any(section == "proofs" for section, _ in before.origins) else observe


def _fault(own: Own, wanted: ServerTable, file: Path, gateway: Gateway, *, is_private: bool) -> tuple[str, str] | None:
    """Return why a server must stay in the host, and what to do; None if it can move."""
    if wanted.holds_secret and not is_private:
        return f"its URL may hold a credential, and others can read {file}", f"chmod 600 {file}, and run this again"
    members = {name: text.member(value, "file") for name, value in wanted.values.items()}
    try:
        convert_tables({"servers": {"x": {**wanted.plain, wanted.kind: members}}}, strict=True)
        for value in wanted.values.values():
            if wanted.kind == "headers" and not value.is_variable:
                check_header_text(value.text)
            if len(value.text.encode()) >= MAX_VALUE_FILE_BYTES:
                raise ValueError(f"should hold no value of {MAX_VALUE_FILE_BYTES} bytes")
    except (WrongValue, ValueError) as error:
        return f"what it says can't be in a configuration: {getattr(error, 'text', error)}", "correct it in the host"
    if isinstance(own.server, Command):
        return _fault_of_command(own.server)
    if leads_to(gateway, own.server.url):
        return "its URL leads to the gateway itself", "take it out, or name another gateway's configuration"
    return None


def _fault_of_command(server: Command) -> tuple[str, str] | None:
    if not Path(server.cwd).is_dir():
        return f"there is no folder {server.cwd}", "correct its cwd, or make that folder, and run this again"
    first = server.words[0]
    program = first[0] if len(first) == 1 else None
    if not isinstance(program, str):
        return "its program's name holds a variable", "write its value there first, and run this again"
    path = server.env.get("PATH", (os.environ.get("PATH", os.defpath),))
    named = str(Path(server.cwd, program)) if os.sep in program else program
    if shutil.which(named, path=str(path[0])) is None:
        return f"there is no program {program} here", "install it, or give its full path, and run this again"
    return None


def _content(file: Path, old: bytes | None, added: str) -> tuple[bytes, Loaded]:
    """Return the file's bytes with the tables appended, and the configuration that they mean. Check that it means the
    old one plus the tables, and nothing else."""
    after = append_text(old, added) if old else added.lstrip("\n").encode()
    means, more = tomllib.loads((old or b"").decode()), tomllib.loads(added)
    servers = {**means.get("servers", {}), **more.get("servers", {})}
    if not says(after, {**more, **means, **({"servers": servers} if servers else {})}):
        raise ConfigurationError(
            f"{file} has its servers in a form that can't be added to",
            "write each server as tables with headers, such as [servers.mail]",
        )
    loaded = load(file, os.environ, {}, content=after)
    views(loaded)
    return after, loaded


def _holds(path: Path, data: bytes) -> bool:
    """Return whether the file holds these bytes, and nobody else can read it."""
    try:
        content = read_file(path, MAX_VALUE_FILE_BYTES)
    except ConfigurationError:
        return False
    return content.data == data and not content.open_to_others


def wanting_sign_in(own: Sequence[Own]) -> list[str]:
    """Return the names of remote servers that answer 401 although the host's file has no credential for them: only the
    host has signed in there. All are asked concurrently."""
    asked = [(each.name, each.server) for each in own if isinstance(each.server, Remote) and _is_open(each.server)]
    if not asked:
        return []
    from accredit.asking.probe import wants_sign_in  # noqa: PLC0415 - the HTTP client is loaded where it is used

    async def all_of_them() -> list[bool]:
        places = [
            HttpUpstream(each.url, {name: "".join(map(str, text)) for name, text in each.headers.items()})
            for _, each in asked
        ]
        return await asyncio.gather(*(wants_sign_in(each, ADOPTION_KNOCK_SECONDS) for each in places))

    return [name for (name, _), wants in zip(asked, asyncio.run(all_of_them()), strict=True) if wants]


def _is_open(server: Remote) -> bool:
    """Return whether a server is reached without any credential."""
    parts = chain.from_iterable(server.headers.values())
    return not server.holds_secret and all(isinstance(part, str) for part in parts)


def unset(own: Sequence[Own]) -> Iterator[str]:
    """Yield each variable that the servers use and that is not set in this environment. Each is yielded once."""
    seen: set[str] = set()
    values = chain.from_iterable(text.build_server_table(each).values.values() for each in own)
    for value in values:
        if value.is_variable and value.text not in seen and value.text not in os.environ:
            seen.add(value.text)
            yield value.text
