"""Tokens over HTTP+SSE (2024-11-05): the stream and what is sent into it are one subject's."""

import json

from tests.integration.test_transparent_legacy_sse import JSON, Upstream
from tests.world.calls import compact
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.running import RunningGateway
from tests.world.tokened import Tokened

from accredit.gateway import GatewaySettings, HttpUpstream, create_app


async def test_a_stream_is_its_subjects_and_nobody_else_sends_into_it() -> None:
    world, upstream = Tokened(), Upstream()
    mine, thief = world.token(), world.token(sub="thief")

    async with upstream.server as server:
        settings = GatewaySettings(HttpUpstream(server.url.replace("/mcp", "/sse")), tokens=world.settings())
        async with RunningGateway(create_app(settings, key_sets=world.key_sets)) as gateway:

            async def opened(client: RawClient, *headers: tuple[str, str]) -> int:
                await client.ask("GET", "/sse", [("Accept", "text/event-stream"), *headers])
                return (await client.head())[0]

            async def post(target: str, *headers: tuple[str, str], **meta: str) -> RawAnswer:
                params = {"name": "a", "arguments": {"_token": mine} if meta else {}, "_meta": meta}
                body = compact({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
                async with RawClient(gateway.port) as client:
                    await client.ask("POST", target, [JSON, *headers], body)
                    return await client.answer()

            async with RawClient(gateway.port) as client:
                assert await opened(client) == 401
            async with RawClient(gateway.port) as client:
                assert await opened(client, ("Authorization", f"Bearer {mine}")) == 200
                named = await client.event()
                assert named is not None
                target = (named.data or b"").decode()
                assert (await post(target)).status == 401
                assert (await post(target, ("Authorization", f"Bearer {thief}"))).status == 404
                assert (await post(target, ("Authorization", f"Bearer {mine}"))).status == 202
                assert await client.event() is not None
                assert (await post(target, token=mine)).status == 202
                assert await client.event() is not None
            await server.until(lambda found: found.open <= 1)
        opening, *posted = server.requests
        assert len(posted) == 2
        assert all(request.header("authorization") is None for request in (opening, *posted))
        assert [json.loads(request.body)["params"]["arguments"] for request in posted] == [{}, {}]
        for token in (mine, thief):
            assert all(world.mark(token) not in request.body for request in posted)
        await server.until(lambda found: found.open == 0)
