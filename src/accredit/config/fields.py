"""How tables of `accredit.toml` are declared, and the plain reading of a value. No I/O.

The plain reading takes a value that has exactly the declared type and is within its bounds, as almost every value of
almost every file is. It says no more than yes or no: what to do about a no is `accredit.config.conversion`'s to say,
which takes longer to load than all the rest of the configuration.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Union, cast, get_args, get_origin

Reader = Callable[[object], object]
"""Returns a value as the configuration holds it. Raises `ValueError` for one that is not plain."""

REQUIRED = object()
"""The default of a key that has to be given."""


@dataclass(frozen=True, slots=True, eq=False)
class Key:
    """What is said of a key, or of a type: its default, its bounds, and how the sentence "KEY is ..." ends."""

    default: Any = REQUIRED
    description: str | None = None
    ge: int | None = None
    le: int | None = None
    gt: int | None = None
    min_length: int | None = None
    pattern: str | None = None
    allow_inf_nan: bool | None = None

    def bounds(self) -> dict[str, Any]:
        """Return what bounds the value."""
        names = ("ge", "le", "gt", "min_length", "pattern", "allow_inf_nan")
        return {name: found for name in names if (found := getattr(self, name)) is not None}

    def admits(self, value: Any) -> bool:
        """Return whether a value of the right type is within the bounds."""
        return (
            (self.ge is None or value >= self.ge)
            and (self.le is None or value <= self.le)
            and (self.gt is None or value > self.gt)
            and (self.min_length is None or len(value) >= self.min_length)
            and (self.pattern is None or re.fullmatch(self.pattern, value) is not None)
            and (self.allow_inf_nan is not False or math.isfinite(value))
        )


def Field(
    *,
    default: Any = REQUIRED,
    description: str | None = None,
    ge: int | None = None,
    le: int | None = None,
    gt: int | None = None,
    min_length: int | None = None,
    pattern: str | None = None,
    allow_inf_nan: bool | None = None,
) -> Any:
    """Return a `Key`, typed so that it can stand where a key's default would."""
    return Key(default, description, ge, le, gt, min_length, pattern, allow_inf_nan)


class Check(NamedTuple):
    """A rule for values of a type: `check` returns the value, or raises `ValueError` with the end of "KEY ..."."""

    check: Callable[[Any], object]


class ReadBy(NamedTuple):
    """A type with a way of its own to be read: `read` takes any value, else as `Check`."""

    read: Reader


class NoSuchKey(ValueError):
    """A name that is no key of its table."""


class Table:
    """A table of the file. `accredit.config.tables.Section` gives it its behaviour."""

    model_fields: ClassVar[Mapping[str, Key]] = {}
    types: ClassVar[Mapping[str, Any]] = {}
    entries: ClassVar[tuple[Any, Any] | None] = None
    """The types of the names and the values of what may stand in the table beside its keys."""
    title: ClassVar[str] = ""


def reader(kind: Any) -> Reader:
    """Return the plain reading of values that are declared as `kind`."""
    if kind in _SCALARS:
        return _SCALARS[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotated(arguments[0], arguments[1:])
    if origin is Literal:
        return _one_of(arguments)
    if origin in (Union, UnionType):
        return _first_of([reader(each) for each in arguments])
    if origin is list:
        return _list_of(reader(arguments[0]))
    if origin is dict:
        return _dict_of(reader(arguments[0]), reader(arguments[1]))
    return _table(kind)


def _text(value: object) -> str:
    if type(value) is not str:
        raise ValueError
    value.encode()  # half a surrogate pair, which only JSON can hold, raises a ValueError, too
    return value


def _integer(value: object) -> int:
    if type(value) is not int:
        raise ValueError
    return value


def _number(value: object) -> float:
    if type(value) is float:
        return value
    try:
        return float(_integer(value))
    except OverflowError:
        raise ValueError from None


def _boolean(value: object) -> bool:
    if type(value) is not bool:
        raise ValueError
    return value


def _nothing(value: object) -> None:
    if value is not None:
        raise ValueError


_SCALARS: dict[Any, Reader] = {str: _text, int: _integer, float: _number, bool: _boolean, NoneType: _nothing}


def _annotated(kind: Any, notes: tuple[object, ...]) -> Reader:
    own = next((note.read for note in notes if isinstance(note, ReadBy)), None)
    inner = own or reader(kind)

    def read(value: object) -> object:
        value = inner(value)
        for note in notes:
            if isinstance(note, Check):
                value = note.check(value)
            elif isinstance(note, Key) and not note.admits(value):
                raise ValueError
        return value

    return read


def _one_of(values: tuple[object, ...]) -> Reader:
    def read(value: object) -> object:
        if type(value) is not str or value not in values:
            raise ValueError
        return value

    return read


def _first_of(readers: list[Reader]) -> Reader:
    def read(value: object) -> object:
        for each in readers:
            try:
                return each(value)
            except ValueError:
                continue
        raise ValueError

    return read


def _list_of(item: Reader) -> Reader:
    def read(value: object) -> object:
        if type(value) is not list:
            raise ValueError
        return [item(each) for each in cast("list[object]", value)]

    return read


def _dict_of(name: Reader, item: Reader) -> Reader:
    def read(value: object) -> object:
        if type(value) is not dict:
            raise ValueError
        return {name(key): item(each) for key, each in cast("dict[object, object]", value).items()}

    return read


def _table(kind: Any) -> Reader:
    def read(value: object) -> object:
        if type(value) is not dict:
            raise ValueError
        return kind.plainly(cast("dict[str, object]", value))

    return read
