"""`Mcp-Param-*` headers: what a schema declares, and whether a call's headers mirror its arguments."""

import json

import pytest

from accredit.errors import RequestError
from accredit.jsonrpc.era import DUPLICATED
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.param_headers import (
    MAX_PARAM_HEADERS,
    MAX_SCHEMA_BYTES,
    DeclaredHeader,
    check_param_headers,
    declared_headers,
    listed_schemas,
)
from accredit.jsonrpc.requests import decode_request
from accredit.limits import MAX_TOOL_LIST_BYTES

REGION = {"type": "string", "x-mcp-header": "Region"}
BAD_TOKENS = ("", "a b", "a:b", "\u00e9", "a\r\nB: c", None, 7, ["A"])
BAD_TYPES = ("number", "object", "array", "null", ["string"], None)
SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "region": REGION,
        "count": {"type": "integer", "x-mcp-header": "COUNT"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "query": {"type": "string", "default": {"x-mcp-header": "not an annotation"}},
        "where": {"properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}}},
    },
}


def declared(schema: object) -> dict[tuple[str, ...], tuple[bytes, str]]:
    return {header.path: (header.name, header.type) for header in declared_headers(json.dumps(schema).encode())}


def test_annotated_properties_are_declared_at_any_depth() -> None:
    assert declared(SCHEMA) == {
        ("region",): (b"mcp-param-region", "string"),
        ("count",): (b"mcp-param-count", "integer"),
        ("dry",): (b"mcp-param-dry", "boolean"),
        ("where", "zone"): (b"mcp-param-zone", "string"),
    }


@pytest.mark.holds("jsonrpc/param_headers", "reachable", "token", "type")
@pytest.mark.parametrize(
    "schema",
    [
        REGION,
        {"properties": {"a": REGION, "b": {"items": REGION}}},
        {"properties": {"a": REGION}, "items": [REGION]},
        {"properties": {"a": REGION}, "oneOf": [{"properties": {"b": REGION | {"x-mcp-header": "B"}}}]},
        {"properties": {"a": REGION}, "if": REGION},
        {"properties": {"a": REGION}, "$defs": {"x": {"properties": {"b": REGION | {"x-mcp-header": "B"}}}}},
        {"properties": {"a": REGION}, "patternProperties": {"x": REGION}},
        {"properties": {"a": REGION, "b": REGION}},
        {"properties": {"a": REGION, "b": REGION | {"x-mcp-header": "REGION"}}},
        *({"properties": {"a": REGION | {"x-mcp-header": token}}} for token in BAD_TOKENS),
        *({"properties": {"a": REGION | {"type": kind}}} for kind in BAD_TYPES),
        {"properties": {"a": {"x-mcp-header": "A"}}},
    ],
    ids=json.dumps,
)
def test_an_invalid_annotation_makes_the_tool_declare_nothing__clients_drop_it_and_send_no_headers(
    schema: object,
) -> None:
    assert declared(schema) == {}


def test_data_is_no_schema() -> None:
    data = {"x-mcp-header": "\u00e9"}
    schema = {"properties": {"a": REGION | {"default": data, "enum": [data], "examples": [data], "const": data}}}
    assert list(declared(schema)) == [("a",)]
    assert list(declared({"properties": {"x-mcp-header": REGION}, "required": ["x-mcp-header"]})) == [("x-mcp-header",)]


def test_odd_shapes_are_passed_over() -> None:
    assert declared({"properties": {"a": REGION, "b": True, "c": None}, "allOf": {"a": 1}, "items": 7}) == {
        ("a",): (b"mcp-param-region", "string")
    }
    assert declared({"properties": [REGION], "$defs": [REGION]}) == {}


@pytest.mark.parametrize(
    "text", [b"", b"null", b"[]", b"{", b'{"properties":{"\\ud800":{}}}', b"\xff", b"[" * 100_000, b"9" * 5000]
)
def test_what_is_no_schema_declares_nothing(text: bytes) -> None:
    assert declared_headers(text) == ()


def test_a_schema_past_the_limit_is_not_read__it_would_take_thirty_times_its_memory() -> None:
    schema = {"properties": {"a": REGION}, "description": ""}
    room = MAX_SCHEMA_BYTES - len(json.dumps(schema))
    assert declared(schema | {"description": "x" * room})
    assert not declared(schema | {"description": "x" * (room + 1)})


def test_more_headers_than_a_server_takes_declare_nothing() -> None:
    properties = {f"p{index}": REGION | {"x-mcp-header": f"P{index}"} for index in range(MAX_PARAM_HEADERS)}
    assert len(declared({"properties": properties})) == MAX_PARAM_HEADERS
    assert not declared({"properties": properties | {"one": REGION}})


# --- lists ------------------------------------------------------------------------------------------


def listed_headers(result: bytes) -> dict[str, tuple[DeclaredHeader, ...]]:
    return {name: declared_headers(schema) for name, schema in listed_schemas(result).items()}


def test_a_list_gives_the_headers_of_each_tool() -> None:
    tools = [
        {"name": "a", "inputSchema": {"properties": {"r": REGION}}},
        {"name": "b", "inputSchema": {}},
        {"name": "c"},
    ]
    result = json.dumps({"tools": tools, "nextCursor": "x"}).encode()
    assert listed_headers(result) == {"a": (DeclaredHeader(b"mcp-param-region", ("r",), "string"),), "b": (), "c": ()}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[]",
        b'{"tools":{}}',
        b'{"tools":[1]}',
        b'{"tools":[{}]}',
        b'{"tools":[{"name":7}]}',
        b'{"tools":[',
        b"\xff",
    ],
)
def test_what_is_no_list_of_tools_gives_none(text: bytes) -> None:
    assert listed_headers(text) == {}


