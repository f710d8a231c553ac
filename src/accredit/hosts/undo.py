"""Takes an entry out of a host's file, or puts the whole file back. I/O: reads the file and what is kept of it.

1. Without the entry every other byte stays. A file that was not there before the entry, and holds nothing else, goes.
2. The whole file is put back as it was when it last did not have the entry; later changes of others are lost by that,
   which is why it has to be asked for. If there was no file, there is none again.
"""

from accredit.errors import ConfigurationError
from accredit.hosts.edit import Edit, Place, backups, edited, entries, read_host_file, was_missing


def without(place: Place) -> Edit:
    """Return the edit that takes the entry out (rule 1). Raises `ConfigurationError`."""
    old = read_host_file(place.file)
    if old is None:
        raise ConfigurationError(f"there is no {place.file}", "nothing has to be taken out")
    new = edited(place, old, None)
    nothing_else = new == edited(place, edited(place, b"", place.host.entry(place.name, [""])), None)
    made = nothing_else and _before(place) == (None,)
    return Edit(place.file, old, None if made else new, place.host.name, {place.name: None})


def restored(place: Place) -> Edit:
    """Return the edit that puts the whole file back (rule 2). Raises `ConfigurationError`."""
    for data in _before(place):
        return Edit(place.file, read_host_file(place.file), data, place.host.name, {place.name: None})
    raise ConfigurationError(
        f"nothing is kept of {place.file} from before {place.name} was in it", "leave --restore out: that takes it out"
    )


def _before(place: Place) -> tuple[bytes | None] | tuple[()]:
    """Return what the file held when it last did not have the entry, None for no file; nothing, if that is unknown."""
    for backup in backups(place.file):
        if was_missing(backup):
            return (None,)
        data = read_host_file(backup)
        if data is not None and place.name not in entries(place.host, data):
            return (data,)
    return ()
