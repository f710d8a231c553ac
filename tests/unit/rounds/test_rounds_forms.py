"""What a form can hold, from a schema or from a model (2026-07-28, client/elicitation, "Requested Schema")."""

import datetime
import enum
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import AnyUrl, BaseModel, Field, create_model

from accredit.rounds.forms import check_form, form_of

pytestmark = pytest.mark.holds("rounds/forms")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


COLOURS = {"enum": ["red", "blue"], "type": "string"}
TITLED: list[Any] = [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]


class Everything(BaseModel):
    text: str = Field(description="Words", min_length=1, max_length=9)
    page: AnyUrl
    day: datetime.date
    moment: datetime.datetime
    email: str = Field(json_schema_extra={"format": "email"})
    count: Annotated[int, Field(ge=1, le=9)] = 3
    share: float = 0.5
    sure: bool = False
    maybe: str | None = None
    colour: Colour = Field(Colour.RED, title="Colour of it")
    any_colour: Colour | None = None
    word: Literal["a", "b"] = "a"
    one: Literal["only"]
    titled: str = Field("r", json_schema_extra={"oneOf": TITLED})
    several: list[Literal["a", "b"]] = ["a"]
    colours: set[Colour] = Field(default_factory=set)
    aliased: bool = Field(True, alias="theAlias")


def test_a_model_becomes_the_form_with_its_fields() -> None:
    form = form_of(Everything)
    assert form["type"] == "object"
    assert form["required"] == ["text", "page", "day", "moment", "email", "one"]
    fields: dict[str, Any] = form["properties"]
    assert "title" not in fields["any_colour"]  # its class's name is no word for people
    for field in fields.values():
        field.pop("title", None)
    assert fields == {
        "text": {"type": "string", "description": "Words", "minLength": 1, "maxLength": 9},
        "page": {"type": "string", "format": "uri", "minLength": 1},
        "day": {"type": "string", "format": "date"},
        "moment": {"type": "string", "format": "date-time"},
        "email": {"type": "string", "format": "email"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        "share": {"type": "number", "default": 0.5},
        "sure": {"type": "boolean", "default": False},
        "maybe": {"type": "string"},
        "colour": {**COLOURS, "default": "red"},
        "any_colour": COLOURS,
        "word": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "one": {"type": "string", "enum": ["only"]},
        "titled": {"type": "string", "oneOf": TITLED, "default": "r"},
        "several": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["a"]},
        "colours": {"type": "array", "items": COLOURS},
        "theAlias": {"type": "boolean", "default": True},
    }


class Node(BaseModel):
    next: "Node | None" = None


@pytest.mark.parametrize(
    "kind",
    [
        int | str,
        dict[str, str],
        list[str],
        list[int],
        Colour | bool,
        Callable[[], None],
        datetime.time,
        Everything,
        Node,
        Literal[1, 2],
        Literal["a", None],
        Annotated[int, Field(gt=1)],
        Annotated[str, Field(pattern="a")],
        Any,
        bytes,
    ],
)
def test_a_field_that_a_form_can_not_hold_is_refused_by_its_name(kind: Any) -> None:
    model = create_model("Model", good=(str, ...), bad_one=(kind, ...))
    with pytest.raises(ValueError, match="field 'bad_one'"):
        form_of(model)


def test_a_model_that_holds_itself_is_refused_by_the_fields_name() -> None:
    with pytest.raises(ValueError, match="field 'next'"):
        form_of(Node)


def test_a_default_that_json_can_not_hold_is_left_to_the_model() -> None:
    model = create_model("Model", colour=(str, Field(default=object())))
    assert form_of(model)["properties"]["colour"] == {"title": "Colour", "type": "string"}


GOOD: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "string", "title": "T", "description": "D", "default": "d"},
    *({"type": "string", "format": name} for name in ("email", "uri", "date", "date-time")),
    {"type": "string", "enum": ["a"], "enumNames": ["A"], "default": "a"},
    {"type": "string", "oneOf": TITLED, "default": "b"},
    {"type": "number", "minimum": -1.5, "maximum": 2, "default": 0.5},
    {"type": "integer", "minimum": 0, "default": 2},
    {"type": "boolean", "default": True},
    {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 0, "maxItems": 2, "default": ["a"]},
    {"type": "array", "items": {"anyOf": TITLED}, "default": ["r", "b"]},
]
BAD: list[Any] = [
    None,
    "string",
    {},
    {"type": "object", "properties": {}},
    {"type": ["string", "null"]},
    {"type": "array"},
    {"type": "string", "format": "uuid"},
    {"type": "string", "format": ["email"]},
    {"type": "string", "pattern": "a"},
    {"type": "string", "minLength": -1},
    {"type": "string", "minLength": True},
    {"type": "string", "title": 7},
    {"type": "string", "description": None},
    {"type": "string", "default": 7},
    {"type": "string", "enum": []},
    {"type": "string", "enum": [1]},
    {"type": "string", "enum": ["a"], "default": "b"},
    {"type": "string", "enum": ["a"], "minLength": 1},
    {"type": "string", "enum": ["a"], "oneOf": TITLED},
    {"type": "string", "oneOf": []},
    {"type": "string", "oneOf": [{"const": "a"}]},
    {"type": "string", "oneOf": [{"const": 1, "title": "One"}]},
    {"type": "string", "oneOf": TITLED, "default": "g"},
    {"type": "number", "minimum": "1"},
    {"type": "number", "minimum": True},
    {"type": "number", "maximum": float("inf")},
    {"type": "number", "default": float("nan")},
    {"type": "number", "multipleOf": 2},
    {"type": "integer", "default": 1.5},
    {"type": "integer", "default": False},
    {"type": "boolean", "default": 1},
    {"type": "boolean", "enum": [True]},
    {"type": "array", "items": []},
    {"type": "array", "items": {"type": "string"}},
    {"type": "array", "items": {"type": "integer", "enum": ["a"]}},
    {"type": "array", "items": {"type": "string", "enum": []}},
    {"type": "array", "items": {"anyOf": []}},
    {"type": "array", "items": {"type": "string", "enum": ["a"]}, "default": "a"},
    {"type": "array", "items": {"type": "string", "enum": ["a"]}, "default": ["b"]},
]


@pytest.mark.parametrize("field", GOOD)
def test_each_kind_of_field_may_be_asked_for(field: dict[str, Any]) -> None:
    check_form({"type": "object", "properties": {"f": field}, "required": ["f"]})


@pytest.mark.holds("rounds/forms", "fields", "values", "defaults")
@pytest.mark.parametrize("field", BAD)
def test_anything_else_is_refused_by_its_name(field: Any) -> None:
    with pytest.raises(ValueError, match="field 'f'"):
        check_form({"type": "object", "properties": {"good": GOOD[0], "f": field}})


@pytest.mark.holds("rounds/forms", "flat")
@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "array"},
        {"type": "object"},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {}, "required": ["f"]},
        {"type": "object", "properties": {}, "required": "f"},
        {"type": "object", "properties": {}, "allOf": []},
        {"type": "object", "properties": {}, "$defs": {}},
    ],
)
def test_a_form_is_one_flat_object(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="form"):
        check_form(schema)


def test_a_form_may_have_no_fields_and_words_for_people() -> None:
    check_form({"$schema": "s", "type": "object", "properties": {}, "title": "T", "additionalProperties": False})
