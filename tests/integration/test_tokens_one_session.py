"""Tokens that name their session: good in that one, on every way that has one, and nowhere else."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_tokens_gateway import CALL, calling, route
from tests.integration.test_tokens_wrap import key as key
from tests.integration.test_tokens_wrap import token as wrap_token
from tests.integration.test_transparent_legacy_sse import JSON, Upstream
from tests.integration.test_wrap import wrapped
from tests.world.authorization import Trust
from tests.world.calls import Posted, compact, initialize, post
from tests.world.issuer import IssuerKey
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.routes import Route
from tests.world.running import RunningGateway
from tests.world.tokened import Tokened

from accredit.gateway import GatewaySettings, HttpUpstream, create_app

ELSEWHERE = "the token is good in one session, and this is not it"


@pytest.fixture(scope="module")
def world() -> Tokened:
    return Tokened()


def refused(answer: RawAnswer) -> bool:
    told = json.loads(answer.body)["error"] if answer.body else {}
    return (answer.status, told.get("code"), ELSEWHERE in told.get("message", "")) == (401, -31010, True)


def in_place(way: Route, place: str, token: str) -> tuple[Posted, str | None]:
    if place == "header":
        return calling(way), token
    return calling(way, **({"_meta": {"token": token}} if place == "meta" else {"arguments": {"_token": token}})), None


@pytest.mark.holds("gateway/admission/bearer", "verification")
@pytest.mark.parametrize("place", ["header", "meta", "argument"])
@pytest.mark.parametrize("name", ["http-legacy", "sse-legacy", "stdio-legacy"])
async def test_a_session_s_token_is_good_in_no_other_session__and_opens_none(
    name: str, place: str, trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    async with route(name, world, trust, tmp_path) as way:
        mine = way.session
        token = world.token(session=mine)
        posted, header = in_place(way, place, token)
        assert (await way.send(posted, token=header)).status == 200

        way.session = ""
        opened = await way.send(initialize(), token=world.token(sub="agent-8"))
        another = opened.header("mcp-session-id") or ""
        assert another not in ("", mine)
        untagged = mine.rpartition(".")[0]
        for named, claim in ((another, mine), (mine, untagged), (mine, mine + " "), (mine, mine.upper()), ("", mine)):
            way.session = named
            posted, header = in_place(way, place, world.token(session=claim))
            assert refused(await way.send(posted, token=header)), (named, claim)
        assert len(way.received("tools/call")) == 1

        for session in ("", mine):  # whoever begins has no session yet, whatever the header says
            way.session = session
            first = initialize()
            if place != "header":
                body = json.loads(first.body)
                body["params"]["_meta"] = {"token": token}
                first = Posted(first.headers, compact(body))
            assert refused(await way.send(first, token=header and token))
        assert len(way.received("initialize")) == 2


async def test_a_session_s_token_is_good_in_the_session_of_its_own_subject_alone(
    trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    async with route("http-legacy", world, trust, tmp_path) as way:
        token = world.token(session=way.session, sub="thief")
        assert (await way.send(calling(way), token=token)).status == 404
        assert not way.received("tools/call")


@pytest.mark.parametrize("claim", ["", 7, ["a"], {"id": "a"}])
async def test_a_session_that_is_no_id_makes_no_token_good(
    claim: Any, trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    async with route("http-legacy", world, trust, tmp_path) as way:
        for session in (way.session, ""):
            way.session = session
            assert (await way.send(calling(way), token=world.token(session=claim))).status == 401


@pytest.mark.holds("gateway/front/callers", "session-token")
@pytest.mark.parametrize("name", ["http-modern", "sse-modern", "stdio-modern"])
async def test_a_session_s_token_is_good_on_no_way_that_has_no_session(
    name: str, trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    async with route(name, world, trust, tmp_path) as way:
        opened = await way.send(initialize(), token=world.token())
        for session in (opened.header("mcp-session-id") or "", ""):
            way.session = session
            for place in ("header", "meta", "argument"):
                posted, header = in_place(way, place, world.token(session=session or "a.b"))
                assert refused(await way.send(posted, token=header)), (session, place)
        assert not way.received("tools/call")


async def test_a_member_of_a_batch_with_another_session_s_token_has_the_batch_refused(
    trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    async with route("http-legacy", world, trust, tmp_path) as way:
        good, other = world.token(session=way.session), world.token(session="another")
        asked = post(way.era)
        headers = [(name, "2025-03-26" if name == "MCP-Protocol-Version" else text) for name, text in asked.headers]
        for tokens, status in (((good, other), 401), ((good, good), 200)):
            members = [
                {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {**CALL, "_meta": {"token": token}}}
                for id, token in enumerate(tokens)
            ]
            assert (await way.send(Posted(headers, compact(members)))).status == status
        assert len(way.received("tools/call")) == 2


async def test_streams_and_ends_of_a_session_take_its_own_token_and_no_other_s(
    trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    async with route("http-legacy", world, trust, tmp_path) as way:
        for claim, status in (("another", 401), (way.session, 200)):
            fields = [("Mcp-Session-Id", way.session), ("Authorization", f"Bearer {world.token(session=claim)}")]
            for method in ("GET", "DELETE"):
                async with RawClient(way.port) as client:
                    await client.ask(method, "/mcp", [("Accept", "text/event-stream"), *fields])
                    assert ((await client.head())[0] == 401) is (status == 401)


async def test_a_session_s_token_neither_opens_a_stream_of_http_sse_nor_sends_into_it() -> None:
    world, upstream = Tokened(), Upstream()

    async with upstream.server as server:
        settings = GatewaySettings(HttpUpstream(server.url.replace("/mcp", "/sse")), tokens=world.settings())
        async with RunningGateway(create_app(settings, key_sets=world.key_sets)) as gateway:
            async with RawClient(gateway.port) as client:
                await client.ask("GET", "/sse", [("Authorization", f"Bearer {world.token()}")])
                assert (await client.head())[0] == 200
                named = await client.event()
                target = ((named and named.data) or b"").decode()
                id = target.partition("session_id=")[2]
                fields = [("Authorization", f"Bearer {world.token(session=id)}"), ("Mcp-Session-Id", id)]
                body = compact({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL})
                for method, path, text in (("GET", "/sse", b""), ("POST", target, body)):
                    async with RawClient(gateway.port) as other:
                        await other.ask(method, path, [JSON, *fields] if text else fields, text)
                        assert refused(await other.answer())
            assert len(server.requests) == 1


@pytest.mark.slow
def test_a_session_s_token_is_good_on_no_stdio__which_has_no_session(key: IssuerKey, tmp_path: Path) -> None:
    with wrapped(tmp_path) as host:
        host.initialize()
        host.tool("echo", "call", {"token": wrap_token(key, session="a")})
        assert ELSEWHERE in host.message()["error"]["message"]


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
