"""The gateway and an issuer that lives: the official SDK's own OAuth flow, keys that rotate, an issuer that is down."""

import json
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.world.calls import Posted, post
from tests.world.honest_server import HonestServer
from tests.world.issuer import RunningIssuer, answer
from tests.world.oauth_client import AgreeableUser
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import RawServer
from tests.world.running import RunningGateway
from tests.world.virtual_time import Clock

from accredit.gateway import GatewaySettings, HttpUpstream, create_app
from accredit.gateway.settings import TokenSettings
from accredit.jsonrpc.methods import Era
from accredit.net import IssuerKeys
from accredit.tokens.verify import Issuer

CALL = post(Era.MODERN, "tools/call", {"name": "list_inbox", "arguments": {}})


class World:
    """`async with World() as world`: an issuer, a server, and the gateway in between, all on sockets."""

    def __init__(self, *, scopes: tuple[str, ...] = (), tool_scopes: dict[str, str] | None = None) -> None:
        self.issuer = RunningIssuer()
        self.server = HonestServer()
        self.clock = Clock()
        self._scopes = scopes
        self._tool_scopes = tool_scopes or {}

    async def __aenter__(self) -> "World":
        await self.issuer.__aenter__()
        self._raw = RawServer(self.server)
        await self._raw.__aenter__()
        self._front = Front()
        self._gateway = RunningGateway(self._front)
        await self._gateway.__aenter__()
        self.port = self._gateway.port
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        tokens = TokenSettings(
            (Issuer(self.issuer.url, self.url, required_scopes=self._scopes, introspection=self.issuer.introspection),),
            self.url,
            tool_scopes=self._tool_scopes,
        )
        keys = IssuerKeys({self.issuer.url: self.issuer.jwks_url}, self.clock)
        self._front.app = create_app(GatewaySettings(HttpUpstream(self._raw.url), tokens=tokens), key_sets=keys)
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self._front.app.aclose()
        await self._gateway.__aexit__(None, None, None)
        await self._raw.__aexit__(None, None, None)
        await self.issuer.__aexit__(None, None, None)

    def token(self, **changes: object) -> str:
        return self.issuer.token(**{"aud": self.url, **changes})

    async def send(self, token: str, asked: Posted = CALL) -> RawAnswer:
        async with RawClient(self.port) as client:
            await client.ask("POST", "/mcp", [*asked.headers, ("Authorization", f"Bearer {token}")], asked.body)
            return await client.answer()


class Front:
    """An application whose real one is made once the port is known: tokens are made out to its URL."""

    app: Any

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await self.app(scope, receive, send)
            return
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return

    def drain(self) -> None:
        self.app.drain()

    def end_streams(self) -> None:
        self.app.end_streams()


async def test_the_official_client_finds_the_issuer_and_calls_a_tool() -> None:
    async with World(scopes=("mail",)) as world:
        user = AgreeableUser(world.url)
        async with httpx2.AsyncClient(auth=user.auth, trust_env=False) as http:
            transport = streamable_http_client(world.url, http_client=http)
            async with Client(transport, mode="legacy") as client:
                result = await client.call_tool("list_inbox", {})
        assert "called list_inbox" in str(result)
        assert user.asked[0]["resource"] == world.url
        assert user.asked[0]["scope"] == "mail"
        told = [each for each in world.server.messages if each.get("method") == "tools/call"]
        assert told[0]["params"]["_meta"]["dev.accredit/authorization"]["token_subject"] == "agent-7"
        assert all(token.access_token not in str(world.server.messages) for token in user.tokens.history)


async def test_the_official_client_steps_up_for_a_tools_scope() -> None:
    async with World(tool_scopes={"list_inbox": "mail:read"}) as world:
        user = AgreeableUser(world.url)
        async with (
            httpx2.AsyncClient(auth=user.auth, trust_env=False) as http,
            Client(streamable_http_client(world.url, http_client=http), mode="legacy") as client,
        ):
            result = await client.call_tool("list_inbox", {})
        assert "called list_inbox" in str(result)
        assert "mail:read" in user.asked[-1]["scope"].split()


async def test_an_issuer_that_is_down_at_the_start_is_a_503_and_then_it_is_there() -> None:
    async with World() as world:
        token = world.token()
        world.issuer.jwks = answer(b"", "500 Down")
        refused = await world.send(token)
        assert refused.status == 503
        assert int(refused.header("retry-after") or "") >= 1
        async with RawClient(world.port) as client:
            await client.ask("GET", "/readyz", [("Authorization", f"Bearer {token}")])
            ready = await client.answer()
            assert json.loads(ready.body) == {"status": "ok", "upstream": True, "key_sets": False}
        world.issuer.jwks = None
        world.clock.now += 100
        assert (await world.send(token)).status == 200
        world.issuer.jwks = answer(b"", "500 Down")
        world.clock.now += 7_200
        assert (await world.send(token)).status == 200
        async with RawClient(world.port) as client:
            for headers, told in (([], False), ([("Authorization", f"Bearer {token}")], True)):
                await client.ask("GET", "/readyz", headers)
                ready = await client.answer()
                assert (ready.status, json.loads(ready.body)["key_sets"]) == (200, False)
                assert (world.issuer.url.encode() in ready.body) is told
        assert [each["method"] for each in world.server.messages] == ["tools/call"] * 2


async def test_a_token_that_is_no_jwt_is_good_if_its_issuer_says_so__and_a_jwt_is_never_shown_to_it() -> None:
    async with World(tool_scopes={"list_inbox": "mail:read"}) as world:
        token = world.issuer.opaque(aud=world.url, scope="mail:read", sub="ada")
        assert (await world.send(token)).status == 200
        told = [each for each in world.server.messages if each.get("method") == "tools/call"]
        authority = told[0]["params"]["_meta"]["dev.accredit/authorization"]
        assert (authority["token_subject"], authority["token_scopes"]) == ("ada", ["mail:read"])
        assert token not in str(world.server.messages)
        for text in (world.token(scope="mail:read"), world.token(aud="other"), world.token()[:-4] + "AAAA"):
            await world.send(text)
        assert [each["token"] for each in world.issuer.introspected] == [token]
