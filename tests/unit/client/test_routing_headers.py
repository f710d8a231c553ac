"""The HTTP headers of a host's messages, which knows of none: without them a server refuses or misroutes a call."""

from typing import Any

import pytest
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from tests.world.calls import meta

from accredit.client.headers import RoutingHeaders
from accredit.limits import MAX_KNOWN_TARGETS

pytestmark = pytest.mark.holds("client/headers")


def modern(method: str, **params: object) -> JSONRPCRequest:
    return JSONRPCRequest(jsonrpc="2.0", id=1, method=method, params={**params, "_meta": meta()})


def tool(name: str, **properties: object) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


REGION = {"type": "string", "x-mcp-header": "Region"}


def test_before_anything_is_agreed_on_there_is_nothing_to_say() -> None:
    assert RoutingHeaders().of(JSONRPCRequest(jsonrpc="2.0", id=1, method="initialize", params={})) == {}


def test_the_legacy_era_names_the_revision_that_was_agreed_on() -> None:
    headers = RoutingHeaders()
    headers.learn("initialize", {"protocolVersion": "2025-06-18"})
    for message in (
        JSONRPCRequest(jsonrpc="2.0", id=1, method="ping"),
        JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized"),
        JSONRPCResponse(jsonrpc="2.0", id=1, result={}),
    ):
        assert headers.of(message) == {"mcp-protocol-version": "2025-06-18"}


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "x"}, "x"),
        ("prompts/get", {"name": "p"}, "p"),
        ("resources/read", {"uri": "a://b"}, "a://b"),
        ("tools/call", {"name": "\u20ac"}, "=?base64?4oKs?="),
        ("tools/list", {"name": "x"}, None),
        ("tools/call", {"name": 3}, None),
    ],
)
def test_the_modern_era_mirrors_revision_method_and_target(method: str, params: Any, name: str | None) -> None:
    wanted = {"mcp-protocol-version": "2026-07-28", "mcp-method": method} | ({"mcp-name": name} if name else {})
    assert RoutingHeaders().of(modern(method, **params)) == wanted


def test_arguments_that_a_tool_declares_are_mirrored() -> None:
    headers = RoutingHeaders()
    headers.learn("tools/list", {"tools": [tool("deploy", region=REGION, size={"type": "integer"})]})
    found = headers.of(modern("tools/call", name="deploy", arguments={"region": "eu", "size": 3}))
    assert found["Mcp-Param-Region"] == "eu"
    assert "Mcp-Param-Region" not in headers.of(modern("tools/call", name="other", arguments={"region": "eu"}))
    assert "Mcp-Param-Region" not in headers.of(modern("tools/call", name="deploy", arguments=3))


def test_the_latest_list_counts__also_where_it_declares_nothing_any_more() -> None:
    headers = RoutingHeaders()
    headers.learn("tools/list", {"tools": [tool("deploy", region=REGION)]})
    headers.learn("tools/list", {"tools": [tool("deploy", region={"type": "string"})]})
    assert "Mcp-Param-Region" not in headers.of(modern("tools/call", name="deploy", arguments={"region": "eu"}))


def test_what_is_remembered_is_bounded() -> None:
    headers = RoutingHeaders()
    headers.learn("tools/list", {"tools": [tool(f"t{n}", region=REGION) for n in range(MAX_KNOWN_TARGETS + 1)]})
    assert "Mcp-Param-Region" not in headers.of(modern("tools/call", name="t0", arguments={"region": "eu"}))
    assert "Mcp-Param-Region" in headers.of(modern("tools/call", name="t1", arguments={"region": "eu"}))


@pytest.mark.parametrize("result", [{}, {"tools": 3}, {"tools": [3, {}, {"name": 3}, {"name": "x"}]}])
def test_a_list_that_is_none_breaks_nothing(result: dict[str, Any]) -> None:
    headers = RoutingHeaders()
    headers.learn("tools/list", result)
    headers.learn("initialize", {"protocolVersion": 3})
    assert headers.of(JSONRPCRequest(jsonrpc="2.0", id=1, method="ping")) == {}
