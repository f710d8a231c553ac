"""What a shell's words become as arguments of a tool."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.cli.actions.tool_arguments import json_object, parse_arguments
from accredit.errors import ConfigurationError

pytestmark = pytest.mark.holds("cli/actions/tool_arguments")

COLOUR = {"enum": ["red", "green", 3]}
PROPERTIES: dict[str, Any] = {
    "text": {"type": "string"},
    "count": {"type": "integer"},
    "ratio": {"type": "number"},
    "sure": {"type": "boolean"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "sizes": {"type": "array", "items": {"$ref": "#/$defs/size"}},
    "where": {"type": "object"},
    "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "note": {"type": ["string", "null"]},
    "colour": COLOUR,
    "size": {"$ref": "#/$defs/size"},
    "circle": {"$ref": "#/$defs/circle"},
    "any": {},
}
SCHEMA = {
    "type": "object",
    "properties": PROPERTIES,
    "$defs": {"size": {"type": "integer"}, "circle": {"$ref": "#/$defs/circle"}},
}


def said(*words: str) -> dict[str, object]:
    return parse_arguments("paint", words, {}, SCHEMA)


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["text=5"], "5"),
        (["text=true"], "true"),
        (["text="], ""),
        (["text=a=b"], "a=b"),
        (["count=-5"], -5),
        (["ratio=5"], 5),
        (["ratio=2.5e3"], 2500.0),
        (["sure=true"], True),
        (["sure=false"], False),
        (["tags=a"], ["a"]),
        (["tags=a", "tags=5"], ["a", "5"]),
        (['tags=["a", "b"]'], ["a", "b"]),
        (["sizes=1", "sizes=2"], [1, 2]),
        (['where={"x": [1]}'], {"x": [1]}),
        (["limit=7"], 7),
        (["limit=null"], None),
        (["note=null"], "null"),
        (["colour=red"], "red"),
        (["colour=3"], 3),
        (["size=4"], 4),
        (["circle=x"], "x"),
        (["any=5"], "5"),
    ],
)
def test_a_word_is_what_the_schema_says_and_a_text_stays_one(words: list[str], value: object) -> None:
    found = said(*words)[words[0].partition("=")[0]]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("count=5.5", "an integer"),
        ("count=true", "an integer"),
        ("count=five", "an integer"),
        ("count=", "an integer"),
        ("ratio=NaN", "a number"),
        ("ratio=1e999", "a number"),
        ("sure=yes", "a boolean"),
        ("sure=1", "a boolean"),
        ("where=[]", "an object"),
        ('where={"x": 1, "x": 2}', "an object"),
        ("limit=maybe", "an integer or a null"),
        ("sizes=a", "an integer"),
        ("colour=blue", "no such choice"),
        ("texts=a", "is text meant?"),
        ("text", "write NAME=VALUE"),
        ("=a", "write NAME=VALUE"),
    ],
)
def test_a_word_that_can_not_be_meant_is_wrong_use_and_says_why(word: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        said(word)
    assert says in f"{refused.value.what} {refused.value.remedy}"


def test_what_is_said_twice_or_missing_is_wrong_use() -> None:
    for words, in_json in ((["text=a", "text=b"], {}), (["text=a"], {"text": "b"})):
        with pytest.raises(ConfigurationError):
            parse_arguments("paint", words, in_json, SCHEMA)
    with pytest.raises(ConfigurationError, match="paint needs text, count"):
        parse_arguments("paint", ["sure=true"], {}, {**SCHEMA, "required": ["text", "sure", "count"]})


def test_a_tool_that_takes_anything_gets_texts__and_other_members_what_their_schema_says() -> None:
    assert parse_arguments("paint", ["x=5"], {}, {"type": "object"}) == {"x": "5"}
    assert parse_arguments("paint", ["x=5"], {}, {"type": "object", "additionalProperties": {"type": "integer"}}) == {
        "x": 5
    }
    with pytest.raises(ConfigurationError):
        parse_arguments("paint", ["x=5"], {}, {"type": "object", "additionalProperties": False})


@pytest.mark.parametrize("data", [b"", b"[]", b"5", b"{", b'{"a": NaN}', b'{"a": 1, "a": 2}', b"\xff", b"[" * 100_000])
def test_a_file_that_is_no_plain_json_object_is_wrong_use(data: bytes) -> None:
    with pytest.raises(ConfigurationError):
        json_object(data, "args.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYWORDS = (
    "type",
    "properties",
    "items",
    "enum",
    "const",
    "anyOf",
    "oneOf",
    "$ref",
    "required",
    "additionalProperties",
)


@given(
    schema=st.dictionaries(st.sampled_from(KEYWORDS), JSON, max_size=4),
    inner=st.dictionaries(st.sampled_from(KEYWORDS), JSON | st.sampled_from(["array", "#/x", "object"]), max_size=4),
    words=st.lists(st.builds("{}={}".format, st.sampled_from("abc"), st.text(max_size=8)), max_size=3),
)
def test_no_schema_and_no_words_do_more_than_fail(
    schema: dict[str, Any], inner: dict[str, Any], words: list[str]
) -> None:
    try:
        found = parse_arguments("paint", words, {}, {**schema, "properties": {"a": inner}})
    except ConfigurationError:
        return
    assert json.loads(json.dumps(found)) == found


@given(value=JSON)
def test_json_is_taken_as_it_is(value: object) -> None:
    assert json_object(json.dumps({"a": value}).encode(), "-") == {"a": value}
