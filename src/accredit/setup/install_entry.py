"""An entry of `accredit install`: the options, the user's consent, its name and command. I/O: the terminal; reads a
gateway's configuration, and checks for files."""

import os
import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import click

from accredit.errors import ConfigurationError
from accredit.hosts.table import Host, Places, find_host, project_file
from accredit.keys.places import AGENTS, DELEGATION, config_folder

if TYPE_CHECKING:
    from accredit.config.load import Loaded

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_ID = re.compile(r"[0-9a-f]{16,}")
"""Matches a text that looks like a key's id, which is not a name for people."""


class NewEntry(NamedTuple):
    """An entry's name, and its gateway's endpoint."""

    name: str
    url: str

    @classmethod
    def read(cls, url: str | None, config: Path | None, server: str | None, name: str | None) -> "NewEntry":
        """Read the options, and return the entry to make. Raises `ConfigurationError`."""
        from accredit.config.load import load  # noqa: PLC0415 - of all hosts' commands only those that name one need it

        loaded = None if url is not None else load(config, os.environ, {})
        if loaded is not None and loaded.file is None:
            raise ConfigurationError("no gateway is named", "name its endpoint (--url) or its configuration (--config)")
        url = _check_url(endpoint(loaded, server) if loaded is not None else _of_server(url or "", server))
        name = name if name is not None else _default_name(loaded, url, server)
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"{name!a} is no name that every host takes", "--name takes letters, digits, - and _"
            )
        return cls(name, url)

    def words(self, hold: int, before: Sequence[str] = ()) -> list[str]:
        """Return the words of the entry's command. Paths are absolute, as hosts run programs from their own folders.
        `before` is the old command of this entry: if `--adopt` has made its agent, that agent is kept."""
        folder = agent_of(before) or config_folder(os.environ)
        key, delegation = folder / "agent.key", folder / DELEGATION
        files = [key, delegation] if key.is_file() and delegation.is_file() else [key] if key.is_file() else []
        return connect_words(self.url, files, hold)


def agent_of(words: Sequence[str]) -> Path | None:
    """Return the folder of the agent that a command uses, if `--adopt` made that agent; else None."""
    key = next((Path(value) for option, value in pairwise(words) if option == "--key"), None)
    adopted = key is not None and key.parent.parent == config_folder(os.environ) / AGENTS
    return key.parent if key is not None and adopted else None


def connect_words(url: str, files: Sequence[Path], hold: int) -> list[str]:
    """Return the command that connects to an endpoint. `files` are the agent's key and delegation, as far as they
    exist."""
    named = [
        word for option, file in zip(("--key", "--delegation"), files, strict=False) for word in (option, str(file))
    ]
    return [*own_command(), "connect", url, *named, "--ask", "auto", "--hold", str(hold)]


def own_command() -> list[str]:
    """Return this `accredit`'s command, with its absolute path."""
    beside = Path(sys.executable).parent / "accredit"
    called = Path(sys.argv[0])
    for path in (called if called.name == "accredit" and called.is_absolute() else beside, beside):
        if path.is_file() and os.access(path, os.X_OK):
            return [str(path)]
    return [sys.executable, "-m", "accredit"]


def endpoint(loaded: "Loaded", server: str | None) -> str:
    """Return the URL of a configuration's gateway, or of one of its servers."""
    gateway, servers = loaded.config.gateway, loaded.config.servers.by_name
    if gateway.port == 0:
        raise ConfigurationError("gateway.port is 0: where the gateway will be is not known", "name it with --url")
    from accredit.config.listen import url_here  # noqa: PLC0415 - as above
    from accredit.config.servers import only_server, view, views  # noqa: PLC0415 - as above

    if server is not None:
        view(loaded, server)  # an MCP server of this configuration
    elif servers and not gateway.merge:
        server = only_server(loaded)
        if server is None:
            first = views(loaded)[0].server
            raise ConfigurationError("the gateway has several servers", f"name one: --server {first}")

    return _of_server(url_here(gateway), server)


def _of_server(url: str, server: str | None) -> str:
    if server is None:
        return url
    from accredit.config.servers import check_server_name  # noqa: PLC0415 - as above

    check_server_name(server, "--server")
    return f"{url.rstrip('/')}/{server}"


def _default_name(loaded: "Loaded | None", url: str, server: str | None) -> str:
    """Return the name for an entry: the server's, else the name that people chose for the gateway, else "accredit"."""
    path = urlsplit(url).path.rstrip("/")
    found = server or (path.rpartition("/")[2] if "/mcp/" in path else "")
    if not found and loaded is not None:
        found = loaded.config.gateway.id or ""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", found).strip("-_")[:64]
    return name if name and not _ID.fullmatch(name) else "accredit"


def _check_url(url: str) -> str:
    """Check that a URL may stand in an entry, and return it. Raises `ConfigurationError`."""
    from accredit.client.gateways import check_url  # noqa: PLC0415 - as above

    check_url(url)
    if not url.isascii() or " " in url:
        raise ConfigurationError("--url has a space or a letter that no URL has", "write it as %20, or the like")
    parts = urlsplit(url)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigurationError(
            "the URL has a user, a query or a fragment, which may be secret", "leave that out: hosts' files are read"
        )
    return url


class InstallOptions(NamedTuple):
    """What the user wants: the host, the entry's name, and the options that both commands have."""

    host: str
    name: str | None
    project: bool
    dry_run: bool
    yes: bool


def place_of(wish: InstallOptions) -> tuple[Host, Path]:
    """Return the host and its file. Raises `ConfigurationError`."""
    host = find_host(wish.host)
    return host, project_file(host, Path.cwd()) if wish.project else host.file(Places(os.environ))


def confirm_write(wish: InstallOptions) -> bool:
    """Return whether the user agrees to write, at the terminal or with `--yes`. Raises `ConfigurationError` if there
    is no terminal."""
    if wish.yes:
        return True
    if not sys.stdin.isatty():
        raise ConfigurationError("there is nobody to ask whether this is wanted", "say --yes, or run it in a terminal")
    return click.confirm("Write this?", default=False, err=True)
