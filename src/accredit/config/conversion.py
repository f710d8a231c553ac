"""What the plain reading of the configuration does not take: pydantic converts it, or says what is wrong. No I/O.

Each table is given a model of pydantic that declares the same. To load pydantic and build the models takes longer, and
more memory, than all else in the configuration: a gateway whose values are plain never does so.
"""

from functools import cache
from types import UnionType, new_class
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from accredit.config.fields import REQUIRED, Check, Key, NoSuchKey, ReadBy, Table

NO_SUCH_KEY = "extra_forbidden"
"""pydantic's error type for a key that a table does not have."""
NOT_A_TABLE = ("model_type", "dict_type")
MISSING = "missing"


def converted(table: type[Table], values: object, *, strict: bool) -> dict[str, Any]:
    """Return values that the plain reading takes. Raises `pydantic.ValidationError`."""
    return _model(table).model_validate(values, strict=strict).model_dump(warnings=False)


def json_schema(table: type[Table]) -> dict[str, Any]:
    """Return the JSON Schema of a table."""
    return _model(table).model_json_schema()


def faults(error: ValueError) -> list[ErrorDetails]:
    """Return what is wrong, of an error that `converted` raised. No value is quoted."""
    if not isinstance(error, ValidationError):
        raise error
    return error.errors(include_url=False, include_context=False, include_input=False)


@cache
def _model(table: type[Table]) -> type[BaseModel]:
    namespace: dict[str, Any] = {name: _field(table.model_fields[name]) for name in table.types}
    annotations = {name: _kind(kind) for name, kind in table.types.items()}
    if table.entries is not None:
        name, entry = table.entries
        annotations["__pydantic_extra__"] = dict[_kind(name), _kind(entry)]
        namespace["__pydantic_extra__"] = Field(init=False)
    extra: Literal["allow", "forbid"] = "forbid" if table.entries is None else "allow"
    namespace |= {
        "__annotations__": annotations,
        "__doc__": table.__doc__,
        "__module__": table.__module__,
        "model_config": ConfigDict(extra=extra, frozen=True, title=table.title),
    }
    return new_class(table.__name__, (BaseModel,), exec_body=lambda body: body.update(namespace))


def _field(declared: Key) -> Any:
    said = declared.bounds()
    if declared.description is not None:
        said["description"] = declared.description
    if declared.default is REQUIRED:
        return Field(**said)
    default = declared.default
    return Field(default=_model(type(default))() if isinstance(default, Table) else default, **said)


def _kind(kind: Any) -> Any:
    """Return a type as pydantic has to be told of it."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        notes = tuple(_note(note, arguments[0]) for note in arguments[1:])
        return Annotated[(_kind(arguments[0]), *notes)]
    if origin in (Union, UnionType):
        return Union[tuple(map(_kind, arguments))]  # noqa: UP007 - of as many as there are
    if origin is list:
        return list[_kind(arguments[0])]
    if origin is dict:
        return dict[_kind(arguments[0]), _kind(arguments[1])]
    return _model(cast("type[Table]", kind)) if _is_table(kind) else kind


def _is_table(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Table)


def _note(note: object, kind: Any) -> object:
    match note:
        case Key():
            return Field(**note.bounds())
        case ReadBy(read):
            return PlainValidator(read, json_schema_input_type=_kind(kind))
        case Check(check):
            return AfterValidator(_told(check))
        case _:
            return note


def _told(check: Any) -> Any:
    """Return a check that tells pydantic which of its errors says that there is no such key."""

    def checked(value: object) -> object:
        try:
            return check(value)
        except NoSuchKey as error:
            raise PydanticCustomError(NO_SUCH_KEY, "no such key") from error

    return checked
