"""Compares `accredit`'s entries in hosts' files with what was installed. I/O: reads these files, and checks that the
files that they name exist.

An entry is `accredit`'s own if it starts `accredit connect`, or was installed under that name in that file. Its
state is the first of these that fits:

- stale, if its program, its key or one of its delegations doesn't exist (any more);
- changed, if its name now has another command, if a member that was written has another value, or if a member was
  added that hosts do not add by themselves (`KEPT`, or an empty one), such as variables;
- gone, if it was installed, and its name is not in the file;
- installed, otherwise. An entry also counts as installed if no record is left of what was written.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple, cast

from accredit.errors import ConfigurationError
from accredit.hosts.edit import entries, read_host_file
from accredit.hosts.installed import Installed, read_installed
from accredit.hosts.table import HOSTS, KEPT, Entry, Host, Places, plain
from accredit.keys.places import state_folder

State = Literal["installed", "changed", "gone", "stale"]

_FILES = ("--key", "--delegation")


class EntryState(NamedTuple):
    """An entry's name, its state, and the reason ("" if it is fine)."""

    name: str
    state: State
    why: str = ""


class HostState(NamedTuple):
    """The state of one file of a host. `found` says whether the host seems to be installed. `entries` are our own
    entries in the file. `problem` says why the file can't be read, or is None, and `remedy` what to do about it."""

    host: str
    file: Path
    found: bool
    entries: tuple[EntryState, ...]
    problem: str | None = None
    remedy: str = ""


def host_states(environ: Mapping[str, str], folder: Path | None = None) -> list[HostState]:
    """Return the state of hosts' files: each host's user-wide file, then the project files in which something was
    installed, then the project files in `folder`."""
    known = read_installed(state_folder(environ))
    places = Places(environ)
    files = {host.file(places): host for host in HOSTS.values()}
    for each in known:
        if each.host in HOSTS:
            files.setdefault(Path(each.file), HOSTS[each.host])
    for host in HOSTS.values():
        here = folder / host.project if folder is not None and host.project else None
        if here is not None and here.is_file():
            files.setdefault(here, host)
    return [_state(host, file, known, places) for file, host in files.items()]


def is_own(words: Sequence[str]) -> bool:
    """Return whether a command is `accredit connect`."""
    if not words:
        return False
    if Path(words[0]).name == "accredit":
        return words[1:2] == ["connect"]
    return list(words[1:4]) == ["-m", "accredit", "connect"]


def why_stale(words: Sequence[str]) -> str | None:
    """Return why an entry of ours can't work any more; None if nothing is wrong."""
    if shutil.which(words[0]) is None:
        return f"there is no {words[0]}"
    for option, value in pairwise(words):
        if option in _FILES and not Path(value).is_file():
            return f"there is no {value}"
    return None


def _state(host: Host, file: Path, known: Sequence[Installed], places: Places) -> HostState:
    found = file.exists() or (file.parent.is_dir() and file.parent != places.home)
    try:
        there = entries(host, read_host_file(file))
        of_file = {each.name: each.entry for each in known if each.file == str(file)}
        states = tuple(_entry_states(host, there, of_file))
    except ConfigurationError as error:
        return HostState(host.name, file, found, (), error.what, error.remedy)
    return HostState(host.name, file, found, states)


def _entry_states(host: Host, there: Mapping[str, object], known: Mapping[str, Entry]) -> Iterator[EntryState]:
    for name, entry in there.items():
        words = host.words(entry)
        if not is_own(words):
            if name in known:
                yield EntryState(name, "changed", "another command has taken its place")
            continue
        stale, changed = why_stale(words), why_changed(known[name], plain(entry)) if name in known else None
        if stale is not None:
            yield EntryState(name, "stale", stale)
        elif changed is not None:
            yield EntryState(name, "changed", changed)
        else:
            yield EntryState(name, "installed")
    for name in known:
        if name not in there:
            yield EntryState(name, "gone", "somebody has taken it out")


def why_changed(written: Entry, now: object) -> str | None:
    """Return how an `accredit connect` entry differs from what was written."""
    found = cast("dict[str, object]", now) if isinstance(now, dict) else {}
    for member, value in written.items():
        if member not in found:
            return f"{member} is gone"
        if found[member] != value:
            return f"{member} is another"
    for member in found:
        if member not in written and member not in KEPT and found[member] not in ({}, [], None):
            return f"{member} was added"
    return None