def test_a_list_past_the_limit_is_not_read() -> None:
    result = b'{"tools":[],"x":"' + b"x" * MAX_TOOL_LIST_BYTES + b'"}'
    assert listed_headers(result) == {}


# --- calls ------------------------------------------------------------------------------------------


def check(arguments: object, **headers: bytes) -> None:
    """`arguments` are a value, or its JSON text."""
    text = arguments if isinstance(arguments, bytes) else json.dumps(arguments).encode()
    call = decode_request(
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"n","arguments":' + text + b"}}"
    )
    assert isinstance(call, Request)
    given = {f"mcp-param-{name}".encode(): value for name, value in headers.items()}
    check_param_headers(call, declared_headers(json.dumps(SCHEMA).encode()), given)


def refused(arguments: object, **headers: bytes) -> str:
    with pytest.raises(RequestError) as error:
        check(arguments, **headers)
    assert (error.value.code, error.value.status, error.value.id) == (-32020, 400, 7)
    return error.value.detail.removeprefix("Header mismatch: mcp-param-")


def test_headers_that_mirror_the_arguments_pass() -> None:
    check(
        {"region": "us-west1", "count": 42, "dry": True, "where": {"zone": "a"}},
        region=b"us-west1",
        count=b"42",
        dry=b"true",
        zone=b"a",
    )
    check({"region": "caf\u00e9", "dry": False}, region=b"=?base64?Y2Fmw6k=?=", dry=b" false ")
    check({"region": "", "count": -7}, region=b"", count=b"-7")


def test_without_arguments_there_are_no_headers() -> None:
    check(None)
    check({})
    check({"region": None, "where": {"zone": None}})
    check({"where": "no object"})
    check([1])


@pytest.mark.parametrize(
    "arguments",
    [None, {}, [1], {"region": None}, {"region": {"a": 1}}, {"region": ["us"]}, {"where": {"region": "us"}}],
)
def test_a_header_without_its_argument_is_refused__somebody_routed_by_a_value_that_the_body_never_carried(
    arguments: object,
) -> None:
    assert refused(arguments, region=b"us") == "region mirrors no argument"


def test_an_argument_without_its_header_is_refused__a_rule_on_the_header_would_be_walked_around() -> None:
    assert refused({"region": "us"}) == "region is missing"
    assert refused({"where": {"zone": "a"}}) == "zone is missing"


@pytest.mark.parametrize(
    "value", [b"us-east1", b"US", b"u s", b"us\xe9", b"=?base64?dXM?=", b"=?base64?dXN=?=", b"\xff"]
)
def test_a_header_that_differs_is_refused(value: bytes) -> None:
    assert refused({"region": "us"}, region=value) == "region differs from the argument"


def test_a_header_that_occurs_twice_is_refused__two_readers_would_take_two_values() -> None:
    assert refused({"region": "us"}, region=b"us" + DUPLICATED + b"us") == "region occurs twice"
    assert refused({}, region=b"us" + DUPLICATED + b"us") == "region occurs twice"


def test_other_headers_are_nobodys_business() -> None:
    check({}, other=b"x")


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        (b"42", b"42"),
        (b"42", b"42.0"),
        (b"42.00", b"42"),
        (b"42", b"042"),
        (b"0", b"-0"),
        (b"-7", b"-7.0"),
        (b"9" * 300, b"9" * 300 + b".0"),
        (b"1e2", b"1e2"),
        (b"1.5", b"1.5"),
    ],
)
def test_integers_are_compared_as_numbers(argument: bytes, value: bytes) -> None:
    check(b'{"count":' + argument + b"}", count=value)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *((42, value) for value in (b"43", b"42.5", b"-42", b"4.2e1", b"+42", b"", b"9" * 5000, b"=?base64?NDI?=")),
        ("42", b"42.0"),
        (True, b"1"),
    ],
)
def test_an_integer_that_differs_is_refused(argument: object, value: bytes) -> None:
    assert refused({"count": argument}, count=value) == "count differs from the argument"


@pytest.mark.parametrize(("argument", "value"), [(True, b"True"), (True, b"false"), (False, b"0"), ("true", b"TRUE")])
def test_a_boolean_is_spelled_as_in_json(argument: object, value: bytes) -> None:
    assert refused({"dry": argument}, dry=value) == "dry differs from the argument"


def test_a_header_of_zeros_is_read_in_one_pass__it_held_the_loop_for_minutes() -> None:
    zeros = b"0" * 1_000_000
    for value in (zeros + b"x", zeros + b".0" + zeros + b"x"):
        assert refused({"count": 5}, count=value) == "count differs from the argument"


def test_only_integers_are_compared_as_numbers() -> None:
    assert refused({"region": "42"}, region=b"42.0") == "region differs from the argument"
    assert refused({"region": 42}, region=b"42.0") == "region differs from the argument"


def test_a_call_without_params_has_no_arguments() -> None:
    call = Request(7, "tools/call", None, b"")
    headers = declared_headers(json.dumps(SCHEMA).encode())
    check_param_headers(call, headers, {})
    with pytest.raises(RequestError):
        check_param_headers(call, headers, {b"mcp-param-dry": b"true"})
