"""Tasks of 2025-11-25 as the official TypeScript SDK has them, behind the gateway with proofs required."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.differential.peers.servers import TASKS, Peer, ProgramMissing, running
from tests.world.authorization import Signed, Trust
from tests.world.calls import Posted, compact, initialize, post
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.routes import messages_of
from tests.world.running import RunningGateway

from accredit.gateway import HttpUpstream, create_app
from accredit.jsonrpc.methods import Era
from accredit.policy.catalog import Catalog, Entry
from accredit.stores import MemoryStore, RevocationLists

pytestmark = pytest.mark.slow

READING = ("tasks/get", "tasks/result")


class Client:
    """An agent's session with the gateway."""

    def __init__(self, port: int, trust: Trust) -> None:
        self._port, self._trust = port, trust
        self._chain = trust.chain("email:read")
        self._session: list[tuple[str, str]] = []
        self._ids = 0

    async def open(self) -> None:
        answer = await self._send(initialize())
        session = answer.header("mcp-session-id")
        assert session, answer
        self._session = [("Mcp-Session-Id", session)]
        told = compact({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (await self._send(Posted(post(Era.LEGACY).headers, told))).status == 202

    async def ask(self, method: str, params: dict[str, Any], scope: str | None = None) -> dict[str, Any]:
        """A request with a proof that is bound to it; gives the response."""
        self._ids += 1
        signed = Signed(session=self._session[0][1], scope=scope)
        proof = self._trust.proof(self._chain, method, params, signed)
        asked = post(Era.LEGACY, method, {**params, "_meta": {"ratify_proof": proof}}, id=self._ids)
        (found,) = [each for each in messages_of(await self._send(asked)) if each.get("id") == self._ids]
        return found

    async def make(self, tool: str) -> str:
        """A call that becomes a task; gives the task's id."""
        params = {"name": tool, "arguments": {"to": "me"}, "task": {"ttl": 60_000}}
        answer = await self.ask("tools/call", params, "email:read")
        assert "result" in answer, answer
        return answer["result"]["task"]["taskId"]

    async def listed(self) -> set[str]:
        answer = await self.ask("tasks/list", {})
        return {task["taskId"] for task in answer["result"]["tasks"]}

    async def _send(self, posted: Posted) -> RawAnswer:
        async with RawClient(self._port) as client:
            await client.ask(
                "POST", "/mcp", [*posted.without_header("Mcp-Session-Id").headers, *self._session], posted.body
            )
            return await client.answer()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("peer")
    try:
        command = TASKS.command(folder)
    except ProgramMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    with running(command, TASKS.path, folder) as peer:
        yield peer


@asynccontextmanager
async def clients(peer: Peer) -> AsyncGenerator[tuple[Client, Client]]:
    """Two agents of one owner, at a gateway before the server."""
    mine, theirs = Trust(), Trust()
    theirs.owner = mine.owner
    entries = Catalog(tools={name: Entry(scope="email:read") for name in ("act", "stay")})
    settings = mine.settings(HttpUpstream(peer.url), policy={"catalog": entries})
    app = create_app(settings, store=MemoryStore(), revocations=RevocationLists((), {}))
    async with RunningGateway(app) as gateway:
        found = Client(gateway.port, mine), Client(gateway.port, theirs)
        for client in found:
            await client.open()
        yield found


async def test_the_maker_of_a_real_servers_task_reads_lists_and_cancels_it(server: Peer) -> None:
    async with clients(server) as (mine, _):
        done, stays = await mine.make("act"), await mine.make("stay")
        assert done != stays
        got = await mine.ask("tasks/get", {"taskId": done})
        assert (got["result"]["taskId"], got["result"]["status"]) == (done, "completed")
        result = await mine.ask("tasks/result", {"taskId": done})
        assert result["result"]["content"] == [{"type": "text", "text": "done"}]
        assert result["result"]["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": done}
        assert await mine.listed() == {done, stays}
        cancelled = await mine.ask("tasks/cancel", {"taskId": stays}, "email:read")
        assert (cancelled["result"]["taskId"], cancelled["result"]["status"]) == (stays, "cancelled")
        assert (await mine.ask("tasks/get", {"taskId": stays}))["result"]["status"] == "cancelled"


async def test_a_real_servers_task_is_no_other_agents__though_the_server_would_tell_it_to_anybody(server: Peer) -> None:
    async with clients(server) as (mine, theirs):
        id, own = await mine.make("stay"), await theirs.make("act")
        before = len(server.noted())
        for method in (*READING, "tasks/cancel"):
            for named in (id, "none"):
                scope = "email:read" if method == "tasks/cancel" else ""
                error = (await theirs.ask(method, {"taskId": named}, scope))["error"]
                assert (error["code"], error["data"]["error"]) == (-32602, "unknown_task")
        assert server.noted()[before:] == []
        assert await theirs.listed() == {own}
        assert (await mine.ask("tasks/get", {"taskId": id}))["result"]["status"] == "working"
