"""`Mcp-Param-*` headers of the modern era: the gateway knows from the upstream's tool list which a call must carry."""

import json

import pytest
from tests.world.calls import Posted, compact, event, http, log_message, post, response, stream
from tests.world.hostile import Script, World, sends, sends_and_closes, sends_and_hangs
from tests.world.raw_server import Connection, RawRequest
from tests.world.refusals import MISMATCH

from accredit.jsonrpc.methods import Era

SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "size": {"type": "integer", "x-mcp-header": "Size"},
    },
}
TOOLS = {
    "tools": [{"name": "deploy", "inputSchema": SCHEMA}],
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "public",
}


def listed(id: object) -> bytes:
    return compact({"jsonrpc": "2.0", "id": id, "result": TOOLS})


def upstream(listing: Script | None = None) -> Script:
    """Answers calls soundly, and a `tools/list` with `TOOLS` unless `listing` does it."""

    async def script(connection: Connection, request: RawRequest) -> None:
        message = json.loads(request.body)
        if message["method"] != "tools/list":
            await connection.send(http(response(message["id"])))
        elif listing is not None:
            await listing(connection, request)
        else:
            await connection.send(http(listed(message["id"])))

    return script


def call(arguments: dict[str, object], **headers: str) -> Posted:
    posted = post(Era.MODERN, params={"name": "deploy", "arguments": arguments})
    for name, value in headers.items():
        posted = posted.and_header(f"Mcp-Param-{name}", value)
    return posted


DISAGREE = [
    call({"region": "eu"}, Region="us"),
    call({"region": "eu"}, Region=""),
    call({}, Region="eu"),
    call({"region": "eu", "size": 3}, Region="eu", Size="4"),
    call({"region": "eu"}, Region="=?base64?dXM=?="),
    call({"region": "eu"}, Region="=?base64?ZXU?="),
    call({"region": "eu"}, Region="eu").and_header("Mcp-Param-Region", "eu"),
]


async def check_refused(world: World, posted: Posted) -> None:
    answer = await world.ask(posted)
    told = json.loads(answer.body)
    assert (answer.status, told["id"], told["error"]["code"]) == (400, 7, MISMATCH)


@pytest.mark.parametrize("known", [False, True], ids=["unknown_tool", "known_tool"])
@pytest.mark.parametrize("posted", DISAGREE)
async def test_headers_that_disagree_with_the_arguments_are_refused(posted: Posted, known: bool) -> None:
    async with World(upstream()) as world:
        if known:
            assert (await world.ask(post(Era.MODERN, "tools/list"))).body == listed(7)
        await check_refused(world, posted)
        assert not any(b"tools/call" in seen.body for seen in world.upstream.requests)
        await world.recovered(Era.MODERN)


async def test_a_header_that_is_missing_is_missed_once_the_tool_is_known() -> None:
    for sent in (http(listed(7)), stream(event(log_message()), event(listed(7)))):
        async with World(upstream(sends(sent))) as world:
            await world.ask(post(Era.MODERN, "tools/list"))
            await check_refused(world, call({"region": "eu"}))
            await world.recovered(Era.MODERN)


async def test_the_gateway_asks_for_the_list_as_the_caller_would() -> None:
    async with World(upstream()) as world:
        posted = call({"region": "eu"}, Region="eu").and_header("Authorization", "Bearer mine")
        assert (await world.ask(posted)).status == 200
        asked, called = world.upstream.requests
        assert json.loads(asked.body)["method"] == "tools/list"
        assert (asked.header("mcp-method"), called.header("mcp-method")) == ("tools/list", "tools/call")
        assert (asked.header("mcp-name"), called.header("mcp-name")) == (None, "deploy")
        assert (asked.header("mcp-param-region"), called.header("mcp-param-region")) == (None, "eu")
        assert asked.header("authorization") == "Bearer mine"
        assert called.body == posted.body


BAD_LISTS = {
    "garbage": sends(http(b"{}")),
    "html": sends(http(b"<html>", "text/html")),
    "another_id": sends(http(listed("x"))),
    "an_error": sends(http(b"no", "text/plain", status="403 Forbidden")),
    "compressed_unasked": sends(http(b"x", headers=(("Content-Encoding", "gzip"),))),
    "cut_off": sends_and_closes(http(b"{", length=100)),
    "closed": sends_and_closes(b""),
    "silence": sends_and_hangs(b""),
    "too_large": sends_and_hangs(http(b"", length=1 << 40)),
    "an_endless_stream": sends_and_hangs(stream(*[event(log_message("a" * 1000))] * 300).removesuffix(b"0\r\n\r\n")),
    "a_stream_that_stops": sends(stream(event(log_message()))),
    "tools_that_are_none": sends(
        http(compact({"jsonrpc": "2.0", "id": "accredit-tools-list-0", "result": {"tools": {"name": 5}}}))
    ),
}


@pytest.mark.slow
@pytest.mark.holds("gateway/admission/tool_directory", "headers")
@pytest.mark.parametrize("name", BAD_LISTS)
async def test_a_list_that_can_not_be_had_checks_nothing__the_upstream_would_do_it_itself(name: str) -> None:
    script = upstream(BAD_LISTS[name])
    # Soon over where the list does not come, and long enough for the call, which is answered.
    async with World(script, upstream_timeout_seconds=2, max_response_bytes=200_000) as world:
        answer = await world.ask(call({"region": "eu"}, Region="us"))
        assert (answer.status, answer.body) == (200, response())
        await world.recovered(Era.MODERN)


async def test_a_client_that_goes_away_while_the_list_is_asked_for_cancels_that_too() -> None:
    async with World(upstream(sends_and_hangs(b""))) as world:
        async with world.client() as client:
            await world.send(client, call({"region": "eu"}, Region="eu"))
            await world.upstream.until(lambda server: len(server.requests) == 1)
        await world.upstream.until(lambda server: server.open == 0)
        await world.recovered(Era.MODERN)
