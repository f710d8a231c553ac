"""Edits a host's file so that only one entry changes. I/O: the file, backups beside it, a lock.

- The file is edited as text. The new text is parsed again and must mean the same, except for the entry; otherwise the
  file is not touched.
- An edit holds a lock against our other edits, and is made only if the file is unchanged since it was read.
- The old content is first saved as `FILE.accredit-TIME`, readable by its owner alone. If there was no file, an empty
  `FILE.accredit-TIME.none` notes that. The last five are kept.
- Backups of a host's own servers, before these are adopted, are kept for good, as `FILE.accredit-TIME.adopted`. In a
  checkout a commit could include their credentials, so there they are kept in the state folder instead.
- The new file is synced to disk under a temporary name, and then replaces the old one in one step, with its mode and
  owner. Links are followed. So after a crash the file is the old one or the new one.
- An entry is remembered after it was written (`installed`), and forgotten before it is changed or removed. So after a
  crash an existing entry may be forgotten, but no missing entry is remembered.
"""

import calendar
import os
import re
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, cast

from accredit.base.clock import unix_seconds
from accredit.base.files import SHARED_FOLDER, make_folder, open_locked
from accredit.errors import ConfigurationError
from accredit.hosts import yaml_text
from accredit.hosts.installed import remember
from accredit.hosts.table import Entry, Host
from accredit.keys import read_file, replace_file, write_file

MAX_HOST_FILE_BYTES = 8_388_608
"""The most bytes of a host's configuration file. Claude Code keeps a history of some megabytes in its own; each
megabyte takes up to 2.5 s (measured on a busy machine)."""
MAX_BACKUPS = 5
"""How many backups are kept of a host's file."""


_MARK = ".accredit-"
_NONE = ".none"
_ADOPTED = ".adopted"
_TIME = "%Y%m%dT%H%M%SZ"
_CHECKOUTS = (".git", ".hg", ".jj", ".svn")
_KEPT = "hosts"
_FOLDER_CHARS = 16
_BOM = "\ufeff"


class EntryLocation(NamedTuple):
    """An entry's location: a host, its file, and the entry's name there."""

    host: Host
    file: Path
    name: str


class Edit(NamedTuple):
    """An edit: a file's old and new bytes (None: no file), its host, and the entries that it changes (None: removed).
    `adopts` says that the old file has servers of the host's own, which the edit replaces."""

    file: Path
    old: bytes | None
    new: bytes | None
    host: str = ""
    entries: Mapping[str, Entry | None] = {}
    adopts: bool = False


def read_host_file(file: Path) -> bytes | None:
    """Return what a host's file holds; None if there is none. Raises `ConfigurationError`."""
    if not os.path.lexists(file):
        return None
    return read_file(Path(os.path.realpath(file)), MAX_HOST_FILE_BYTES).data


def entries(host: Host, data: bytes | None) -> dict[str, Any]:
    """Return the entries of all servers in a host's file, by name; None is no file. Raises `ConfigurationError`."""
    return {} if data is None else dict(named_entries(host, data))


def meaning(host: Host, data: bytes) -> object:
    """Return a host's file, parsed in its format. Raises `ConfigurationError`."""
    return host.text.parse(_text(data))


def named_entries(host: Host, data: bytes) -> list[tuple[str, object]]:
    """Return the entries with their names, in order; in a list a name may occur twice. Raises `ConfigurationError`."""
    return _list_entries(host, _text(data))


def edit_entry(place: EntryLocation, data: bytes, entry: Entry | None) -> bytes:
    """Return the bytes with the entry set, or removed if it is None. Raises `ConfigurationError`."""
    host, path = place.host, (place.host.table, place.name)
    old = _text(data)
    before = host.text.parse(old)
    try:
        new = host.text.drop(old, path) if entry is None else host.text.put(old, path, entry)
        result = new.encode()
    except UnicodeEncodeError:
        raise ConfigurationError("a path or name in the entry is not UTF-8", "use another one") from None
    wanted = [] if entry is None else _split(place, host.text.parse(host.text.put("", path, entry)))[1]
    before = before if old else host.text.parse(new)  # into an empty file, a host's form may put more than the entry
    if _split(place, host.text.parse(new)) != (_split(place, before)[0], wanted):
        raise unsafe(place.file)
    return result


