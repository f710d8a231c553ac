"""The restricted JSON Schema of a form (2026-07-28, client/elicitation, "Requested Schema"). No I/O.

Checked in this order; the first fault raises `ValueError`, with the field's name if it is about one field:

- [flat] the schema is one object without nesting: `type`, `properties`, `required`, and texts for people;
- [fields] each field has one of the types below, and only keywords of that type;
- [values] each keyword has a value of the right kind;
- [defaults] a default is a value that the field may have (`minimum`, lengths and formats are not checked for it).

A field is a string (possibly with a format, or with a choice of values), a number, an integer, a boolean, or a choice
of several values from a list.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

_FORMATS = frozenset({"email", "uri", "date", "date-time"})
_FORM_KEYWORDS = frozenset({"$schema", "type", "properties", "required", "title", "description"})
_EVERY_FIELD = frozenset({"type", "title", "description", "default"})
_TEXTS = frozenset({"$schema", "title", "description"})


class _Generator(GenerateJsonSchema):
    # A field that JSON Schema can't express gets no type, so that `check_form` refuses it by its name; a default that
    # it can't express is left to the model.

    def handle_invalid_for_json_schema(self, schema: object, error_info: str) -> JsonSchemaValue:
        return {}

    def emit_warning(self, kind: object, detail: str) -> None:
        pass


def form_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the form for a model. Its fields are named by their aliases, and `X | None` is treated as X. Raises
    `ValueError`."""
    schema = model.model_json_schema(schema_generator=_Generator)
    definitions = schema.get("$defs", {})
    fields = _resolve(schema, definitions).get("properties", {})
    form = {"type": "object", "properties": {name: _plain(field, definitions) for name, field in fields.items()}}
    if schema.get("required"):
        form["required"] = schema["required"]
    check_form(form)
    return form


def check_form(schema: Mapping[str, Any]) -> None:
    """Check the rules from [flat] to [defaults]. Raises `ValueError`."""
    surplus = schema.keys() - _FORM_KEYWORDS - {"additionalProperties"}
    if surplus:
        raise ValueError(f"a form has no {min(surplus)!r}")
    if schema.get("type") != "object":
        raise ValueError('a form has "type": "object"')
    properties = schema.get("properties")
    if not _is_object(properties):
        raise ValueError('a form has "properties"')
    required = schema.get("required", [])
    if not _is_texts(required) or not set(required) <= properties.keys():
        raise ValueError('"required" names fields of the form')
    for name, field in properties.items():
        fault = _field_fault(field)
        if fault:
            raise ValueError(f"field {name!r} {fault}")


def _field_fault(field: object) -> str | None:
    if not _is_object(field):
        return "is not an object"
    keywords = _keywords_of(field)
    if keywords is None:
        return "has a type that a form can't ask for"
    surplus = field.keys() - keywords.keys() - _EVERY_FIELD
    if surplus:
        return f"has {min(surplus)!r}, which a form can't express"
    for keyword, value in field.items():
        check = keywords.get(keyword, _is_text if keyword in _TEXTS else None)
        if check is not None and not check(value):
            return f"has a {keyword!r} that is not one"
    if "default" in field and not _may_be(field, field["default"]):
        return "has a default that it may not have"
    return None


def _keywords_of(field: Mapping[str, Any]) -> Mapping[str, "_Check"] | None:
    match field.get("type"):
        case "string":
            choice = next((keyword for keyword in ("enum", "oneOf") if keyword in field), "")
            return _STRINGS[choice]
        case "array" if "items" in field:
            return _CHOICES
        case "number" | "integer":
            return _NUMBERS
        case "boolean":
            return {}
        case _:
            return None


def _may_be(field: Mapping[str, Any], value: object) -> bool:
    match field["type"]:
        case "string":
            return _is_text(value) and (not _has_options(field) or value in _options(field))
        case "array":
            return _is_texts(value) and set(value) <= _options(field["items"])
        case "integer":
            return _is_number(value) and value == int(value)
        case "number":
            return _is_number(value)
        case _:
            return isinstance(value, bool)


def _has_options(field: Mapping[str, Any]) -> bool:
    return "enum" in field or "oneOf" in field


def _options(field: Mapping[str, Any]) -> set[str]:
    titled: Sequence[Mapping[str, str]] = field.get("oneOf") or field.get("anyOf") or ()
    return {*field.get("enum", []), *(option["const"] for option in titled)}


def _is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str)


def _is_array(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, list | tuple)


def _is_texts(value: object) -> TypeGuard[Sequence[str]]:
    return _is_array(value) and all(isinstance(text, str) for text in value)


def _is_number(value: object) -> TypeGuard[int | float]:
    # The difference is not 0 for an infinity or a NaN, which JSON does not have.
    return isinstance(value, int | float) and not isinstance(value, bool) and value - value == 0


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_format(value: object) -> bool:
    return _is_text(value) and value in _FORMATS


def _is_enum(value: object) -> bool:
    return _is_texts(value) and len(value) > 0


def _is_titled_enum(value: object) -> bool:
    return _is_array(value) and len(value) > 0 and all(_is_titled(option) for option in value)


def _is_titled(option: object) -> bool:
    return _is_object(option) and set(option) == {"const", "title"} and _is_texts(list(option.values()))


def _is_items(value: object) -> bool:
    if not _is_object(value):
        return False
    if set(value) == {"anyOf"}:
        return _is_titled_enum(value["anyOf"])
    return set(value) == {"type", "enum"} and value["type"] == "string" and _is_enum(value["enum"])


_Check = Callable[[object], bool]

_STRINGS: dict[str, dict[str, _Check]] = {
    "": {"format": _is_format, "minLength": _is_count, "maxLength": _is_count},
    "enum": {"enum": _is_enum, "enumNames": _is_texts},
    "oneOf": {"oneOf": _is_titled_enum},
}
_NUMBERS: dict[str, _Check] = {"minimum": _is_number, "maximum": _is_number}
_CHOICES: dict[str, _Check] = {"items": _is_items, "minItems": _is_count, "maxItems": _is_count}


def _resolve(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    # A reference may add members to its definition (a default, a description). The definition's title is a class name.
    resolved = dict(schema)
    reference = resolved.pop("$ref", None)
    if reference is None:
        return resolved
    definition = dict(definitions[reference.removeprefix("#/$defs/")])
    definition.pop("title", None)
    return definition | resolved


def _plain(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    # Rewrites a field as pydantic describes it with the keywords that a form allows.
    field = _resolve(schema, definitions)
    options = [option for option in field.get("anyOf", []) if option != {"type": "null"}]
    if len(options) == 1:
        del field["anyOf"]
        field = _resolve(options[0], definitions) | field
    if "const" in field:
        field["enum"] = [field.pop("const")]
    if field.get("default", "") is None:
        del field["default"]
    if "items" in field:
        items = _plain(field["items"], definitions)
        field["items"] = {keyword: value for keyword, value in items.items() if keyword not in _TEXTS}
        field.pop("uniqueItems", None)  # a choice from a list has no duplicates anyway
    return field
