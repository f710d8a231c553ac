"""Makes a tool's arguments from shell words, with types from the tool's input schema. No I/O.

A word becomes the first of these that the schema allows for the argument:

- a string, also if the schema says nothing about the argument;
- `null`, `true`, `false`, an integer or a number, if it is written as in JSON;
- an array or an object, if it is written in JSON. Where an array is allowed, several words of one name are its
  elements, and so is a single word that is not a JSON array.

Not checked: anything else that a schema may require. The server does that.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn, cast

from accredit.base.values import items_of, members_of
from accredit.errors import ConfigurationError

MAX_SCHEMA_STEPS = 32
"""The most references in a tool's input schema that are followed for one argument of `accredit call`. Circular ones end
here."""


_Schema = Mapping[str, object]

_ANYTHING = frozenset({"string", "null", "boolean", "integer", "number", "array", "object"})
_NAMES: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}
_AN_OBJECT = 'write an object, such as {"to": "ada@example.org"}'
_UNIONS = ("anyOf", "oneOf")


def parse_arguments(tool: str, words: Iterable[str], given: Mapping[str, object], schema: _Schema) -> dict[str, object]:
    """Return a call's arguments: those in `given` (from JSON, unchanged), and those in the NAME=VALUE words. Raises
    `ConfigurationError`."""
    spoken: dict[str, list[str]] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise ConfigurationError(f"--arg {word}: no argument", "write NAME=VALUE; NAME= is the empty text")
        if name in given:
            raise ConfigurationError(f"--arg {name}: it is in --json-args as well", "keep one of them")
        spoken.setdefault(name, []).append(value)
    arguments = {**given, **{name: _argument(tool, name, values, schema) for name, values in spoken.items()}}
    missing = [name for name in _texts(schema.get("required")) if name not in arguments]
    if missing:
        raise ConfigurationError(
            f"{tool} needs {', '.join(missing)}", f"name {'it' if len(missing) == 1 else 'them'}: {_usage(missing)}"
        )
    return arguments


def json_object(data: bytes, where: str) -> dict[str, object]:
    """Read `--json-args`: a JSON object without repeated names. Raises `ConfigurationError`."""
    try:
        value: object = json.loads(data, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"--json-args {where}: not JSON ({error})", _AN_OBJECT) from None
    if not isinstance(value, dict):
        raise ConfigurationError(f"--json-args {where}: not a JSON object", _AN_OBJECT)
    return cast("dict[str, object]", value)


def _argument(tool: str, name: str, values: Sequence[str], schema: _Schema) -> object:
    own = _resolve_schema(_property(tool, name, schema), schema)
    kinds = _kinds(own, schema)
    if "string" in kinds and len(values) == 1:
        return _check_choice(name, values[0], own)
    if "array" in kinds:
        whole = _json(values[0]) if len(values) == 1 else None
        if isinstance(whole, list):
            return cast("list[object]", whole)
        if len(values) > 1 or len(kinds) == 1:
            items = _resolve_schema(members_of(own.get("items")), schema)
            return [_one(name, value, items, _kinds(items, schema)) for value in values]
    if len(values) > 1:
        raise ConfigurationError(f"--arg {name} is given {len(values)} times, and is no list", "give it once")
    return _one(name, values[0], own, kinds)


def _property(tool: str, name: str, schema: _Schema) -> _Schema:
    known = members_of(schema.get("properties"))
    if name in known:
        return members_of(known[name])
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        return cast("_Schema", more)
    if more is True or (more is None and not known):
        return {}
    near = get_close_matches(name, known, n=1)
    hint = f"is {near[0]} meant? " if near else ""
    raise ConfigurationError(f"{tool} takes no argument {name}", f"{hint}it takes {', '.join(known) or 'none'}")


def _one(name: str, value: str, schema: _Schema, kinds: frozenset[str]) -> object:
    if "string" in kinds:
        return _check_choice(name, value, schema)
    decoded = _json(value)
    kind = "null" if decoded is None else _NAMES[type(decoded)]
    if isinstance(decoded, _NotJson) or not (kind in kinds or (kind == "integer" and "number" in kinds)):
        raise ConfigurationError(
            f"--arg {name}={value}: not {_a(sorted(kinds))}", _EXAMPLES[min(kinds, key=sorted(_EXAMPLES).index)]
        )
    return _check_choice(name, decoded, schema)


_EXAMPLES = {
    "array": """write JSON, such as '["a", "b"]', or repeat --arg NAME=VALUE for each element""",
    "boolean": "write true or false",
    "integer": "write a whole number, such as 5",
    "null": "write null",
    "number": "write a number, such as 12.5",
    "object": """write JSON, such as '{"name": "value"}', or name a file with --json-args""",
}


def _check_choice(name: str, value: object, schema: _Schema) -> object:
    """Return the value if the schema has no `enum`, or one that contains it. A word may stand for a number in the
    `enum`. Raises `ConfigurationError`."""
    listed = cast("list[object]", schema["enum"]) if isinstance(schema.get("enum"), list) else None
    if listed is None or any(each == value and type(each) is type(value) for each in listed):
        return value
    if isinstance(value, str):
        for each in listed:
            if not isinstance(each, str) and json.dumps(each) == value:
                return each
    raise ConfigurationError(
        f"--arg {name}={value}: there is no such choice", f"it is one of {', '.join(map(str, listed))}"
    )


def _kinds(schema: _Schema, root: _Schema) -> frozenset[str]:
    """Return the types that a schema allows; all types if it doesn't say."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return frozenset({kind}) & _ANYTHING or _ANYTHING
    if isinstance(kind, list):
        return frozenset(_texts(cast("object", kind))) & _ANYTHING or _ANYTHING
    listed: list[object] = items_of(schema.get("enum", [schema["const"]] if "const" in schema else None))
    if listed:
        return frozenset("null" if each is None else _NAMES.get(type(each), "string") for each in listed)
    for union in _UNIONS:
        if several := items_of(schema.get(union)):
            options = [_resolve_schema(members_of(each), root) for each in several]
            if not any(name in option for option in options for name in _UNIONS):
                return frozenset[str]().union(*(_kinds(option, root) for option in options))
    return _ANYTHING


def _resolve_schema(schema: _Schema, root: _Schema) -> _Schema:
    """Resolve local references in a schema."""
    for _ in range(MAX_SCHEMA_STEPS):
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        found: object = root
        for step in reference[2:].split("/"):
            found = members_of(found).get(step.replace("~1", "/").replace("~0", "~"))
        schema = members_of(found)
    return {}


class _NotJson:
    """Marks a word that is not a JSON value."""


_NAMES[_NotJson] = ""


def _json(text: str) -> object:
    try:
        value: object = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return _NotJson()
    return _NotJson() if isinstance(value, float) and not math.isfinite(value) else value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name is twice in an object")
    return members


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _texts(value: object) -> list[str]:
    return [each for each in items_of(value) if isinstance(each, str)]


def _a(kinds: Sequence[str]) -> str:
    return " or ".join(f"{'an' if kind[0] in 'aio' else 'a'} {kind}" for kind in kinds)


def _usage(names: Sequence[str]) -> str:
    return " ".join(f"--arg {name}=VALUE" for name in names)
