"""A table of `accredit.toml` as a value: keys that are attributes, read once and never changed. No I/O.

A subclass of `Section` declares its keys as a model of pydantic does, and its methods are named as there. It does not
cost what a model costs: pydantic is loaded only for a value that the plain reading (`accredit.config.fields`) does not
take, in order to convert it, or to say what is wrong with it. Where the plain reading says yes, both give the same.
"""

from collections.abc import Iterator, Mapping
from inspect import get_annotations
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn, Self, cast, dataclass_transform

from accredit.base.deferred import Deferred
from accredit.config.fields import REQUIRED, Field, Key, Reader, Table, reader

if TYPE_CHECKING:
    from accredit.config import conversion
else:
    conversion = Deferred("accredit.config.conversion")


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
class Section(Table):
    """A table of the file: unknown keys are refused, unless `entries` says of which types names and values are."""

    _readers: ClassVar[Mapping[str, Reader]] = {}
    _entry_readers: ClassVar[tuple[Reader, Reader] | None] = None
    _entries: dict[str, Any]

    def __init_subclass__(cls, *, entries: tuple[Any, Any] | None = None, title: str = "") -> None:
        own = get_annotations(cls)
        fields = {name: _declared(cls.__dict__.get(name, REQUIRED)) for name in own}
        for name in fields.keys() & cls.__dict__.keys():
            delattr(cls, name)  # an instance has its own, and the class none
        cls.types = {**cls.types, **own}
        cls.model_fields = {**cls.model_fields, **fields}
        cls._readers = {name: reader(Annotated[kind, cls.model_fields[name]]) for name, kind in cls.types.items()}
        cls.title = title or cls.__name__
        if entries is not None:
            cls.entries, cls._entry_readers = entries, (reader(entries[0]), reader(entries[1]))

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(self.model_validate(values).__dict__)

    @classmethod
    def model_validate(cls, values: object, *, strict: bool = False) -> Self:
        """Return the table with these values. Unless it is `strict`, text is converted to what a key holds.

        Raises pydantic's `ValidationError`, which is a `ValueError`.
        """
        try:
            return cls.plainly(values)
        except ValueError:
            return cls.plainly(conversion.converted(cls, values, strict=strict))

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        """Return the JSON Schema of such a table."""
        return conversion.json_schema(cls)

    @classmethod
    def plainly(cls, values: object) -> Self:
        """Return the table with values that need no conversion. Raises `ValueError` for others, and says nothing."""
        if not isinstance(values, dict):
            raise ValueError
        given = {**cast("dict[str, object]", values)}
        found = {
            name: read(given.pop(name)) if name in given else _default(cls.model_fields[name])
            for name, read in cls._readers.items()
        }
        table = cls.__new__(cls)
        table.__dict__.update(found, _entries=cls._entries_of(given))
        return table

    @classmethod
    def _entries_of(cls, values: dict[str, object]) -> dict[str, Any]:
        if cls._entry_readers is None and values:
            raise ValueError
        read_name, read_entry = cls._entry_readers or (str, str)
        return {str(read_name(name)): read_entry(value) for name, value in values.items()}

    def model_dump(self, *, exclude_defaults: bool = False) -> dict[str, Any]:
        """Return the table, and those in it, as dictionaries."""
        return {
            name: _data(value)
            for name, value in self
            if not exclude_defaults or name not in self.model_fields or value != self.model_fields[name].default
        }

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        yield from ((name, getattr(self, name)) for name in self.types)
        yield from self._entries.items()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    __hash__ = None  # pyright: ignore[reportAssignmentType] - it holds lists

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{self.title} is read-only")


def _declared(given: Any) -> Key:
    return given if isinstance(given, Key) else Key(default=given)


def _default(key: Key) -> object:
    if key.default is REQUIRED:
        raise ValueError
    return key.default


def _data(value: object) -> object:
    if isinstance(value, Section):
        return value.model_dump()
    if isinstance(value, list):
        return [_data(each) for each in cast("list[object]", value)]
    if isinstance(value, dict):
        return {name: _data(each) for name, each in cast("dict[str, object]", value).items()}
    return value
