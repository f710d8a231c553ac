"""Room for sessions before a stdio server: what is never used, or idle, gives way; what is at work never does."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from tests.world.calls import initialize, post
from tests.world.crowd import Crowd, request
from tests.world.raw_client import RawClient
from tests.world.raw_server import until
from tests.world.running import RunningGateway
from tests.world.stdio_bridge import Bridge, SessionClient, modern
from tests.world.stdio_processes import descendants, raw_command
from tests.world.tokened import Tokened

from accredit.gateway import GatewaySettings, StdioUpstream, create_app
from accredit.jsonrpc.methods import Era

pytestmark = pytest.mark.slow

MOST = 4


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accredit.gateway.upstream.stdio.backend.MAX_SESSIONS", MOST)


async def is_there(session: SessionClient) -> bool:
    status, _ = await session.call("echo")
    assert status in (200, 404)
    return status == 200


@pytest.mark.holds("gateway/upstream/stdio/backend", "fairness")
async def test_sessions_of_a_stranger_that_were_never_used_make_room_for_everybody_else() -> None:
    async with Bridge() as bridge:
        mine = await bridge.session()
        assert await is_there(mine)
        for _ in range(2 * MOST):
            assert (await bridge.send(initialize())).status == 200
        assert await is_there(mine)  # used once, it is worth more than those, however long it is idle
        assert await is_there(await bridge.session())


@pytest.mark.holds("gateway/upstream/stdio/backend", "fairness")
async def test_sessions_of_clients_that_left_without_a_delete_make_room__the_longest_idle_first() -> None:
    async with Bridge() as bridge:
        sessions = [await bridge.session() for _ in range(MOST)]
        for session in [*sessions, sessions[0]]:
            assert await is_there(session)
        late = await bridge.session()
        assert [await is_there(session) for session in (*sessions, late)] == [True, False, True, True, True]


@pytest.mark.holds("gateway/upstream/stdio/backend", "in-use")
async def test_a_call_that_is_open_is_never_cut_off_for_somebody_else_s_session() -> None:
    async with Bridge() as bridge:
        sessions = [await bridge.session() for _ in range(MOST)]
        calls = [asyncio.create_task(session.call("hang", id="hang")) for session in sessions]
        async with Crowd(bridge.port) as crowd:
            for _ in range(2):
                await until(lambda: bridge.gateway.app.routes.rooms.calls.taken == MOST)
                (late,) = await crowd.join(1, request("POST", initialize()))
                assert await late.status() == 503
                assert b"\r\nretry-after: 1\r\n" in late.head
                assert json.loads(await late.body())["error"] == {"code": -32000, "message": "Too many sessions"}
        assert not any(call.done() for call in calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await until(lambda: bridge.gateway.app.routes.rooms.calls.taken == 0)
        assert (await bridge.send(initialize())).status == 200  # nobody waits for an answer any more


@pytest.mark.holds("gateway/upstream/stdio/backend", "streams")
async def test_a_session_that_listens_stays__behind_a_proxy_for_any_stranger__and_makes_room_for_another_address() -> (
    None
):
    async with Bridge() as bridge, RawClient(bridge.port) as one, RawClient(bridge.port) as two:
        sessions = [await bridge.session() for _ in range(MOST)]
        streams = [one, two, RawClient(bridge.port), RawClient(bridge.port)]
        async with streams[2], streams[3], Crowd(bridge.port, "127.0.0.2") as other:
            for session, client in zip(sessions, streams, strict=True):
                assert await session.get(client) == 200
            assert (await bridge.send(initialize())).status == 503
            assert await other.asks(initialize()) == 200
            assert [await is_there(session) for session in sessions] == [False, True, True, True]


@pytest.mark.holds("gateway/upstream/stdio/backend", "authenticated")
async def test_strangers_hold_no_session_of_the_reserve_and_end_none_of_a_good_token() -> None:
    tokened = Tokened()
    settings = GatewaySettings(StdioUpstream(raw_command()), tokens=tokened.settings(required=False))

    gateway = RunningGateway(create_app(settings, key_sets=tokened.key_sets))
    async with gateway, Crowd(gateway.port) as crowd:
        bearer = f"Bearer {tokened.token()}"
        theirs: list[str] = []
        for _ in range(MOST):
            (member,) = await crowd.join(1, request("POST", initialize(), Authorization=bearer))
            assert await member.status() == 200
            theirs.append(member.head.partition(b"mcp-session-id: ")[2].partition(b"\r\n")[0].decode())
        for _ in range(2 * MOST):
            assert await crowd.asks(initialize()) == 200
        asked = post(Era.LEGACY, "tools/call", {"name": "echo", "arguments": {}})
        answers = [request("POST", asked, Authorization=bearer, Mcp_Session_Id=session) for session in theirs]
        members = [(await crowd.join(1, each))[0] for each in answers]
        assert [await member.status() for member in members] == [404] + [200] * (MOST - 1)


async def test_slow_calls_of_strangers_to_the_child_that_all_share_leave_room_for_a_good_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("accredit.gateway.room.MAX_CALLS", 4)
    tokened = Tokened()
    settings = GatewaySettings(StdioUpstream(raw_command()), tokens=tokened.settings(required=False))

    gateway = RunningGateway(create_app(settings, key_sets=tokened.key_sets))
    async with gateway, Crowd(gateway.port) as crowd:
        await crowd.join(3, request("POST", modern("mute")))
        await until(lambda: gateway.app.routes.rooms.calls.taken == 3)
        assert await crowd.asks(modern("echo")) == 503
        mine = request("POST", modern("echo"), Authorization=f"Bearer {tokened.token()}")
        (member,) = await crowd.join(1, mine)
        assert await member.status() == 200


async def test_of_several_servers_none_has_more_than_its_part_of_the_children__they_would_take_all_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("accredit.gateway.upstream.stdio.backend.MIN_SESSIONS", 1)
    several = [
        GatewaySettings(StdioUpstream(raw_command(f"--name={name}")), server=name, path=f"/mcp/{name}")
        for name in ("loud", "calm")
    ]

    async def begin(port: int, name: str) -> int:
        async with RawClient(port) as client:
            await client.ask("POST", f"/mcp/{name}", initialize().headers, initialize().body)
            return (await client.answer()).status

    async with RunningGateway(create_app(several)) as gateway:
        assert [await begin(gateway.port, "calm") for _ in range(2)] == [200, 200]
        calm = children("--name=calm")
        assert {await begin(gateway.port, "loud") for _ in range(3 * MOST)} == {200}
        await until(lambda: len(children("--name=loud")) == MOST // 2)
        assert children("--name=calm") == calm
        assert len(calm) == MOST // 2


def children(word: str) -> set[int]:
    """The processes below this one whose command has a word."""
    commands = {pid: Path(f"/proc/{pid}/cmdline") for pid in descendants(os.getpid())}
    return {pid for pid, file in commands.items() if file.exists() and word.encode() in file.read_bytes().split(b"\0")}
