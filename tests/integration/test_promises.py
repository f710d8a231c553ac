"""Promises of SECURITY.md that are about everything at once: no single part could break them alone. Real sockets."""

import json
import logging

import pytest
from tests.world.calls import compact, error, http, post
from tests.world.hostile import World, sends
from tests.world.raw_client import RawClient
from tests.world.raw_server import Connection, RawServer
from tests.world.running import RunningGateway
from tests.world.tokened import Tokened

from accredit.gateway import GatewaySettings, HttpUpstream, create_app
from accredit.jsonrpc.methods import Era

SECRET = "canary-d1f7"
CALL = {"name": "echo", "arguments": {"to": SECRET, SECRET: [SECRET]}}
RESULT = compact({"jsonrpc": "2.0", "id": 7, "result": {"content": [{"type": "text", "text": SECRET}]}})
ANSWERS = {
    "a_result": RESULT,
    "a_result_that_is_cut_off": RESULT[:-3],
    "a_result_for_another_id": RESULT.replace(b'"id":7', b'"id":8'),
    "two_results": RESULT[:-1] + b',"result":"' + SECRET.encode() + b'"}',
    "an_error": error(7, message=SECRET),
    "no_json": SECRET.encode(),
}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("era", list(Era))
async def test_no_header_argument_or_result_is_in_the_log_at_its_most_talkative(
    answer: str, era: Era, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    posted = post(era, "tools/call", CALL)
    for name in ("Authorization", "Cookie", "X-Api-Key"):
        posted = posted.and_header(name, SECRET)

    async with World(sends(http(ANSWERS[answer]))) as world:
        await world.ask(posted, hostile=False)
        assert SECRET.encode() in world.upstream.requests[-1].body  # so it was there to be logged
    assert caplog.records
    assert SECRET not in caplog.text
    assert SECRET not in json.dumps([str(vars(record)) for record in caplog.records])


async def test_with_tokens_required_nothing_is_answered_without_one_but_what_security_names() -> None:
    tokened = Tokened()
    asked = [
        ("GET", "/mcp", 401),
        ("DELETE", "/mcp", 401),
        ("POST", "/mcp", 401),
        ("PUT", "/mcp", 405),
        ("GET", "/sse", 401),
        ("POST", "/messages", 404),  # of no session, which nobody without a token can open
        ("GET", "/elsewhere", 404),
        ("POST", "/token", 404),
        ("GET", "/oauth/authorize", 404),
        ("POST", "/.well-known/accredit/asks", 404),
        ("GET", "/v1/ratify/scopes", 404),
        ("GET", "/healthz", 200),
        ("GET", "/readyz", 200),
        ("GET", "/.well-known/oauth-protected-resource", 200),
        ("GET", "/open/a", 200),
    ]

    async def handler(connection: Connection) -> None:
        while await connection.request() is not None:
            await connection.send(http(b"{}"))

    async with RawServer(handler) as server:
        upstream = HttpUpstream(server.url)
        settings = GatewaySettings(upstream, tokens=tokened.settings(), passthrough=("/open/*",))
        async with RunningGateway(create_app(settings, key_sets=tokened.key_sets)) as gateway:
            for method, path, status in asked:
                async with RawClient(gateway.port) as client:
                    body = post(Era.LEGACY, "ping").body if method == "POST" else b""
                    await client.ask(method, path, [("Content-Type", "application/json")], body)
                    assert ((await client.answer()).status, method, path) == (status, method, path)
        assert [request.target for request in server.requests] == ["/open/a"]
