"""Modern requests whose HTTP headers and body say different things, or the same in other words."""

import json
from typing import Any

import pytest
from tests.world.calls import Posted, compact, meta, notification, post
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
    "no_version_in_meta": (without_meta("protocolVersion"), PARAMS, f"params._meta lacks {_V}"),
    "no_capabilities_in_meta": (without_meta("clientCapabilities"), PARAMS, f"params._meta lacks {_C}"),
    "a_version_that_is_a_number": (with_meta(meta() | {_V: 5}), PARAMS, f"params._meta {_V} is not a string"),
    "no_version_header": (modern(version=None), MISMATCH, missing("MCP-Protocol-Version")),
    "another_version": (modern(version="2099-01-01"), MISMATCH, differs("MCP-Protocol-Version")),
    "a_legacy_version": (modern(version="2025-11-25"), MISMATCH, differs("MCP-Protocol-Version")),
    "no_method_header": (modern(method=None), MISMATCH, missing("Mcp-Method")),
    "another_method": (modern(method="tools/list"), MISMATCH, differs("Mcp-Method")),
    "the_method_in_capitals": (modern(method="TOOLS/CALL"), MISMATCH, differs("Mcp-Method")),
    "two_methods": (modern().and_header("Mcp-Method", "tools/call"), MISMATCH, twice("Mcp-Method")),
    "two_versions": (
        modern().and_header("MCP-Protocol-Version", "2026-07-28"),
        MISMATCH,
        twice("MCP-Protocol-Version"),
    ),
    "no_name_header": (modern(name=None), MISMATCH, missing("Mcp-Name")),
    "another_name": (modern(name="evil"), MISMATCH, differs("Mcp-Name")),
    "an_empty_name": (modern(name=""), MISMATCH, differs("Mcp-Name")),
    "two_names": (modern().and_header("Mcp-Name", "evil"), MISMATCH, twice("Mcp-Name")),
    "another_name_in_base64": (modern(name="=?base64?ZXZpbA==?="), MISMATCH, differs("Mcp-Name")),
    "base64_without_padding": (modern(params={"name": "ab"}, name="=?base64?YWI?="), MISMATCH, differs("Mcp-Name")),
    "base64_with_stray_bits": (modern(params={"name": "ab"}, name="=?base64?YWJ=?="), MISMATCH, differs("Mcp-Name")),
    "base64_with_blanks": (modern(params={"name": "ab"}, name="=?base64?YW I=?="), MISMATCH, differs("Mcp-Name")),
    "base64_in_capitals": (modern(params={"name": "ab"}, name="=?BASE64?YWI=?="), MISMATCH, differs("Mcp-Name")),
    "another_uri": (modern("resources/read", {"uri": "file:///a"}, name="file:///b"), MISMATCH, differs("Mcp-Name")),
    "another_prompt": (modern("prompts/get", {"name": "a"}, name="b"), MISMATCH, differs("Mcp-Name")),
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
    "a_name_that_needs_base64": modern(params={"name": "\u00e4 \u20ac"}, name="=?base64?w6Qg4oKs?="),
    "a_name_that_looks_half_like_base64": modern(params={"name": "=?base64?x"}, name="=?base64?x"),
    "blanks_around_it": modern(name="  echo \t "),
    "a_method_without_a_target": modern("tools/list"),
    "a_uri": modern("resources/read", {"uri": "file:///a%20b"}),
    "a_version_that_nobody_knows": Posted(
        modern(version="2099-01-01").headers, modern().body.replace(b"2026-07-28", b"2099-01-01")
    ),
    "an_unknown_method": modern("vendor/thing"),
}


@pytest.mark.parametrize("name", AGREEMENTS)
async def test_headers_that_agree_with_the_body_pass(name: str) -> None:
    assert (await passes(AGREEMENTS[name])).status == 200


@pytest.mark.parametrize("changed", ["tools/call", "NOTIFICATIONS/CANCELLED"])
async def test_a_modern_notification_agrees_with_its_header_too(changed: str) -> None:
    asked = notification(Era.MODERN).without_header("Mcp-Method").and_header("Mcp-Method", changed)
    await is_refused(asked, 400, told(MISMATCH, differs("Mcp-Method")))
