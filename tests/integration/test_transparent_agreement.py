"""Modern requests whose HTTP headers and body say different things, or the same in other words."""

import json
from typing import Any

import pytest
from tests.world.calls import Posted, compact, meta, post
from tests.world.refusals import MISMATCH, PARAMS, is_refused, passes, told

from accredit.jsonrpc.methods import Era


def modern(asks: str = "tools/call", params: dict[str, Any] | None = None, **changed: str | None) -> Posted:
    """A modern request with some of its headers replaced, or (None) left out."""
    asked = post(Era.MODERN, asks, params)
    for name, value in changed.items():
        header = {"version": "MCP-Protocol-Version", "method": "Mcp-Method", "name": "Mcp-Name"}[name]
        asked = asked.without_header(header)
        asked = asked if value is None else asked.and_header(header, value)
    return asked


def without_meta(*keys: str) -> Posted:
    asked = json.loads(post(Era.MODERN).body)
    if not keys:
        del asked["params"]["_meta"]
    for key in keys:
        del asked["params"]["_meta"]["io.modelcontextprotocol/" + key]
    return Posted(post(Era.MODERN).headers, compact(asked))


def with_meta(value: object) -> Posted:
    asked = json.loads(post(Era.MODERN).body)
    asked["params"]["_meta"] = value
    return Posted(post(Era.MODERN).headers, compact(asked))


def differs(header: str) -> str:
    return f"Header mismatch: {header} differs from the body"


def twice(header: str) -> str:
    return f"Header mismatch: {header} occurs twice"


def missing(header: str) -> str:
    return f"Header mismatch: {header} is missing"


_V, _C = "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities"
DISAGREEMENTS = {
    "no_meta": (without_meta(), PARAMS, f"params._meta lacks {_V} and {_C}"),
    "a_version_that_is_a_number": (with_meta(meta() | {_V: 5}), PARAMS, f"params._meta {_V} is not a string"),
    "no_version_header": (modern(version=None), MISMATCH, missing("MCP-Protocol-Version")),
    "another_method": (modern(method="tools/list"), MISMATCH, differs("Mcp-Method")),
    "two_names": (modern().and_header("Mcp-Name", "evil"), MISMATCH, twice("Mcp-Name")),
    "another_name_in_base64": (modern(name="=?base64?ZXZpbA==?="), MISMATCH, differs("Mcp-Name")),
}


@pytest.mark.parametrize("name", DISAGREEMENTS)
async def test_headers_that_say_something_else_than_the_body_are_refused__who_routes_by_them_would_be_deceived(
    name: str,
) -> None:
    posted, code, message = DISAGREEMENTS[name]
    await is_refused(posted, 400, told(code, message, 7))


AGREEMENTS = {
    "plain": modern(),
    "in_base64": modern(name="=?base64?ZWNobw==?="),
    "a_version_that_nobody_knows": Posted(
        modern(version="2099-01-01").headers, modern().body.replace(b"2026-07-28", b"2099-01-01")
    ),
    "an_unknown_method": modern("vendor/thing"),
}


@pytest.mark.parametrize("name", AGREEMENTS)
async def test_headers_that_agree_with_the_body_pass(name: str) -> None:
    assert (await passes(AGREEMENTS[name])).status == 200
