"""Removes an entry from a host's file, or restores the whole file. I/O: reads the file and its backups.

- When an entry is removed, every other byte stays, except an empty table of servers that was made for it. A file that
  was made for the entry and holds nothing else is deleted. If the host's own server of that name was adopted, its old
  text is restored.
- When the whole file is restored, it becomes what it was when it last had none of the entries, or had the adopted
  servers in their place. Later changes by others are lost, so this happens only on request. If servers were adopted at
  different times, the file becomes what it was before the last adoption, with each server's own text. If there was no
  file, it is deleted.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from accredit.errors import ConfigurationError
from accredit.hosts.drift import is_own
from accredit.hosts.edit import (
    Edit,
    EntryLocation,
    backups,
    drop_empty_table,
    edit_entry,
    entries,
    has_table,
    is_of_adoption,
    put_back,
    read_host_file,
    was_missing,
)
from accredit.hosts.table import Host


class _Kept(NamedTuple):
    """A backup: its bytes (None: there was no file), its entries, and the names of the servers that were adopted right
    after it was made."""

    data: bytes | None
    entries: Mapping[str, object]
    adopted: Set[str]


def without(place: EntryLocation, state: Path) -> Edit:
    """Return the edit that removes the entry. Raises `ConfigurationError`."""
    host, changes = place.host, {place.name: None}
    old = read_host_file(place.file)
    if old is None:
        raise ConfigurationError(f"there is no {place.file}", "nothing has to be taken out")
    kept = _read_backups(host, place.file, state)
    before = next((each for each in kept if place.name in each.adopted or place.name not in each.entries), None)
    if before is not None and before.data is not None and place.name in before.adopted:
        return Edit(place.file, old, put_back(place, old, before.data), host.name, changes)
    new = edit_entry(place, old, None)
    if before is not None and (before.data is None or not has_table(host, before.data)):
        new = drop_empty_table(host, new)
    alone = edit_entry(place, edit_entry(place, b"", host.entry(place.name, [""])), None)
    nothing_else = new in (alone, drop_empty_table(host, alone))
    was_made = before is not None and before.data is None
    return Edit(place.file, old, None if nothing_else and was_made else new, host.name, changes)


def plan_restore(host: Host, file: Path, names: Set[str], state: Path) -> Edit:
    """Return the edit that restores the whole file. Raises `ConfigurationError`."""
    kept = [*_read_backups(host, file, state)]
    adopted = frozenset[str]().union(*(each.adopted for each in kept))
    for number, each in enumerate(kept):
        there = names & each.entries.keys()
        ours = {name for name in there if is_own(host.words(each.entries[name]))}
        data = _with_own(host, file, each.data, ours, kept[number + 1 :]) if ours and each.adopted else each.data
        if there <= adopted and (data is not each.data or not ours):
            return Edit(file, read_host_file(file), data, host.name, dict.fromkeys(names))
    raise ConfigurationError(
        f"nothing is kept of {file} from before {', '.join(sorted(names))} was in it",
        "leave --restore out: that takes it out",
    )


def _with_own(host: Host, file: Path, data: bytes | None, names: Set[str], older: Sequence[_Kept]) -> bytes | None:
    """Return `data` with the entries of these `names` replaced by the host's own servers from `older` backups. If one
    of them was not adopted, or can't be replaced, return `data` unchanged."""
    new = data
    for name in names:
        before = next((each.data for each in older if name in each.adopted), None)
        if new is None or before is None:
            return data
        with suppress(ConfigurationError):
            new = put_back(EntryLocation(host, file, name), new, before)
            continue
        return data
    return new


def _read_backups(host: Host, file: Path, state: Path) -> Iterator[_Kept]:
    """Yield a file's backups, newest first."""
    for backup in backups(file, state):
        data = None if was_missing(backup) else read_host_file(backup)
        try:
            there = entries(host, data)
        except ConfigurationError:
            continue  # it was broken: whose the entries were is unknown
        foreign = {name for name, entry in there.items() if not is_own(host.words(entry))}
        yield _Kept(data, there, foreign if is_of_adoption(backup) else frozenset())
