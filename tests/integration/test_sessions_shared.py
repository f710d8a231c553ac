"""One session at several gateways with the same keys, over both roads: used, resumed and ended wherever it comes."""

import hashlib
import json
import logging
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import SdkServer
from tests.world.authorization import Signed, Trust
from tests.world.calls import Posted, event, http, initialize, initialized, post
from tests.world.honest_server import SESSION as HONEST
from tests.world.honest_server import HonestServer
from tests.world.hostile import World, sends
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import RawServer
from tests.world.recorded import records_at, records_of
from tests.world.running import RunningGateway, run
from tests.world.stdio_processes import raw_command
from tests.world.tokened import Tokened

from accredit.gateway import GatewaySettings, HttpUpstream, StdioUpstream, create_app
from accredit.gateway.front.callers import MAX_SEALED_SESSION_ID_BYTES
from accredit.gateway.settings import RecordSettings, RoundsSettings
from accredit.jsonrpc.methods import Era
from accredit.limits import MAX_SESSION_ID_BYTES
from accredit.rounds import KeyRing
from accredit.stores import MemoryStore, RevocationLists

pytestmark = pytest.mark.holds("gateway/front/callers")

OLD, NEW, OTHER = b"o" * 32, b"n" * 32, b"x" * 32
ACCEPT = ("Accept", "application/json, text/event-stream")
TOKENED = Tokened()
NOT_FOUND = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found"}}'
ANYWHERE, HERE = re.compile(r"a1\.[\w-]{100,200}"), re.compile(r"a1\.[0-9a-f]{16}\.[\w-]{100,200}")


def shared(*keys: bytes) -> RoundsSettings:
    return RoundsSettings(KeyRing(keys), shared=True)


@asynccontextmanager
async def gateways(
    upstream: HttpUpstream | StdioUpstream, *rings: Sequence[bytes], tokens: bool = False
) -> AsyncGenerator[list[int]]:
    """Gateways of a cluster, each with its own keys; gives their ports."""
    settings = TOKENED.settings() if tokens else None
    async with AsyncExitStack() as running:
        apps = [
            create_app(
                GatewaySettings(upstream, rounds=shared(*ring), tokens=settings),
                key_sets=TOKENED.key_sets if tokens else None,
            )
            for ring in rings
        ]
        yield [(await running.enter_async_context(RunningGateway(app))).port for app in apps]


@asynccontextmanager
async def honest(*rings: Sequence[bytes], tokens: bool = False) -> AsyncGenerator[tuple[RawServer, list[int]]]:
    """A server, and the ports of gateways before it."""
    async with (
        RawServer(HonestServer()) as server,
        gateways(HttpUpstream(server.url), *rings, tokens=tokens) as ports,
    ):
        yield server, ports


def within(posted: Posted, session: str, token: str | None = None) -> Posted:
    """A request in a session."""
    headers = [pair for pair in posted.without_header("Mcp-Session-Id").headers if pair[0] != "Accept"]
    given = [("Mcp-Session-Id", session)] if session else []
    bearer = [("Authorization", f"Bearer {token}")] if token else []
    return Posted([*headers, ACCEPT, *given, *bearer], posted.body)


async def ask(port: int, posted: Posted, method: str = "POST") -> RawAnswer:
    async with RawClient(port) as client:
        await client.ask(method, "/mcp", posted.headers, posted.body)
        return await client.answer()


async def begin(port: int, token: str | None = None) -> str:
    """A session's id."""
    answer = await ask(port, within(initialize(), "", token))
    assert answer.status == 200, answer
    return answer.header("mcp-session-id") or ""


LIST, EMPTY = post(Era.LEGACY, "tools/list", {}), Posted([], b"")


async def status(port: int, session: str, token: str | None = None) -> int:
    return (await ask(port, within(LIST, session, token))).status


