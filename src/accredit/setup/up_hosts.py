"""Offers entries for the gateway to hosts on this machine. I/O: hosts' files, the terminal.

Writes and asks as `accredit install` does. Without a terminal and without `--yes`, the commands are only printed.
"""

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from accredit.base.text import one_line
from accredit.config.listen import url_here
from accredit.config.load import Loaded
from accredit.errors import ConfigurationError
from accredit.hosts.drift import host_states, is_own
from accredit.hosts.edit import entries, read_host_file
from accredit.hosts.table import HOSTS, Host, Places
from accredit.setup.install import InstallOptions, install_entry
from accredit.setup.install_entry import agent_of
from accredit.terminal.output import say_whole, tell


def found_hosts() -> list[str]:
    """Return the hosts on this machine whose files can be edited. Only reads."""
    return [host.name for host, _ in _files_here()]


def adopting_host(loaded: Loaded) -> str | None:
    """Return the host whose own servers were put behind this gateway (`accredit install --adopt`). It has an agent key
    of its own. Only reads."""
    url = url_here(loaded.config.gateway)
    for host, file in _files_here():
        if any(agent_of(words) is not None and _leads_to(url, words) for words in _own_entries(host, file)):
            return host.name
    return None


def hosts_without(loaded: Loaded) -> list[tuple[str, str | None]]:
    """Return pairs of a host on this machine and a server of this gateway for which the host has no entry. If the
    gateway has a single endpoint, None stands for the server. If a host's own servers were put behind this gateway
    (`accredit install --adopt`), return no pairs: only that host should use them. Only reads."""
    if adopting_host(loaded) is not None:
        return []
    url = url_here(loaded.config.gateway)
    names = list(loaded.config.servers.by_name)
    several: list[str | None] = [*names] if names and not loaded.config.gateway.merge else [None]
    found: list[tuple[str, str | None]] = []
    for host, file in _files_here():
        led = {word for words in _own_entries(host, file) for word in words}
        wanted = [each for each in several if (url if each is None else f"{url.rstrip('/')}/{each}") not in led]
        found += [(host.name, each) for each in wanted]
    return found


def _files_here() -> Iterator[tuple[Host, Path]]:
    """Yield the hosts on this machine whose user-wide files can be edited, and those files."""
    places = Places(os.environ)
    for state in host_states(os.environ):
        host = HOSTS[state.host]
        if state.found and state.problem is None and state.file == host.file(places):
            yield host, state.file


def install_words(host: str, server: str | None, file: Path) -> str:
    """Return the command that makes an entry."""
    words = ["accredit", "install", host, "--config", str(file), *(["--server", server] if server else [])]
    return one_line(shlex.join(words))


def offer_hosts(loaded: Loaded, file: Path, *, agreed: bool, asks: bool) -> None:
    """Write an entry into each host if the user agrees; otherwise print the command."""
    for state in [] if adopting_host(loaded) is not None else host_states(os.environ):
        if state.found and state.problem is not None:
            tell(f"note: {state.host}: {state.file}: {state.problem}; {state.remedy}")
    for host, server in hosts_without(loaded):
        if agreed or (asks and sys.stdin.isatty()):
            try:
                wish = InstallOptions(host, None, project=False, dry_run=False, yes=agreed)
                install_entry(wish, None, file, server)
            except ConfigurationError as error:
                tell(f"{host}: {error.what}; {error.remedy}")
        else:
            say_whole(f"{host} is here, and does not use it yet: {install_words(host, server, file)}")


def _leads_to(url: str, words: Sequence[str]) -> bool:
    """Return whether a command names the gateway's endpoint, or one below it."""
    return any(word == url or word.startswith(f"{url.rstrip('/')}/") for word in words)


def _own_entries(host: Host, file: Path) -> Iterator[list[str]]:
    """Yield the commands of our own entries. Raises `ConfigurationError`."""
    for entry in entries(host, read_host_file(file)).values():
        words = host.words(entry)
        if is_own(words):
            yield words
