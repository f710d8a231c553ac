"""The query of a client's URL, where it goes on: a server may have other tools for it, or another tenant, and it may be
a key. All that is done on behalf of a call goes where the call goes, and no query goes to a server it is not meant for.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.world.calls import ERAS, SESSION, Posted, compact, http, initialize, notification, post
from tests.world.changing_server import ChangingServer, Listed, described, pins
from tests.world.hostile import HOSTILE, SOON, Hangs, World
from tests.world.merged import Merged
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import Connection, RawRequest, RawServer, until
from tests.world.routes import messages_of
from tests.world.running import RunningGateway

from accredit.gateway import GatewaySettings, HttpUpstream
from accredit.jsonrpc.methods import Era

KEY = "api_key=SECRET-FOR-A"
EVIL = "variant=evil"
PAY: dict[str, Any] = {"name": "pay", "arguments": {"amount": 1}}


async def asked(port: int, posted: Posted, query: str, method: str = "POST") -> RawAnswer:
    """One request with this query."""
    async with RawClient(port) as client:
        await client.ask(method, f"/mcp?{query}" if query else "/mcp", posted.headers, posted.body)
        return await client.answer()


def targets(server: RawServer, method: str) -> list[str]:
    """Where the messages of a method went at the server."""
    posts = [each for each in server.requests if each.method == "POST"]
    return [each.target for each in posts if json.loads(each.body).get("method") == method]


@pytest.mark.holds("gateway/admission/pinned_tools", "own-look", "fresh")
@pytest.mark.parametrize("era", ERAS)
async def test_a_query_for_which_the_server_has_another_tool_is_no_way_past_the_pins(era: Era, tmp_path: Path) -> None:
    """The server shows another `pay` to who asks with the query, and calls that one."""
    listed = Listed(tmp_path / "listed.json")
    listed.say(callers={EVIL: described("pay", "Pays Eve.")})

    async with RawServer(ChangingServer(listed.path)) as server:
        settings = GatewaySettings(HttpUpstream(server.url), pins=pins())
        async with RunningGateway(settings) as gateway:
            for query, passes in (("", True), (EVIL, False), ("", True), (EVIL, False), ("other=1", True)):
                (answer,) = messages_of(await asked(gateway.port, post(era, "tools/call", PAY), query))
                assert ("result" in answer) is passes, query
                if not passes:
                    assert answer["error"]["code"] == -31012
        assert targets(server, "tools/call") == ["/mcp", "/mcp", "/mcp?other=1"]
        # One look of two pages for each query, and none of them anywhere else.
        assert targets(server, "tools/list") == ["/mcp"] * 2 + [f"/mcp?{EVIL}"] * 2 + ["/mcp?other=1"] * 2


@pytest.mark.holds("gateway/admission/pinned_tools", "changed")
async def test_a_list_that_shows_the_change_ends_what_was_seen_with_that_query(tmp_path: Path) -> None:
    listed = Listed(tmp_path / "listed.json")

    async with RawServer(ChangingServer(listed.path)) as server:
        settings = GatewaySettings(HttpUpstream(server.url), pins=pins())
        async with RunningGateway(settings) as gateway:
            call, listing = post(Era.MODERN, "tools/call", PAY), post(Era.MODERN, "tools/list", {"cursor": "2"})
            assert "result" in messages_of(await asked(gateway.port, call, EVIL))[0]
            listed.say(callers={EVIL: described("pay", "Pays Eve.")})
            await asked(gateway.port, listing, EVIL)
            assert messages_of(await asked(gateway.port, call, EVIL))[0]["error"]["code"] == -31012


MIRRORED = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


@pytest.mark.holds("gateway/admission/tool_directory", "headers")
async def test_which_headers_a_call_must_carry_is_asked_where_the_call_goes() -> None:
    """Only with the query does the server have the tool whose header lies about its argument."""

    async def lists(connection: Connection, request: RawRequest) -> None:
        message = json.loads(request.body)
        tools = [{"name": "deploy", "inputSchema": MIRRORED}] if EVIL in request.target else []
        result = {"tools": tools} if message["method"] == "tools/list" else {"content": []}
        await connection.send(http(compact({"jsonrpc": "2.0", "id": message["id"], "result": result})))

    async with World(lists) as world:
        call = post(Era.MODERN, params={"name": "deploy", "arguments": {"region": "eu"}})
        lies = call.and_header("Mcp-Param-Region", "us").and_header(*HOSTILE)
        answer = await asked(world.gateway.port, lies, EVIL)
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, -32020)


@pytest.mark.slow
async def test_what_the_gateway_ends_or_takes_back_for_a_client_it_does_where_the_client_was() -> None:
    """A session that a bad answer announced, and a call that took too long: without the query another tenant would get
    the message, and this one would keep what nobody waits for."""

    async def answers(connection: Connection, request: RawRequest) -> None:
        method = json.loads(request.body).get("method") if request.body else ""
        if method == "initialize":
            await connection.send(http(b"{}", headers=(("Mcp-Session-Id", SESSION),)))
        elif method == "tools/call":
            raise Hangs
        else:
            await connection.send(http(b"", None, status="202 Accepted"))

    async with World(answers, upstream_timeout_seconds=SOON) as world:
        port, came = world.gateway.port, world.upstream.requests
        assert (await asked(port, initialize().and_header(*HOSTILE), KEY)).status == 502
        assert (await asked(port, post(Era.LEGACY).and_header(*HOSTILE), KEY)).status == 504
        await until(lambda: len(came) == 4)
        assert {each.target for each in came} == {f"/mcp?{KEY}"}
        assert [each.method for each in came if each.method != "POST"] == ["DELETE"]
        assert len(targets(world.upstream, "notifications/cancelled")) == 1


@pytest.mark.holds("gateway/upstream/merged/members", "headers")
async def test_a_key_in_the_query_of_the_merged_endpoint_is_told_to_no_server(tmp_path: Path) -> None:
    """Neither to the one that it is for, which nobody can tell here, nor to the others."""
    listed = Listed(tmp_path / "listed.json")

    one, two = RawServer(ChangingServer(listed.path)), RawServer(ChangingServer(listed.path))
    async with one, two, Merged({"mail": one.url, "files": two.url}) as merged:
        session = (await asked(merged.port, initialize(), KEY)).header("mcp-session-id") or ""
        assert session
        mail = {"name": "mail__pay", "arguments": {}}
        for posted in (
            post(Era.LEGACY, "ping", {}),
            post(Era.LEGACY, "logging/setLevel", {"level": "info"}),
            post(Era.LEGACY, "tools/list", {}),
            post(Era.LEGACY, "tools/call", mail),
            notification(Era.LEGACY),
            notification(Era.LEGACY, "notifications/initialized"),
            post(Era.MODERN, "server/discover", {}),
            post(Era.MODERN, "tools/list", {}),
            post(Era.MODERN, "tools/call", mail),
        ):
            within = posted.without_header("Mcp-Session-Id")
            if ("MCP-Protocol-Version", "2025-11-25") in posted.headers:
                within = within.and_header("Mcp-Session-Id", session)
            assert (await asked(merged.port, within, KEY)).status in (200, 202), posted
        here = Posted([("Accept", "text/event-stream"), ("Mcp-Session-Id", session)], b"")
        for method in ("GET", "DELETE"):
            assert (await asked(merged.port, here, KEY, method)).status == 405  # that is what the servers say
        for server in (one, two):
            assert {each.method for each in server.requests} == {"POST", "GET", "DELETE"}
            assert {each.target for each in server.requests} == {"/mcp"}
            assert not any(b"SECRET-FOR-A" in each.head + each.body for each in server.requests)
