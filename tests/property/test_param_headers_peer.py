"""`Mcp-Param-*` headers against the official SDK's reading of the same rules."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mcp.shared import inbound

from accredit.errors import RequestError
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.param_headers import check_param_headers, declared_headers
from accredit.jsonrpc.requests import decode_request

pytestmark = pytest.mark.slow

TOKENS = st.sampled_from(["A", "a", "B", "C", "X-Y_z", "", "a b", "\u00e9"]) | st.none()
TYPES = st.sampled_from(["string", "integer", "boolean", "string", "integer", "number", "object"]) | st.just(["string"])
NAMES = st.sampled_from(["a", "b", "c", "x-mcp-header", "properties", "items"])
DATA = st.sampled_from([None, "x", {"x-mcp-header": "A"}, [{"x-mcp-header": "A"}]])


def annotated(token: object, kind: object) -> dict[str, object]:
    schema = {"type": kind}
    return schema if token is None else schema | {"x-mcp-header": token}


valid = st.builds(
    annotated, st.sampled_from(["A", "B", "C"]) | st.none(), st.sampled_from(["string", "integer", "boolean"])
)
properties = valid | valid | st.builds(annotated, TOKENS, TYPES)


def _schema(inner: st.SearchStrategy[Mapping[str, object]]) -> st.SearchStrategy[Mapping[str, object]]:
    named = st.dictionaries(NAMES, inner, max_size=3)
    return st.one_of(
        st.fixed_dictionaries({"properties": named}),
        st.fixed_dictionaries({"properties": named}),
        st.fixed_dictionaries({"properties": named}, optional={"default": DATA, "examples": DATA, "$defs": named}),
        st.fixed_dictionaries({}, optional={"items": inner, "not": inner, "patternProperties": named}),
        st.fixed_dictionaries({"allOf": st.lists(inner, max_size=2)}),
    )


schemas = st.recursive(properties, _schema, max_leaves=5)
numbers = st.integers(-(2**60), 2**60) | st.sampled_from([0, -0.0, 1.0, 42.0, 0.5])
scalars = st.none() | st.booleans() | numbers | st.text(max_size=4) | st.sampled_from(["true", "42", "=?base64?eA==?="])
arguments = st.dictionaries(
    NAMES, st.recursive(scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2)),
    max_size=4,
)  # fmt: skip
spoiled = st.dictionaries(
    st.sampled_from(["mcp-param-a", "mcp-param-b", "mcp-param-c"]),
    st.sampled_from(["x", "42", "042", "42.0", "42.5", "true", "1e1", "=?base64?eA==?=", "=?base64?eA?=", "-0", ""]),
    max_size=1,
)


def call_with(found: Mapping[str, object]) -> Request:
    params = {"name": "t", "arguments": found}
    call = decode_request(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode())
    assert isinstance(call, Request)
    return call


@given(schemas)
def test_the_same_headers_are_declared(schema: Mapping[str, object]) -> None:
    invalid = inbound.find_invalid_x_mcp_header(schema) is not None
    theirs = {} if invalid else inbound.x_mcp_header_map(schema)
    ours = {header.path: header.name.decode() for header in declared_headers(json.dumps(schema).encode())}
    assert ours == {path: f"mcp-param-{token.lower()}" for path, token in theirs.items()}


@given(
    st.dictionaries(NAMES, properties, max_size=3) | st.just({"c": annotated("C", "integer")}),
    arguments,
    spoiled,
    st.booleans(),
)
def test_the_same_calls_are_refused(
    named: dict[str, dict[str, object]], found: dict[str, object], wrong: dict[str, str], mirrored: bool
) -> None:
    schema: dict[str, object] = {"properties": named}
    declared = declared_headers(json.dumps(schema).encode())
    headers = dict(wrong)
    if mirrored and declared:
        right = inbound.mcp_param_headers(inbound.x_mcp_header_map(schema), found)
        headers = {name.lower(): value for name, value in right.items()} | wrong
    # A float is not spelled alike in all languages, and where it is no integer, no tool takes it as one.
    assume(not any(isinstance(found.get(header.path[0]), float) for header in declared))
    theirs = inbound.validate_mcp_param_headers(schema, found, headers) is None
    try:
        check_param_headers(
            call_with(found), declared, {name.encode(): value.encode() for name, value in headers.items()}
        )
        ours = True
    except RequestError:
        ours = False
    assert ours == theirs
