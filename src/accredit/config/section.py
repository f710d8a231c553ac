"""A table of `accredit.toml`: what all of them have in common. No I/O."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, cast, get_args, get_origin, get_type_hints

from msgspec import Struct, to_builtins

from accredit.config.values import FileUse, Place, SecretFrom, check


class Section(Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file: unknown keys are refused."""

    def __post_init__(self) -> None:
        for key, kind in kinds(type(self)).items():
            check(kind, getattr(self, key), (key,))

    def items(self) -> Iterator[tuple[str, object]]:
        """Yield the keys and values, including user-chosen names."""
        yield from ((key, getattr(self, key)) for key in keys(type(self)))
        named = entries(type(self))
        if named is not None:
            yield from getattr(self, named.attribute).items()

    def members(self) -> dict[str, object]:
        """Return the table as written in a file, with all defaults."""
        return {
            key: value.members() if isinstance(value, Section) else to_builtins(value) for key, value in self.items()
        }


def keys(table: type[Section]) -> list[str]:
    """Return the keys of a table, in order."""
    named = entries(table)
    return [key for key in table.__struct_fields__ if named is None or key != named.attribute]


def description(table: type[Section], key: str) -> str:
    """Return a key's description; "" for an unknown key."""
    return next((note for note in get_args(kinds(table).get(key)) if isinstance(note, str)), "")


@cache
def kinds(section: type[Section]) -> dict[str, Any]:
    """Return the types of a table's keys, with bounds, checks and descriptions."""
    return get_type_hints(section, include_extras=True)


@cache
def file_uses(table: type[Struct]) -> Mapping[str, FileUse]:
    """Return the keys of a table that name files, and what these are for."""
    found = {key: _file_use(kind) for key, kind in get_type_hints(table, include_extras=True).items()}
    return {key: use for key, use in found.items() if use is not None}


def _file_use(kind: Any) -> FileUse | None:
    return kind if isinstance(kind, FileUse) else next(filter(None, map(_file_use, get_args(kind))), None)


def files_in(table: "Section | SecretFrom", place: Place) -> Iterator[tuple[Place, str, FileUse]]:
    """Yield each file and folder that a table itself names: its place, its value, and what it is for."""
    for key, use in file_uses(type(table)).items():
        value: str | list[str] | None = getattr(table, key)
        listed = value if isinstance(value, list) else ()
        names = [((*place, key), value)] if isinstance(value, str) else []
        names += [((*place, key, at), each) for at, each in enumerate(listed)]
        yield from ((where, name, use) for where, name in names if name and name.startswith(use.scheme))


def tables_in(value: object, place: Place) -> Iterator[tuple[Place, "Section | SecretFrom"]]:
    """Yield the tables that a value is, or holds, each with its place."""
    if isinstance(value, Section | SecretFrom):
        yield place, value
    if isinstance(value, Section | Mapping):
        for key, each in cast("Mapping[str, object]", value).items():
            yield from tables_in(each, (*place, key))
    elif isinstance(value, list):
        for at, each in enumerate(cast("list[object]", value)):
            yield from tables_in(each, (*place, at))


class Entries(NamedTuple):
    """How a section stores tables with user-chosen names: in which attribute, and the types of the names and of the
    tables."""

    attribute: str
    name: Any
    table: type[Section]


@cache
def entries(table: type[Section]) -> Entries | None:
    """Return how a section stores tables with user-chosen names: in its one attribute that maps names to tables. Return
    None if it has none."""
    for attribute, kind in kinds(table).items():
        inner = get_args(kind)
        if get_origin(kind) is dict and isinstance(inner[1], type) and issubclass(inner[1], Section):
            return Entries(attribute, *inner)
    return None


def table_in(kind: Any) -> type[Section] | None:
    """Return the kind of the tables that a key of this type holds: one, or a list of them. None if it holds none."""
    if isinstance(kind, type):
        return kind if issubclass(kind, Section) else None
    return next(filter(None, map(table_in, get_args(kind))), None)


def tables_of(table: type[Section]) -> Iterator[type[Section]]:
    """Yield a kind of table, and all kinds that may be below it."""
    yield table
    for each in filter(None, map(table_in, kinds(table).values())):
        yield from tables_of(each)
