"""Parses a database's URL. No I/O.

`postgresql://[USER@]HOST[:PORT][,HOST[:PORT]...]/DATABASE[?PARAMETER=VALUE[&...]]`. A host is a name, an IPv4 address
or an IPv6 address in brackets. These parameters are accepted, and no others: `sslmode`, `sslrootcert`, `sslcert` and
`sslkey`, as in libpq; and `host`, the folder of a Unix socket, if the URL names no host.

- [password] A URL with a password is refused: URLs are shown, logged and kept in shells' histories.
- [quoting] The reason of a refusal does not quote the URL, as it might hold a password nevertheless.
"""

import re
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, unquote

from msgspec import Struct

from accredit.errors import ConfigurationError
from accredit.limits import MAX_PORT, MAX_SPENT_IN_DATABASE

MAX_DATABASE_HOSTS = 8
"""How many hosts one database may have. The gateway connects to all at once. Clusters usually have three."""


SCHEME = "postgresql://"
PORT = 5432

Replicas = Literal["required", "none"]

_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?")
_SSL = ("sslmode", "sslrootcert", "sslcert", "sslkey")
_MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")
_REMEDY = "write postgresql://USER@HOST:5432/DATABASE, with more hosts after commas"


class DatabaseHost(NamedTuple):
    """A server's address: a name or an IP address, or the folder of its Unix socket."""

    name: str
    port: int


class DatabaseAddress(Struct, frozen=True):
    """The members of `postgresql://...`: a database that is reached by one of `hosts`.

    With `replicas` "required", a server is used only if its commits also reach another server. `password_file` holds
    the password; without it, the password is found as libpq does (`PGPASSWORD`, `PGPASSFILE`).
    """

    hosts: tuple[DatabaseHost, ...]
    database: str
    user: str | None = None
    tls: tuple[tuple[str, str], ...] = ()
    replicas: Replicas = "none"
    max_spent: int = MAX_SPENT_IN_DATABASE
    password_file: Path | None = None

    @property
    def name(self) -> str:
        """The database, for people and logs."""
        return f"{SCHEME}{','.join(host.name for host in self.hosts)}/{self.database}"


def parse_address(url: str) -> DatabaseAddress:
    """Parse a URL that begins with `SCHEME`. Raises `ConfigurationError`."""
    rest, _, query = url.removeprefix(SCHEME).partition("?")
    authority, slash, database = rest.partition("/")
    user, at, hosts = authority.rpartition("@")
    if ":" in user or (not at and not url.isprintable()):
        raise ConfigurationError(
            "store.url: a password is in it, and a URL is shown and logged",
            "take it out, and give it as PGPASSWORD, in a file that PGPASSFILE names, or as store.password",
        )
    database, user = unquote(database), unquote(user)
    if not slash or not _is_name(database) or (at and not _is_name(user)) or "#" in url:
        raise ConfigurationError("store.url names no PostgreSQL database", _REMEDY)
    parameters = _parameters(query)
    folder = parameters.pop("host", None)
    found = _hosts(hosts) if hosts else ()
    if folder is not None and not hosts and folder.startswith("/"):
        found = (DatabaseHost(folder, PORT),)
    elif folder is not None or not found:
        raise ConfigurationError("store.url names no host", _REMEDY + ", or ?host=/FOLDER of a Unix socket")
    return DatabaseAddress(found, database, user or None, tuple(sorted(parameters.items())))


def _hosts(text: str) -> tuple[DatabaseHost, ...]:
    matches = [_HOST.fullmatch(each) for each in text.split(",")]
    found = [
        DatabaseHost(each["v6"] or each["name"], int(each["port"] or PORT)) for each in matches if each is not None
    ]
    if len(found) < len(matches) or not all(0 < host.port <= MAX_PORT for host in found):
        raise ConfigurationError("store.url: a host or a port of it is none", _REMEDY)
    if len(set(found)) < len(found) or len(found) > MAX_DATABASE_HOSTS:
        raise ConfigurationError(
            f"store.url names a host twice, or more than {MAX_DATABASE_HOSTS}", "name each server of the cluster once"
        )
    return tuple(found)


def _parameters(query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=8) if query else []
    except ValueError:
        raise ConfigurationError("store.url: what follows its ? is no list of NAME=VALUE", _REMEDY) from None
    found = dict(pairs)
    known = (*_SSL, "host")
    if len(found) < len(pairs) or not found.keys() <= set(known) or not all(map(_is_name, found.values())):
        raise ConfigurationError(
            "store.url has a parameter that is not known, is empty, or comes twice", f"known are {', '.join(known)}"
        )
    if found.get("sslmode", "prefer") not in _MODES:
        raise ConfigurationError("store.url: sslmode is none that is known", f"write one of {', '.join(_MODES)}")
    return found


def _is_name(text: str) -> bool:
    return bool(text) and text.isprintable()
