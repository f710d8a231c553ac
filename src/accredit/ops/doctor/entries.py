"""Checks the entries in hosts' files: they are unchanged since installation and start this accredit, their gateways
answer, and their keys and delegations are valid. I/O: files. Contacts the gateways in the user's own files, never those
in a project's file."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from accredit import __version__
from accredit.base.clock import unix_seconds
from accredit.config.listen import url_here
from accredit.config.load import load
from accredit.config.servers import endpoints
from accredit.errors import ConfigurationError
from accredit.hosts.drift import EntryState, HostState, host_states
from accredit.hosts.edit import entries, read_host_file
from accredit.hosts.installed import read_installed
from accredit.hosts.table import HOSTS, Places
from accredit.keys.places import entry_mark, state_folder
from accredit.ops.doctor.engine import Result, bad, command_line, good, note
from accredit.ops.doctor.gateways import ask_gateways
from accredit.ops.doctor.keys import look_at_grant, look_at_key
from accredit.ops.doctor.surroundings import Surroundings
from accredit.refusals import oauth_hosts
from accredit.terminal.wording import relative

_METADATA = "lib/python3*/site-packages/accredit-*.dist-info"


class _Entry(NamedTuple):
    """One of our entries: its host, its state, and the words of its command (as installed, if the file now has
    others)."""

    host: HostState
    state: EntryState
    words: list[str]
    is_of_project: bool

    @property
    def url(self) -> str:
        """The gateway's URL; "" if the entry has none."""
        at = self.words.index("connect") + 1 if "connect" in self.words else len(self.words)
        url = self.words[at] if at < len(self.words) else ""
        return url if url.startswith(("http://", "https://")) else ""

    def files(self, option: str) -> list[Path]:
        """Return the values of an option whose values are files."""
        found = [value for name, value in zip(self.words, self.words[1:], strict=False) if name == option]
        return [Path(value) for value in found]

    def command(self, verb: str) -> str:
        """Return the command that reinstalls or removes the entry."""
        where = ["--project"] if self.is_of_project else []
        url = ["--url", self.url] if verb == "install" else []
        if verb == "install" and not self.url:
            return ""
        line = command_line("accredit", verb, self.host.host, "--name", self.state.name, *url, *where, "--yes")
        folder = command_line(str(self.host.file.parent)) if self.is_of_project else ""
        return f"cd {folder} && {line}" if line and folder and Path.cwd() != self.host.file.parent else line


def look_at_entries(at: Surroundings) -> Iterator[Result]:
    """Yield findings about entries in hosts' files."""
    states = host_states(at.environ, at.here)
    used = {each.file for each in read_installed(state_folder(at.environ))}
    for state in states:
        if state.problem is not None:
            tell = (
                bad if str(state.file) in used else note
            )  # where nobody has installed anything it is the host's affair
            yield tell("hosts", f"{state.host}: {state.file}: {state.problem}", state.remedy)
    if at.loaded is not None and at.loaded.config.proofs.mode == "required":
        yield good("hosts", oauth_hosts(at.loaded.config.oauth.open_at))  # no fault: it is said to whoever has one
    found = [entry for state in states if state.entries for entry in _entries(at, state)]
    silent = _silent(found)
    for entry in found:
        findings = [*_faults(at, entry, silent)]
        yield from findings or [good("hosts", f"{entry.host.host}: {entry.state.name} leads to {entry.url}")]
        yield from () if findings else _note_restart(at, entry)
    for entry in found:
        for key in filter(Path.exists, entry.files("--key")):
            if not key.is_relative_to(at.folder):  # of those there is a look of its own
                yield from look_at_key(key)
            for grant in filter(Path.is_file, entry.files("--delegation")):
                yield from look_at_grant(at, key, grant)