@pytest.mark.slow
@pytest.mark.holds("gateway/front/callers", "owner", "stable-id")
@pytest.mark.parametrize("tokens", [False, True], ids=["nobody", "tokens"])
async def test_a_session_begins_at_one_gateway_and_is_used_streamed_and_ended_at_others__also_while_keys_change(
    tokens: bool, sdk_server: SdkServer
) -> None:
    mine, theirs = (TOKENED.token(sub=name) if tokens else None for name in ("alice", "bob"))

    rings = (OLD,), (OLD, NEW), (NEW, OLD), (NEW, OLD), (OTHER,), (NEW,)
    async with gateways(HttpUpstream(sdk_server.url), *rings, tokens=tokens) as ports:
        first, second, third, fourth, foreign, changed = ports
        session = await begin(first, mine)
        assert ANYWHERE.fullmatch(session)
        told = Posted(LIST.headers, b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        assert (await ask(second, within(told, session, mine))).status == 202
        for port in ports[:4]:
            answer = await ask(port, within(LIST, session, mine))
            assert answer.status == 200
            assert answer.header("mcp-session-id") in (session, None)
        async with RawClient(third) as stream:
            await stream.ask("GET", "/mcp", within(EMPTY, session, mine).headers)
            assert (await stream.head())[0] == 200
            assert await status(fourth, session, mine) == 200
        for port in (foreign, changed):
            for method in ("POST", "GET", "DELETE"):
                answer = await ask(port, within(LIST if method == "POST" else EMPTY, session, mine), method)
                assert answer.status == 404
        if tokens:
            assert await status(second, session, theirs) == 404
            assert await status(second, await begin(first, theirs), mine) == 404
        assert (await ask(fourth, within(EMPTY, session, mine), "DELETE")).status in (200, 204)
        assert await status(first, session, mine) == 404


@pytest.mark.holds("gateway/front/callers", "unknown-session")
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_an_id_that_is_none_is_the_same_404_whatever_the_cause_and_reaches_no_server(method: str) -> None:
    async with honest((OLD,), (OTHER,)) as (server, (near, foreign)):
        own, other = await begin(near), await begin(foreign)
        before = len(server.requests)
        flipped = own[:-1] + ("A" if own[-1] != "A" else "B")
        spelled = [own + "=", own.upper(), own[3:], f"a1.{'0' * 16}.{own[3:]}", own + own]
        named = [other, flipped, *spelled, server_id(server), "a1.", "a1.x.y", "a1." + "A" * 5_000, "-"]
        posted = LIST if method == "POST" else EMPTY
        said = [await ask(near, within(posted, each), method) for each in named]
        assert {(answer.status, answer.body, tuple(answer.headers)) for answer in said} == {
            (404, NOT_FOUND.replace(b"null", b"7" if method == "POST" else b"null"), tuple(said[0].headers))
        }
        long = within(posted, "a1." + "A" * MAX_SEALED_SESSION_ID_BYTES)
        assert (await ask(near, long, method)).status == 400
        assert len(server.requests) == before


def server_id(server: RawServer) -> str:
    """What the server itself calls its sessions."""
    named = {request.header("mcp-session-id") for request in server.requests} - {None}
    assert named <= {HONEST}
    return HONEST


@pytest.mark.holds("gateway/front/session_ids", "prefix")
async def test_a_session_of_a_child_is_found_at_its_own_gateway_alone__and_its_id_says_where() -> None:
    async with gateways(StdioUpstream(raw_command()), (OLD,), (OLD,)) as (owner, other):
        session, second = await begin(owner), await begin(other)
        assert HERE.fullmatch(session)
        assert await status(owner, session) == 200
        node, there = session.split(".")[1], second.split(".")[1]
        assert node != there
        assert (await begin(owner)).split(".")[1] == node
        for port, id in (
            (other, session),
            (other, session.replace(node, there)),
            (other, f"a1.{session.rpartition('.')[2]}"),
            (owner, second),
            (owner, second.replace(there, node)),
        ):
            for method in ("POST", "GET", "DELETE"):
                asked = within(LIST if method == "POST" else EMPTY, id)
                assert (await ask(port, asked, method)).status == 404
        assert (await ask(owner, within(EMPTY, session), "DELETE")).status == 204
        # One that has ended is none as well, to the byte.
        ended, forged = [await ask(owner, within(LIST, id)) for id in (session, session[:-4] + "AAAA")]
        assert (ended.status, ended.body) == (forged.status, forged.body) == (404, NOT_FOUND.replace(b"null", b"7"))


@pytest.mark.parametrize("streamed", [None, b"", b"id: 1\ndata:\n\n"], ids=["json", "events", "primed"])
async def test_a_servers_long_id_works_or_is_refused_clearly__and_ended_at_the_server(streamed: bytes | None) -> None:
    async def begun(size: int) -> tuple[RawAnswer, list[str | None], int]:
        head = (("Mcp-Session-Id", "x" * size),)
        body = streamed + event(initialized()) if streamed is not None else initialized()
        kind = "text/event-stream" if streamed is not None else "application/json"
        async with World(sends(http(body, kind, headers=head)), rounds=shared(OLD)) as world:
            answer = await world.ask(within(initialize(), ""))
            used = await world.ask(within(LIST, answer.header("mcp-session-id") or ""), hostile=False)
            return answer, world.ended_sessions(), used.status

    answer, ended, used = await begun(MAX_SESSION_ID_BYTES)
    assert (answer.status, ended, used) == (200, [], 200)
    answer, ended, _ = await begun(MAX_SESSION_ID_BYTES + 1)
    assert (answer.status, ended) == (502, ["x" * (MAX_SESSION_ID_BYTES + 1)])
    assert answer.header("mcp-session-id") is None
    assert "4096 bytes" in json.loads(answer.body)["error"]["data"]


@pytest.mark.parametrize(("revision", "allowed"), [("2025-03-26", 200), ("2025-06-18", 400)])
async def test_any_gateway_knows_a_sessions_revision__which_says_whether_a_batch_is_allowed(
    revision: str, allowed: int
) -> None:
    async with honest((OLD,), (OLD,)) as (_, (first, second)):
        answer = await ask(first, within(initialize(revision), ""))
        session = answer.header("mcp-session-id") or ""
        batch = Posted([("Content-Type", "application/json")], b"[" + LIST.body + b"]")
        for port in (first, second):
            assert (await ask(port, within(batch, session))).status == allowed


async def test_a_proof_that_is_bound_to_a_session_is_good_at_any_gateway_of_it() -> None:
    trust = Trust()
    settings: GatewaySettings = trust.settings(HttpUpstream("http://127.0.0.1:9/mcp"))
    params: dict[str, Any] = {"name": "list_inbox", "arguments": {}}

    async with RawServer(HonestServer()) as server, AsyncExitStack() as running:
        told = replace(settings, upstream=HttpUpstream(server.url), rounds=shared(OLD))
        apps = [create_app(told, store=MemoryStore(), revocations=RevocationLists((), {})) for _ in range(2)]
        first, second = [(await running.enter_async_context(RunningGateway(app))).port for app in apps]
        session, other = await begin(first), await begin(first)
        proof = trust.proof(trust.chain(), "tools/call", params, Signed(session=session))
        signed = post(Era.LEGACY, "tools/call", {**params, "_meta": {"ratify_proof": proof}})
        assert "error" in json.loads((await ask(second, within(signed, other))).body)
        assert "result" in json.loads((await ask(second, within(signed, session))).body)


def test_a_sealed_id_is_in_no_record_and_no_log__it_opens_the_session_for_whoever_has_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    log = tmp_path / "log.db"
    call = post(Era.LEGACY, "tools/call", {"name": "list_inbox", "arguments": {}})

    async def main() -> list[str]:
        async with RawServer(HonestServer()) as server:
            told = GatewaySettings(HttpUpstream(server.url), rounds=shared(OLD), records=RecordSettings("gate"))
            async with RunningGateway(create_app(told, records=records_at(log))) as gateway:
                session = await begin(gateway.port)
                assert await status(gateway.port, session) == 200
                assert (await ask(gateway.port, within(call, session))).status == 200
                assert (await ask(gateway.port, within(call, session[:-4] + "AAAA"))).status == 404
                return [session, session[:-4] + "AAAA"]

    ids = run(main())
    said = caplog.text + str([(record.__dict__, record.exc_info) for record in caplog.records])
    records, digest = records_of(log), hashlib.sha256(ids[0].encode()).hexdigest()
    assert [record.call.session for record in records] == [f"sha256:{digest[:32]}"] * 2 + [None]
    for id in ids:
        assert id[-40:] not in said + str(records)
        assert not any(id[-40:].encode() in file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
