"""Where tokens are found, and that nothing of them is left."""

import json

import msgspec
import pytest
from msgspec import Raw

from accredit.errors import AmbiguousToken
from accredit.tokens.carried import FoundTokens, declares_token, find_tokens, without_authorization, without_tokens

EVERYWHERE = ("header", "argument", "meta")


def members(**params: object) -> dict[str, Raw]:
    return msgspec.json.decode(json.dumps(params), type=dict[str, Raw])


def header(*values: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", value) for value in values]


@pytest.mark.holds("tokens/carried", "header", "argument", "meta")
def test_the_header_is_before_the_argument_and_the_argument_before_meta() -> None:
    params = members(arguments={"_token": "a"}, _meta={"token": "m"})
    assert find_tokens(header(b"Bearer h"), params).deciding(EVERYWHERE) == "h"
    assert find_tokens((), params).deciding(EVERYWHERE) == "a"
    assert find_tokens((), members(_meta={"token": "m"})).deciding(EVERYWHERE) == "m"
    assert find_tokens((), {}).deciding(EVERYWHERE) is None


@pytest.mark.parametrize("value", [b"Bearer", b"Bearer ", b"bearer", b" Bearer \t "])
def test_an_empty_bearer_decides__a_good_token_elsewhere_does_not_rescue_it(value: bytes) -> None:
    assert find_tokens(header(value), members(arguments={"_token": "good"})).deciding(EVERYWHERE) == ""


@pytest.mark.holds("tokens/carried", "header")
@pytest.mark.parametrize("value", [b"Basic dXNlcjpwYXNz", b"Bearerx h", b"Bearer,h", b"", b"DPoP h"])
def test_another_scheme_counts_as_absent(value: bytes) -> None:
    assert find_tokens(header(value), members(_meta={"token": "m"})).deciding(EVERYWHERE) == "m"


@pytest.mark.parametrize("value", [b"Bearer h", b"bEARER  h", b"BEARER\th", b" Bearer h "])
def test_the_scheme_is_known_in_any_case(value: bytes) -> None:
    assert find_tokens([(b"Authorization", value)], {}).deciding(EVERYWHERE) == "h"


def test_bytes_that_no_token_has_are_a_bad_token__not_an_absent_one() -> None:
    assert find_tokens(header(b"Bearer \xff\x00"), {}).deciding(EVERYWHERE) == "\xff\x00"


@pytest.mark.parametrize("values", [(b"Bearer a", b"Bearer a"), (b"Bearer a", b"Basic b"), (b"", b"")])
def test_two_headers_are_refused__readers_would_take_different_ones(values: tuple[bytes, ...]) -> None:
    with pytest.raises(AmbiguousToken) as refused:
        find_tokens(header(*values), {})
    assert (refused.value.status, refused.value.error) == (400, "invalid_request")


@pytest.mark.parametrize("bad", ["", 7, None, True, ["good"], {"token": "good"}])
def test_what_is_no_text_is_present_and_bad(bad: object) -> None:
    params = members(arguments={"_token": bad}, _meta={"token": "good"})
    assert find_tokens((), params).deciding(EVERYWHERE) == ""
    assert find_tokens((), members(_meta={"token": bad})).deciding(EVERYWHERE) == ""


@pytest.mark.parametrize("odd", [None, 7, "text", ["_token"]])
def test_arguments_that_are_no_object_carry_nothing(odd: object) -> None:
    params = members(arguments=odd, _meta=odd)
    assert find_tokens((), params) == FoundTokens()
    assert without_tokens(params) is params


def test_a_token_of_a_place_that_does_not_count_does_not_decide() -> None:
    found = find_tokens(header(b"Bearer h"), members(arguments={"_token": "a"}, _meta={"token": "m"}))
    assert found.deciding(("meta",)) == "m"
    assert found.deciding(("argument", "meta")) == "a"
    assert found.deciding(()) is None


@pytest.mark.holds("tokens/carried", "argument")
def test_an_argument_that_the_tool_declares_is_the_tools() -> None:
    params = members(arguments={"_token": "a"}, _meta={"token": "m"})
    assert find_tokens((), params).deciding(EVERYWHERE, argument_is_the_tools=True) == "m"
    left = without_tokens(params, argument_is_the_tools=True)
    assert left["arguments"] is params["arguments"]
    assert bytes(left["_meta"]) == b"{}"


def test_all_places_are_emptied__those_that_did_not_decide_too() -> None:
    text = b'{ "name" : "t", "arguments":{"a": 1.0,"\\u005ftoken":"a", "b":[ ]},"_meta":{"token":"m","k":1e2}}'
    params = msgspec.json.decode(text, type=dict[str, Raw])
    left = without_tokens(params)
    assert bytes(left["arguments"]) == b'{"a":1.0,"b":[ ]}'
    assert bytes(left["_meta"]) == b'{"k":1e2}'
    assert left["name"] is params["name"]
    assert find_tokens((), left) == FoundTokens()
    assert "arguments" in params
    assert b"token" in bytes(params["_meta"])


def test_what_carries_nothing_stays_the_same_object() -> None:
    params = members(name="t", arguments={"token": "x"}, _meta={"_token": "y"})
    assert without_tokens(params) is params


def test_the_authorization_header_goes_whatever_its_scheme() -> None:
    headers = [(b"a", b"1"), (b"authorization", b"Basic x"), (b"Authorization", b"y"), (b"b", b"2")]
    assert without_authorization(headers) == [(b"a", b"1"), (b"b", b"2")]


@pytest.mark.parametrize(
    ("schema", "declared"),
    [
        (b'{"type":"object","properties":{"_token":{"type":"string"}}}', True),
        (b'{"properties":{"_token":true}}', True),
        (b'{"properties":{"token":{}}}', False),
        (b'{"properties":["_token"]}', False),
        (b'{"_token":{}}', False),
        (b'["properties"]', False),
        (b"", False),
        (b"[" * 100_000, False),
        (None, False),
    ],
)
def test_a_schema_declares_the_argument_or_not(schema: bytes | None, declared: bool) -> None:
    assert declares_token(schema) is declared


def test_what_was_found_never_shows_itself() -> None:
    found = find_tokens(header(b"Bearer SECRET"), members(arguments={"_token": "SECRET"}))
    assert "SECRET" not in f"{found!r} {found} {found.__rich_repr__()}"