def _entries(at: Surroundings, state: HostState) -> Iterator[_Entry]:
    host = HOSTS[state.host]
    try:
        there = entries(host, read_host_file(state.file))
    except ConfigurationError:
        return
    before = {
        each.name: each.entry for each in read_installed(state_folder(at.environ)) if each.file == str(state.file)
    }
    of_project = state.file != host.file(Places(at.environ))
    for each in state.entries:
        words = host.words(there[each.name] if each.state in ("installed", "stale") else before.get(each.name))
        yield _Entry(state, each, words, of_project)


def _faults(at: Surroundings, entry: _Entry, silent: dict[str, str]) -> Iterator[Result]:
    name = f"{entry.host.host}: {entry.state.name}"
    if entry.state.state != "installed":
        what = f"{name} is {entry.state.state}: {entry.state.why}"
        yield bad("hosts", what, "have it written anew, or taken out", entry.command("install"))
        return
    other = other_version(entry.words[0])
    if other is not None:
        what = f"{name} starts accredit {other}, which is another version than this"
        yield bad("versions", what, "have it written anew, with this one", entry.command("install"))
    config = _find_configuration(at, entry.url)
    there = _endpoints(config) if config is not None else []
    if there and not any(f"{entry.url.rstrip('/')}/".startswith(f"{each.rstrip('/')}/") for each in there):
        what = f"{name} leads to {entry.url}, where the gateway has nothing: its endpoints are {', '.join(there)}"
        words = ("accredit", "install", entry.host.host, "--name", entry.state.name, "--url", there[0], "--yes")
        yield bad("hosts", what, "have it lead to one of them", "" if entry.is_of_project else command_line(*words))
    if entry.url in silent:
        start = command_line("accredit", "up", "--config", str(config)) if config is not None else ""
        what = f"{name} leads to {entry.url}: {silent[entry.url]}"
        if any(key.is_relative_to(at.folder / "agents") for key in entry.files("--key")):  # a server was adopted
            remedy = f"start that gateway; `accredit uninstall {entry.host.host} --restore` puts back what was there"
            yield bad("hosts", what, remedy, start)
        else:
            remedy = "start that gateway, or have the entry taken out"
            yield bad("hosts", what, remedy, start or entry.command("uninstall"))


def _note_restart(at: Surroundings, entry: _Entry) -> Iterator[Result]:
    """Yield a note if the entry's command was not started since the entry was written: hosts read their entries only at
    their start."""
    with suppress(OSError):
        written = int(entry_mark(state_folder(at.environ), entry.words).stat().st_mtime)
        when = relative(written, unix_seconds())
        what = f"{entry.host.host} has not connected since its entry {entry.state.name} was written {when}"
        yield note("hosts", what, f"restart {entry.host.host}")


def _silent(found: list[_Entry]) -> dict[str, str]:
    """Return why gateways don't answer, by URL. Only gateways in the user's own files are asked."""
    urls = {each.url: "" for each in found if each.url and not each.is_of_project}
    problems = {each.address: each.problem for each in ask_gateways(urls) if each.problem}
    return {url: why for url in urls for address, why in problems.items() if url.startswith(f"{address}/")}


def _endpoints(file: Path) -> list[str]:
    with suppress(ConfigurationError):  # of that there is a look of its own
        return endpoints(load(file, os.environ, {}))
    return []


def _find_configuration(at: Surroundings, url: str) -> Path | None:
    """Return the user's own configuration for the gateway at a URL."""
    own = [at.file] if at.is_own and at.file is not None else []
    for file in dict.fromkeys((*own, *at.known)):
        try:
            here = url_here(load(file, os.environ, {}).config.gateway)
        except ConfigurationError:
            continue
        if url == here or url.startswith(f"{here.rstrip('/')}/"):
            return file
    return None


def other_version(program: str) -> str | None:
    """Return the version of the accredit that a command starts, from the metadata installed beside it; None if that is
    this accredit, or unknown."""
    environment = Path(os.path.realpath(program)).parent.parent
    if environment == Path(sys.prefix) or not Path(program).is_absolute():
        return None
    found = sorted(environment.glob(_METADATA))
    version = found[-1].name.removeprefix("accredit-").removesuffix(".dist-info") if found else ""
    return version if version and version != __version__ else None
