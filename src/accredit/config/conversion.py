"""Converts a file's tables to a `Config`. Errors name the place of a missing, unknown, mistyped or out-of-range value,
and never quote it. No I/O."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec.structs import replace

from accredit.config.schema import LISTED, SECTIONS, Config
from accredit.config.section import Section, description, entries, keys, kinds, table_in, tables_of
from accredit.config.values import MAX_QUOTAS, NO_SUCH_KEY, Place, WrongValue, check

_AT = re.compile(r"(.*) - at `\$([^`]*)`", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
_KEY = re.compile(r"Object (contains unknown|missing required) field `(.*)`", re.DOTALL)
_EXPECTED = re.compile(r"Expected `([^`]*)`(.*?)(, got `[^`]*`)?", re.DOTALL)
_WORDS = {"int": "an integer", "float": "a number", "str": "text", "bool": "true or false", "array": "a list",
          "object": "a table"}  # fmt: skip


_S = TypeVar("_S", bound=Section)


def convert_tables(tables: Mapping[str, object], *, strict: bool) -> Config:
    """Return the configuration. If not `strict`, values given as text are converted to the key's type. Raises
    `WrongValue`."""
    sections: dict[str, Any] = {name: _section(name, table, strict=strict) for name, table in tables.items()}
    return Config(**sections)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of `accredit.toml`."""
    schema = msgspec.json.schema(Config)
    for table in {each for section in SECTIONS.values() for each in tables_of(section)}:
        told, named = schema["$defs"][table.__name__], entries(table)
        for key, said in told["properties"].items():
            if description(table, key):
                said["description"] = description(table, key)
        if named is not None:
            told["additionalProperties"] = told["properties"].pop(named.attribute)["additionalProperties"]
    for section in LISTED:
        kind = SECTIONS[section]
        items = schema["$defs"].pop(kind.__name__)["additionalProperties"]
        schema["$defs"][Config.__name__]["properties"][section] = {
            "type": "array",
            "items": items,
            "maxItems": MAX_QUOTAS,
        }
    return {"title": "accredit.toml", **schema["$defs"].pop(Config.__name__), "$defs": schema["$defs"]}


def _section(name: str, table: object, *, strict: bool) -> Section:
    if name not in SECTIONS:
        raise WrongValue((name,), NO_SUCH_KEY)
    return _table(table, SECTIONS[name], (name,), strict=strict)


def _table(table: object, kind: type[Section], place: Place, *, strict: bool) -> Section:
    """Convert a table. Tables with user-chosen names in it are converted one by one."""
    named = entries(kind)
    given = cast("dict[str, object] | None", table if isinstance(table, dict) else None)
    within = {key: table_in(kinds(kind)[key]) for key in keys(kind)}
    inner = {key: each for key, each in within.items() if each is not None and entries(each) is not None}
    if given is None or (named is None and not inner):
        return _convert(cast("object", table), kind, place, strict=strict)
    below = {key: value for key, value in given.items() if key in inner}
    others = {key: value for key, value in given.items() if key not in within} if named is not None else {}
    own = {key: value for key, value in given.items() if key not in below and key not in others}
    section = _convert(own, kind, place, strict=strict)
    changes: dict[str, object] = {
        key: _table(value, inner[key], (*place, key), strict=strict) for key, value in below.items()
    }
    if named is not None:
        for key in others:
            check(named.name, key, (*place, key))
        changes[named.attribute] = {
            key: _table(value, named.table, (*place, key), strict=strict) for key, value in others.items()
        }
    return replace(section, **changes)


def _convert(value: object, kind: type[_S], place: Place, *, strict: bool) -> _S:
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise _wrong(error, value, kind, place, strict=strict) from None


def _wrong(
    error: msgspec.ValidationError, value: object, kind: type[Section], place: Place, *, strict: bool
) -> WrongValue:
    """Return msgspec's error in our words, as its own may quote a value."""
    match = _AT.fullmatch(str(error))
    text, path = match.groups() if match else (str(error), "")
    steps: list[int | str] = [
        name or (int(number) if number.isdigit() else _find_wrong_entry(value, kind, strict=strict))
        for name, number in _STEP.findall(path)
    ]
    place += (*steps,)
    if isinstance(error.__cause__, WrongValue):
        return WrongValue((*place, *error.__cause__.place), error.__cause__.text)
    if key := _KEY.fullmatch(text):
        return WrongValue((*place, key[2]), NO_SUCH_KEY if key[1] == "contains unknown" else "should be given")
    if expected := _EXPECTED.fullmatch(text):
        words = [_WORDS.get(each, each) for each in expected[1].split(" | ") if each != "null"]
        return WrongValue(place, f"should be {' or '.join(words)}{expected[2]}")
    if text.startswith("Invalid enum value"):
        words = [f'"{word}"' for word in _literals(kinds(kind)[str(steps[0])])]
        return WrongValue(place, f"should be {' or '.join(words)}")
    return WrongValue(place, "should be within the bounds of its type")


def _find_wrong_entry(value: object, kind: type[Section], *, strict: bool) -> str:
    """Return the user-chosen name of the table with the wrong value: msgspec's error does not say it."""
    for key, table in cast("dict[str, object]", value).items():
        for name, inner in cast("dict[str, object]", table).items() if isinstance(table, dict) else ():
            try:
                msgspec.convert({key: {name: inner}}, kind, strict=strict)
            except msgspec.ValidationError as error:
                if f"$.{key}[...]" in str(error):
                    return name
    return "..."


def _literals(kind: Any) -> Iterator[str]:
    if get_origin(kind) is Literal:
        yield from get_args(kind)
    else:
        for inner in get_args(kind):
            yield from _literals(inner)
