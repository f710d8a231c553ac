"""Legacy sessions over HTTP, a child each: their life, their answers, what a server owes its clients."""

import asyncio
import json
import signal
from typing import Any

import pytest
from tests.world.calls import Posted, initialize, post
from tests.world.raw_client import RawClient
from tests.world.raw_server import PATIENCE, until
from tests.world.stdio_bridge import (
    Bridge,
    error_of,
    events_of,
    has_read,
    parsed,
    text_of,
)
from tests.world.stdio_processes import alive

from accredit.jsonrpc.methods import Era

UNAVAILABLE = "Upstream unavailable"


async def test_a_session_from_its_beginning_to_its_end() -> None:
    async with Bridge() as bridge:
        session = await bridge.session()
        answer = await session.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (answer.status, answer.body) == (202, b"")
        status, message = await session.call("echo", id="x", a=1)
        assert (status, message["id"], text_of(message)) == (200, "x", {"a": 1})
        (child,) = bridge.children
        assert await session.delete() == 204
        await until(lambda: not alive(child))
        status, message = await session.call("echo")
        assert (status, message["id"], message["error"]["code"]) == (404, 7, -32600)
        assert await session.delete() == 404


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "status", "code"),
    [
        ("refuses", 200, -32602),
        ("null", 502, -32000),
        ("malformed", 502, -32000),
        ("dies", 502, -32000),
        ("mute", 504, -32000),
    ],
)
async def test_an_initialize_that_fails_makes_no_session_and_leaves_no_child(how: str, status: int, code: int) -> None:
    patience = 2 if how == "mute" else PATIENCE
    async with Bridge(f"--initialize={how}", upstream_timeout_seconds=patience) as bridge:
        answer = await bridge.send(initialize())
        assert answer.header("mcp-session-id") is None
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (status, code)
        await until(lambda: not bridge.children)


async def test_a_client_that_goes_away_during_initialize_leaves_no_child() -> None:
    async with Bridge("--initialize=mute") as bridge:
        async with RawClient(bridge.port) as client:
            posted = initialize()
            await client.ask("POST", "/mcp", posted.headers, posted.body)
            await until(lambda: bool(bridge.children))
        await until(lambda: not bridge.children)


@pytest.mark.holds("gateway/upstream/stdio/pending_calls", "nameless")
async def test_a_server_that_knows_no_initialized_says_so_to_no_call() -> None:
    unknown = '{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}'
    sound = '{"jsonrpc":"2.0","id":7,"result":{"sound":true}}'
    script = f"read a; echo '{_INITIALIZED}'; read b; read c; echo '{unknown}'; echo '{sound}'; cat"
    async with Bridge(command=("sh", "-c", script)) as bridge:
        session = await bridge.session()
        assert (await session.send({"jsonrpc": "2.0", "method": "notifications/initialized"})).status == 202
        status, message = await session.call("any")
        assert (status, message["result"]) == (200, {"sound": True})


@pytest.mark.holds("gateway/upstream/stdio/session", "responses")
async def test_an_answer_is_forwarded_byte_for_byte() -> None:
    text = '{"result" : {"a":1.0e+2, "b":"\\u00e9\\/"},\t"id":7,"jsonrpc":"2.0" }'
    async with Bridge(command=("sh", "-c", f"read a; echo '{_INITIALIZED}'; read b; echo '{text}'; cat")) as bridge:
        session = await bridge.session()
        answer = await bridge.send(session.posted("any"))
        assert answer.body == text.encode()


_INITIALIZED = '{"jsonrpc":"2.0","id":7,"result":{"protocolVersion":"2025-11-25"}}'


async def test_a_client_that_goes_away_before_its_answer_began_cancels_its_request() -> None:
    async with Bridge() as bridge:
        session = await bridge.session()
        async with RawClient(bridge.port) as client:
            posted = session.posted("mute", id="gone")
            await client.ask("POST", "/mcp", posted.headers, posted.body)
            await has_read(session, id="gone")
        async with asyncio.timeout(PATIENCE):
            while (last := (await session.lines())[-2])["method"] != "notifications/cancelled":
                pass
        assert last["params"] == {"requestId": "gone", "reason": "the client has gone"}


async def test_a_request_that_the_client_cancels_is_answered_with_an_error() -> None:
    async with Bridge() as bridge, RawClient(bridge.port) as client:
        session = await bridge.session()
        posted = session.posted("mute", id=5)
        await client.ask("POST", "/mcp", posted.headers, posted.body)
        await has_read(session, id=5)
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
        assert (await session.send(cancelled)).status == 202
        status, message = parsed(await client.answer())
        assert (status, message["id"], message["error"]["code"]) == (200, 5, -32800)
        assert cancelled in await session.lines()


