"""Checks that files and folders are the user's own: nobody else can write or replace them. I/O: files.

- A folder is the user's own if it and all its parents belong to the user or root, and nobody else may write to them. A
  parent may be like `/tmp`, where users can only remove their own files.
- A file is the user's own if its folder is, it belongs to the user or root, and nobody else may write to it.
- Links are followed, and the target is checked. Each link on the way is checked, too, as whoever can replace it decides
  where it leads. It must belong to the user or root, and be in a folder of the user's own or in one like `/tmp`.
- `configurations.json`, in the person's folder, lists their own configurations. `accredit up` enters those that it has
  made, or that the person has agreed to (`up_place`).
- A group with the user's name and no other members counts as the user, as many systems make such a group for each user.
"""

import grp
import os
import pwd
import shlex
import stat
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from accredit.base.text import one_line
from accredit.errors import ConfigurationError
from accredit.keys.files import read_file
from accredit.keys.places import config_folder

MAX_KNOWN_CONFIGURATIONS = 100
"""How many configurations `accredit up` remembers as a person's own. If there are more it forgets the oldest, and asks
again."""
MAX_KNOWN_CONFIGURATIONS_BYTES = 1_048_576
"""The most bytes of the file that names these configurations: paths have 4,096 at most on Linux."""
MAX_LINKS = 40
"""The most links of a path that are looked at. Linux follows no more: such a path leads nowhere."""


KNOWN = "configurations.json"


class OwnFault(NamedTuple):
    """Why something is not the user's own (`text`), and the command that fixes that, or ""."""

    text: str
    command: str = ""


def known_files(environ: Mapping[str, str]) -> list[str]:
    """Return the paths of the person's own configurations. Raises `ConfigurationError`."""
    file = config_folder(environ) / KNOWN
    if not os.path.lexists(file):
        return []
    check_own_file(file)
    try:
        return msgspec.json.decode(read_file(file, MAX_KNOWN_CONFIGURATIONS_BYTES).data, type=list[str])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ConfigurationError(f"{file} is no list of paths", "delete it: accredit up asks again then") from None


def check_own_file(file: Path) -> None:
    """Check that nobody else can have written a file. Raises `ConfigurationError`."""
    fault = fault_of_file(file)
    if fault is not None:
        raise ConfigurationError(
            f"{one_line(str(file))} may be somebody else's: {fault.text}",
            "read it, and take the right to write there from others",
        )


def check_own_folder(folder: Path, remedy: str) -> None:
    """Check that nobody else can have put files into a folder. The folder need not exist. Raises
    `ConfigurationError`."""
    fault = fault_of_folder(folder)
    if fault is not None:
        raise ConfigurationError(f"what is in {folder} may be somebody else's: {fault.text}", remedy)


def fault_of_folder(folder: Path) -> OwnFault | None:
    """Return why a folder is not the user's own, or None."""
    real = Path(os.path.realpath(folder))
    return _fault_of_real(real) or _fault_of_links(folder)


def _fault_of_real(folder: Path, *, sticky_is_good: bool = False) -> OwnFault | None:
    """Return why a folder, whose path has no links, is not the user's own, or None."""
    for each in (folder, *folder.parents):
        try:
            found = os.stat(each)
        except FileNotFoundError:
            continue
        except OSError as error:
            return OwnFault(f"can't look at {each}: {error.strerror}")
        if not stat.S_ISDIR(found.st_mode):
            return OwnFault(f"{each} is no folder")
        fault = _fault(each, found, sticky_is_good=sticky_is_good or each != folder)
        if fault is not None:
            return fault
    return None


def _fault_of_links(path: Path) -> OwnFault | None:
    """Return why somebody else may decide where a path leads, or None."""
    try:
        for link in islice(_links(path), MAX_LINKS):
            if os.lstat(link).st_uid not in (os.geteuid(), 0):
                return OwnFault(f"{link} is another user's")
            fault = _fault_of_real(link.parent, sticky_is_good=True)
            if fault is not None:
                return fault
    except OSError as error:
        return OwnFault(f"can't look at {path}: {error.strerror}")
    return None


def _links(path: Path) -> Iterator[Path]:
    """Yield the symbolic links that are followed when a path is opened. The path of each link's folder has no links.
    Raises `OSError`."""
    there, left = Path("/"), [*reversed(path.absolute().parts[1:])]
    while left:
        step = left.pop()
        if step == os.pardir:
            there = there.parent
            continue
        there /= step
        if there.is_symlink():
            yield there
            target = there.readlink()
            left += reversed([each for each in target.parts if each != target.anchor])
            there = Path("/") if target.is_absolute() else there.parent


def fault_of_file(file: Path) -> OwnFault | None:
    """Return why an existing file is not the user's own, or None."""
    real = Path(os.path.realpath(file))
    try:
        found = os.stat(real)
    except OSError as error:
        return OwnFault(f"can't look at {file}: {error.strerror}")
    return _fault(real, found) or _fault_of_real(real.parent) or _fault_of_links(file)


def _fault(path: Path, found: os.stat_result, *, sticky_is_good: bool = False) -> OwnFault | None:
    if found.st_uid not in (os.geteuid(), 0):
        return OwnFault(f"{path} is another user's")
    writable = found.st_mode & 0o022
    if found.st_mode & 0o020 and _is_own_group(found.st_gid):
        writable &= ~0o020
    if writable and not (sticky_is_good and found.st_mode & stat.S_ISVTX):
        return OwnFault(f"others may write to {path}", f"chmod go-w {shlex.quote(str(path))}")
    return None


def _is_own_group(group: int) -> bool:
    """Return whether the group is the user's private group."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
        found = grp.getgrgid(group)
    except (KeyError, OSError):
        return False
    return found.gr_name == name and {*found.gr_mem} <= {name}