def has_table(host: Host, data: bytes) -> bool:
    """Return whether a host's file has the table of servers, empty or not. Raises `ConfigurationError`."""
    found = meaning(host, data)
    return isinstance(found, dict) and host.table in found


def drop_empty_table(host: Host, data: bytes) -> bytes:
    """Return the bytes without the table of servers if that is empty, holds no comment, and can be removed alone."""
    old = _text(data)
    try:
        before = cast("dict[str, object]", host.text.parse(old))
        if host.table not in before or _list_entries(host, old):
            return data
        line = re.compile(rf"^{re.escape(host.table)}:[ \t]*(?:{{}}|\[\])[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
        new = line.sub("", old, 1) if host.form is yaml_text else host.text.drop(old, (host.table,))
        after = cast("dict[str, object]", host.text.parse(new))
    except (ConfigurationError, ValueError, IndexError):
        return data
    rest = {name: value for name, value in before.items() if name != host.table}
    comments = any(old.count(each) != new.count(each) for each in ("//", "/*", "#"))
    return data if comments or after != rest else new.encode()


def replace_entries(host: Host, file: Path, data: bytes, new: Mapping[str, Entry]) -> bytes:
    """Return the bytes with these entries replaced, by name. Raises `ConfigurationError`."""
    old = _text(data)
    text = host.text.put_every(old, host.table, new)
    wanted = {
        name: _list_entries(host, host.text.put("", (host.table, name), entry))[0][1] for name, entry in new.items()
    }
    before, after = host.text.parse(old), _list_entries(host, text)
    expected = [(name, wanted.get(name, entry)) for name, entry in _list_entries(host, old)]
    empty: Entry = {host.table: None}
    same = {**cast("Entry", before), **empty} == {**cast("Entry", host.text.parse(text)), **empty}
    if not same or after != expected:
        raise unsafe(file)
    return text.encode()


def put_back(place: EntryLocation, data: bytes, kept: bytes) -> bytes:
    """Return the bytes with the entry replaced by its text in `kept`. Raises `ConfigurationError`."""
    host, path = place.host, (place.host.table, place.name)
    old, before = _text(data), _text(kept)
    text = host.text.put_written(old, path, host.text.written(before, path))
    if _split(place, host.text.parse(text)) != (
        _split(place, host.text.parse(old))[0],
        _split(place, host.text.parse(before))[1],
    ):
        raise unsafe(place.file)
    return text.encode()


def unsafe(file: Path) -> ConfigurationError:
    """Return the error for a file that can't be edited safely."""
    return ConfigurationError(f"{file} is in a form that can't be edited safely", "edit it by hand")


def _list_entries(host: Host, text: str) -> list[tuple[str, object]]:
    container = _container(host, host.text.parse(text))
    return [*container.items()] if isinstance(container, dict) else [(_name(each), each) for each in container]


def apply(edit: Edit, state: Path, program: Callable[[], None] | None = None) -> Path:
    """Make an edit, by the host's own `program` if given. Return the backup's path. Raises `ConfigurationError`."""
    with _folder_lock(state):
        if read_host_file(edit.file) != edit.old:
            raise ConfigurationError(f"{edit.file} was changed meanwhile", "run the command again")
        make_folder(edit.file.parent, SHARED_FOLDER)
        backup = _keep(edit.file, edit.old, _ADOPTED if edit.adopts else "", state)
        remember(state, edit.host, edit.file, dict.fromkeys(edit.entries))
        if program is not None:
            program()
        elif edit.new is None:
            _remove(edit.file)
        elif edit.old is None:
            write_file(Path(os.path.realpath(edit.file)), edit.new, private=True)
        else:
            replace_file(edit.file, edit.new, old=edit.old)
        remember(state, edit.host, edit.file, edit.entries)
        _prune(edit.file, state)
        return backup


def _keep(file: Path, data: bytes | None, mark: str, state: Path) -> Path:
    newest = max((_time(each.name) or 0 for each in backups(file, state)), default=0)
    at = time.gmtime(max(unix_seconds(), newest + 1))  # what is newer sorts so, also after a clock was set back
    folder, apart = _places_of_backups(file, state)
    real = Path(os.path.realpath(file.parent))  # a folder may be a link into a checkout: dotfiles often are
    if any(os.path.lexists(above / name) for above in (real, *real.parents) for name in _CHECKOUTS):
        folder = apart
        make_folder(folder)
    path = folder / f"{file.name}{_MARK}{time.strftime(_TIME, at)}{_NONE if data is None else mark}"
    write_file(path, data or b"", private=True)
    return path


def backups(file: Path, state: Path) -> list[Path]:
    """Return a file's backups, beside it and in the state folder, newest first."""
    found: list[tuple[int, Path]] = []
    for folder in _places_of_backups(file, state):
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        times = {name: _time(name) for name in names if name.startswith(file.name + _MARK)}
        found += [(at, folder / name) for name, at in times.items() if at is not None]
    return [path for _, path in sorted(found, reverse=True)]


def _places_of_backups(file: Path, state: Path) -> tuple[Path, Path]:
    """Return the two backup folders: the file's own, and one in the state folder."""
    return file.parent, state / _KEPT / sha256(os.fsencode(file.absolute())).hexdigest()[:_FOLDER_CHARS]


def was_missing(backup: Path) -> bool:
    """Return whether a backup notes that there was no file."""
    return backup.name.endswith(_NONE)


def is_of_adoption(backup: Path) -> bool:
    """Return whether a backup holds a host's own servers from before their adoption."""
    return backup.name.endswith(_ADOPTED)


def _time(name: str) -> int | None:
    """Return the unix seconds in a backup's name; None if it is not one."""
    try:
        return calendar.timegm(
            time.strptime(name.removesuffix(_NONE).removesuffix(_ADOPTED).rpartition(_MARK)[2], _TIME)
        )
    except ValueError:
        return None


def _prune(file: Path, state: Path) -> None:
    for old in [each for each in backups(file, state) if not is_of_adoption(each)][MAX_BACKUPS:]:
        _remove(old)


def _remove(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError(f"can't remove {file}: {error.strerror}", "remove it by hand") from None


def _text(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ConfigurationError("the file is not UTF-8", "save it as UTF-8 first") from None
    if text.startswith(_BOM):
        raise ConfigurationError("the file begins with a byte order mark", "save it as UTF-8 without one first")
    return text


def _container(host: Host, meaning: object) -> dict[str, Any] | list[Any]:
    empty: dict[str, Any] | list[Any] = [] if host.listed else {}
    found = cast(dict[str, Any], meaning).get(host.table, empty) if isinstance(meaning, dict) else empty
    if isinstance(found, type(empty)):
        return cast(dict[str, Any] | list[Any], found)
    if isinstance(found, tuple) and str(cast(tuple[object, ...], found)[0]).endswith(":null"):
        return empty
    raise ConfigurationError(f"{host.table} holds something else than servers", "correct the file by hand first")


def _split(place: EntryLocation, meaning: object) -> tuple[object, list[object]]:
    """Split a parsed file into everything but the entry, and a list of the entry's occurrences. A missing table counts
    as empty."""
    container, name = _container(place.host, meaning), place.name
    if isinstance(container, dict):
        ours: list[object] = [container[name]] if name in container else []
        left: object = {key: value for key, value in container.items() if key != name}
    else:
        ours = [each for each in container if _name(each) == name]
        left = [each for each in container if _name(each) != name]
    return {**cast(dict[str, object], meaning), place.host.table: left}, ours


def _name(item: object) -> str:
    """Return the name of an entry in a list."""
    return str(cast(dict[str, object], item).get("name", "")) if isinstance(item, dict) else ""


@contextmanager
def _folder_lock(folder: Path) -> Generator[None]:
    make_folder(folder)
    try:
        lock = open_locked(folder / "hosts.lock")
    except BlockingIOError:
        raise ConfigurationError("another accredit edits a host's file", "run the command again") from None
    except OSError as error:
        raise ConfigurationError(f"can't lock {folder}: {error.strerror}", "make that folder writable") from None
    try:
        yield
    finally:
        os.close(lock)
