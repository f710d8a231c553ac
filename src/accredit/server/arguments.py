"""Reads arguments as a tool will get them. No I/O, except by the validators of the tool's own types.

Constraints are evaluated for the arguments that a client wrote. But a tool's types may read an argument under another
name (an alias), or convert it. If `amount` had a second name, 5,000 could be paid on a delegation of at most 10. So
arguments under a constraint are read here with the same types, and named as in the tool's schema:

- [written-form] If each written argument has a name that the schema lists, and reaches the tool with its value, perhaps
  of another type (`"5"` for 5), only the written arguments are judged.
- [real-form] Otherwise the arguments as the tool gets them are judged as well.
- [no-form] A value without a JSON form is left out: no constraint on it can be verified.
- [type-errors] Arguments that the types refuse never reach the tool.

Not checked: defaults, which no client has written; types that read the same arguments in different ways at different
times; what the tool does with its arguments.
"""

import dataclasses
import datetime
import inspect
import uuid
from collections.abc import Callable, Mapping, Set
from decimal import Decimal
from enum import Enum
from functools import lru_cache, partial
from pathlib import PosixPath, PurePosixPath
from typing import Any, NamedTuple, cast, get_type_hints

from pydantic import AliasChoices, AliasPath, BaseModel, RootModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

MAX_REMEMBERED_SIGNATURES = 1_024
"""For how many functions of a guarded server the parameters and their readers are cached, at some 10 KiB each. That is
more tools than a model is offered."""


Read = Callable[[Mapping[str, object]], Mapping[str, object] | None]
"""Returns written arguments as the tool gets them, in JSON's types. Returns None if they are unchanged, or refused.
Other errors of validators are raised."""

_PLAIN = (bool, int, float, Decimal, str, bytes, datetime.datetime, datetime.date, datetime.time, datetime.timedelta)
_READERS: dict[type, TypeAdapter[Any]] = {
    each: TypeAdapter[Any](each) for each in (*_PLAIN, uuid.UUID, PurePosixPath, PosixPath)
}
"""The types that read a text or a number in the usual way. An author's own types could read them differently."""


class _Parameters(NamedTuple):
    fields: Mapping[str, FieldInfo]
    adapter: TypeAdapter[Any]


class _Call(NamedTuple):
    """The arguments of a function's call."""

    fields: Mapping[str, FieldInfo]
    values: Mapping[str, object]


def read_arguments(written: Mapping[str, object], read: Callable[[], object]) -> Mapping[str, object] | None:
    """Call `read`, which reads the written arguments with the tool's types. Return the arguments as the tool gets them,
    or None if they are unchanged or refused."""
    try:
        value = read()
    except ValidationError:
        return None  # [type-errors]
    return None if _is_as_written(written, value) else cast("Mapping[str, object]", _json(value))


def reading_of(function: Callable[..., Any], bared: Callable[..., Callable[..., Any]]) -> Read:
    """Return a reader of a function's arguments. `bared` removes the parameters that the server supplies; pydantic
    reads the rest."""
    return lambda written: read_arguments(written, lambda: _build_call(_parameters(function, bared), written))


def _build_call(parameters: _Parameters, written: Mapping[str, object]) -> _Call:
    return _Call(parameters.fields, parameters.adapter.validate_python(written))


@lru_cache(MAX_REMEMBERED_SIGNATURES)
def _parameters(function: Callable[..., Any], bared: Callable[..., Callable[..., Any]]) -> _Parameters:
    def called(**values: object) -> Mapping[str, object]:
        return values

    function = bared(function)
    signature = inspect.signature(function, eval_str=True)
    hints = {} if isinstance(function, partial) else get_type_hints(function, include_extras=True)
    types = {
        name: hints.get(name, Any if each.annotation is each.empty else each.annotation)
        for name, each in signature.parameters.items()
    }
    vars(called).update(__signature__=signature)
    called.__annotations__ = types
    fields = {name: _field(types[name], each.default) for name, each in signature.parameters.items()}
    return _Parameters(fields, TypeAdapter(cast("Any", called)))


def _field(annotation: Any, default: Any) -> FieldInfo:
    if default is inspect.Parameter.empty:
        return FieldInfo.from_annotation(annotation)
    return FieldInfo.from_annotated_attribute(annotation, default)


def _is_as_written(written: object, value: object) -> bool:
    """Return whether a value is as written ([written-form])."""
    if isinstance(value, RootModel):
        return _is_as_written(written, cast("RootModel[object]", value).root)
    members = _members(value)
    if members is not None:
        return isinstance(written, dict) and all(
            name in members and _is_as_written(inner, members[name])
            for name, inner in cast("dict[str, object]", written).items()
        )
    if isinstance(value, list | tuple):
        items = cast("list[object] | tuple[object, ...]", value)
        return (
            isinstance(written, list)
            and len(cast("list[object]", written)) == len(items)
            and all(map(_is_as_written, cast("list[object]", written), items))
        )
    if isinstance(value, Enum):
        return _is_as_written(written, value.value)
    return value is written is None or _is_read_as(written, value)


def _is_read_as(written: object, value: object) -> bool:
    reader = _READERS.get(type(value))
    try:
        return reader is not None and reader.validate_python(written) == value
    except ValidationError:
        return False


def _members(value: object) -> Mapping[str, object] | None:
    """Return an object's members, by the names that a schema lists; None if the value is not an object."""
    match value:
        case _Call(fields, values):
            # A function's schema lists a parameter with several aliases by its own name.
            return {_alias(fields[name].validation_alias) or name: inner for name, inner in values.items()}
        case BaseModel():
            values = {**value.__dict__, **(value.model_extra or {})}
            return _by_listed_names(type(value).model_fields, values)
        case Mapping():
            return {str(name): inner for name, inner in cast("Mapping[object, object]", value).items()}
        case _ if dataclasses.is_dataclass(value):
            values = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
            return _by_listed_names(getattr(value, "__pydantic_fields__", {}), values)
        case _:
            return None


def _by_listed_names(fields: Mapping[str, FieldInfo], values: Mapping[str, object]) -> Mapping[str, object]:
    return {_listed_name(name, fields[name]) if name in fields else name: value for name, value in values.items()}


def _listed_name(name: str, field: FieldInfo) -> str:
    """Return the name under which a schema lists a field: its first alias that is a single name."""
    alias = field.validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    return next((found for each in choices if (found := _alias(each))), name)


def _alias(alias: str | AliasPath | AliasChoices | None) -> str:
    if isinstance(alias, AliasPath) and len(alias.path) == 1:
        return str(alias.path[0])
    return alias if isinstance(alias, str) else ""


_ANYTHING = TypeAdapter[Any](Any)
_NOTHING = object()


def _json(value: object) -> object:
    """Return a value in JSON's types; `_NOTHING` for one without such a form ([no-form])."""
    if isinstance(value, RootModel):
        return _json(cast("RootModel[object]", value).root)
    members = _members(value)
    if members is not None:
        made = {name: _json(inner) for name, inner in members.items()}
        return {name: inner for name, inner in made.items() if inner is not _NOTHING}
    if isinstance(value, list | tuple | Set):
        items = map(_json, cast("list[object]", value))
        return [None if each is _NOTHING else each for each in items]
    match value:
        case Enum():
            return _json(value.value)
        case Decimal():
            return float(value)
        case _:
            try:
                return _ANYTHING.dump_python(value, mode="json")
            except ValueError:
                return _NOTHING
