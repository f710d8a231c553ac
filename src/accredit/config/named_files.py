"""Lists the files, folders and variables that a configuration names: each key whose type holds a `FileUse`. No I/O.

The schema says which keys these are, and what each file is for. Files beside the
configuration that it does not name (`gateway.key`, `identity.key`, `accredit.lock`) are not listed, nor is what a
command opens.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from accredit.config.load import Loaded
from accredit.config.problems import dotted_name
from accredit.config.schema import SECTIONS
from accredit.config.section import Section, files_in, tables_in
from accredit.config.values import FileUse, Place, SecretFrom


class NamedFile(NamedTuple):
    """A file or folder, and the place and the table of the key that names it. `is_needed` says whether a gateway can't
    do without it."""

    place: Place
    path: Path
    use: FileUse
    table: Section | SecretFrom
    is_needed: bool

    @property
    def name(self) -> str:
        """The key as errors name it, such as `proofs.roots[0].public_key_file`. Of a table `{ file = "NAME" }`, that is
        the table's name."""
        return dotted_name(self.place[:-1] if self.place[-1] == "file" else self.place)

    @property
    def key(self) -> str:
        """The key without the numbers in lists, such as `proofs.roots.public_key_file`."""
        return ".".join(step for step in self.place if isinstance(step, str))


def named_files(loaded: Loaded) -> Iterator[NamedFile]:
    """Yield the files and folders that a configuration names, in the schema's order, also those of sections that are
    off."""
    for place, table, is_on in _tables(loaded):
        for where, name, use in files_in(table, place):
            folder = loaded.folder_of((str(where[0]), str(where[1]))) if use.scheme else Path.cwd()
            yield NamedFile(where, folder / name.removeprefix(use.scheme), use, table, is_on and not use.is_written)


def named_variables(loaded: Loaded) -> Iterator[tuple[str, str]]:
    """Yield the keys whose values come from the environment, and the variables, without sections that are off."""
    for place, table, is_on in _tables(loaded):
        if is_on and isinstance(table, SecretFrom) and table.env:
            yield dotted_name(place), table.env


def _tables(loaded: Loaded) -> Iterator[tuple[Place, Section | SecretFrom, bool]]:
    """Yield every table with its place, and whether its section is on."""
    for name in SECTIONS:
        section: Section = getattr(loaded.config, name)
        is_on = getattr(section, "mode", "") != "off" and getattr(section, "enabled", True)
        yield from ((place, table, is_on) for place, table in tables_in(section, (name,)))