async def test_a_client_that_ends_its_session_has_cancelled_what_it_waits_for__and_not_met_a_failure() -> None:
    async with Bridge() as bridge, RawClient(bridge.port) as client:
        session = await bridge.session()
        (child,) = bridge.children
        posted = session.posted("mute", id=5)
        await client.ask("POST", "/mcp", posted.headers, posted.body)
        await has_read(session, id=5)
        assert await session.delete() == 204
        status, message = parsed(await client.answer())
        assert (status, message["id"], message["error"]["code"]) == (200, 5, -32800)
        await until(lambda: not alive(child))


@pytest.mark.slow
async def test_a_child_that_is_silent_for_too_long_is_given_up() -> None:
    async with Bridge(upstream_timeout_seconds=3) as bridge:  # the child has to start within it, on any machine
        session = await bridge.session()
        answer = await session.call("mute")
        assert error_of(answer) == (504, None, UNAVAILABLE, "the upstream did not answer in time")
        assert (await session.lines())[-2]["method"] == "notifications/cancelled"


@pytest.mark.parametrize(
    ("how", "fate"),
    [
        ({"code": 3}, "the upstream ended with code 3"),
        ({"signal": signal.SIGKILL}, "the upstream ended with signal 9"),
    ],
)
async def test_a_child_that_dies_in_a_call_ends_the_session(how: dict[str, Any], fate: str) -> None:
    async with Bridge() as bridge, RawClient(bridge.port) as client, RawClient(bridge.port) as standing:
        session = await bridge.session()
        assert await session.get(standing) == 200
        posted = session.posted("mute", id="open")
        await client.ask("POST", "/mcp", posted.headers, posted.body)
        await has_read(session, id="open")
        assert error_of(await session.call("die", **how)) == (502, None, UNAVAILABLE, fate)
        assert error_of(parsed(await client.answer())) == (502, None, UNAVAILABLE, fate)
        assert [event.id async for event in events_of(standing)] == ["0-0"]
        assert (await session.call("echo"))[0] == 404
        assert (await (await bridge.session()).call("echo"))[0] == 200


@pytest.mark.holds("gateway/upstream/stdio/backend", "legacy")
async def test_what_a_server_owes_its_clients() -> None:
    async with Bridge() as bridge:
        session = await bridge.session()
        call = session.posted("echo")
        for change, status in (
            (call.without_header("Mcp-Session-Id"), 400),
            (Posted([("Mcp-Session-Id", "x"), *call.without_header("Mcp-Session-Id").headers], call.body), 404),
            (call.without_header("MCP-Protocol-Version").and_header("MCP-Protocol-Version", "1999-01-01"), 400),
            (call.without_header("Accept").and_header("Accept", "application/json"), 406),
            (call.without_header("Accept").and_header("Accept", "text/event-stream"), 406),
            (session.message({"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {}}), 400),
        ):
            answer_status, message = parsed(await bridge.send(change))
            assert (answer_status, message["id"]) == (status, 7)
        assert (await bridge.send(call.without_header("MCP-Protocol-Version"))).status == 200
        plain = [pair for pair in session.headers if pair[0] != "Accept"]
        for headers, status in (
            ([*plain, ("Accept", "application/json")], 406),
            ([("Accept", "text/event-stream")], 400),
            ([("Accept", "text/event-stream"), ("MCP-Protocol-Version", "2026-07-28")], 405),
        ):
            assert (await bridge.send(Posted(headers, b""), "GET")).status == status
        assert (await bridge.send(Posted([], b""), "DELETE")).status == 400


async def test_observed_bad_answers_pass_as_they_are() -> None:
    async with Bridge(enforce=False) as bridge:
        session = await bridge.session()
        answer = await bridge.send(session.posted("trailing"))
        assert (answer.status, answer.body) == (200, b'{"jsonrpc":"2.0","id":7,"result":{}}}')
        answer = await bridge.send(session.posted("chatter"))
        assert b"data: Server started!\n\n" in answer.body
        answer = await bridge.send(session.posted("deep", id=9))
        assert answer.status == 502


async def test_an_observed_initialize_may_be_bad() -> None:
    async with Bridge("--initialize=null", enforce=False) as bridge:
        answer = await bridge.send(initialize())
        assert (answer.status, answer.header("mcp-session-id")) == (200, None)
    async with Bridge("--initialize=malformed", enforce=False) as bridge:
        answer = await bridge.send(initialize())
        assert (answer.status, answer.header("mcp-session-id")) == (200, None)


async def test_the_upstream_is_ready_where_its_command_is_found() -> None:
    async def ready(bridge: Bridge) -> int:
        async with RawClient(bridge.port) as client:
            await client.ask("GET", "/readyz")
            return (await client.answer()).status

    async with Bridge() as bridge:
        assert await ready(bridge) == 200
    async with Bridge(command=("no-such-command",)) as bridge:
        assert await ready(bridge) == 503
        status, message = parsed(await bridge.send(initialize()))
        assert (status, message["error"]["data"]) == (502, "the upstream's command was not found")
        status, _ = parsed(await bridge.send(post(Era.MODERN)))
        assert status == 502
