"""Clients that call without a pause, while the server, the gateway and the connections between them come and go."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from mcp import MCPError
from tests.world.agents import AgentFiles, agent_files, guard_any_tool
from tests.world.authorization import Trust
from tests.world.calls import meta
from tests.world.command import Serving
from tests.world.connected import Connected
from tests.world.ports import reserved_port
from tests.world.raw_server import until
from tests.world.restarted import Restarted
from tests.world.running import run
from tests.world.wire import Wire

from accredit.client import AccreditedClient, ProofPresenter

pytestmark = pytest.mark.slow

CLEAR = ("Upstream unavailable", "Invalid upstream JSON-RPC response")
LOOPS = 2
ENOUGH = 3
"""Calls of each loop that have to succeed, each time that all is well again."""
Add = Callable[[int, int], Awaitable[int | str]]
"""Gives the sum, or the words of the error that came instead."""


class Load:
    """Loops that call. What is begun while all is well, and meets no trouble, has to succeed."""

    def __init__(self, adders: dict[str, Add]) -> None:
        self._adders = adders
        self._is_well = True
        self._phase = 0
        self._done: dict[tuple[str, int], int] = {}
        self._over = False

    async def run(self, troubles: list[Callable[[], Awaitable[None]]]) -> None:
        """Calls before, during and after each of these."""
        async with asyncio.TaskGroup() as group:
            for name, add in self._adders.items():
                for number in range(LOOPS):
                    group.create_task(self._loop(f"{name} {number}", number, add))
            await self._enough()
            for trouble in troubles:
                self._phase, self._is_well = self._phase + 1, False
                await trouble()
                self._phase, self._is_well = self._phase + 1, True
                await self._enough()
            self._over = True

    async def _enough(self) -> None:
        names = [f"{name} {number}" for name in self._adders for number in range(LOOPS)]
        await until(lambda: all(self._done.get((name, self._phase), 0) >= ENOUGH for name in names))

    async def _loop(self, name: str, number: int, add: Add) -> None:
        count = 0
        while not self._over:
            count += LOOPS
            began, was_well = self._phase, self._is_well
            told = await add(count + number, 1)
            if told == count + number + 1:
                self._done[name, began] = self._done.get((name, began), 0) + 1
                continue
            # A connection that was cut may be used once more, before the other process has heard of it.
            has_done = not began or (name, began) in self._done
            assert not (was_well and has_done and began == self._phase), f"{name}, phase {began}: {told}"
            assert str(told).startswith(CLEAR), f"{name}: {told}"
            await asyncio.sleep(0.05)  # as an agent that is told to come back


class Host:
    """Several calls at once over one `connect`."""

    def __init__(self, host: Connected, meta: dict[str, Any] | None) -> None:
        self._host = host
        self._meta = {"_meta": meta} if meta else {}
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._number = 0

    async def add(self, a: int, b: int) -> int | str:
        self._number += 1
        id, waiting = self._number, asyncio.get_running_loop().create_future()
        self._waiting[id] = waiting
        self._host.say(id=id, method="tools/call", params={"name": "add", "arguments": {"a": a, "b": b}, **self._meta})
        told = await waiting
        if "error" in told:
            return f"{told['error']['message']}: {told['error'].get('data')}"
        return told["result"].get("structuredContent", {}).get("result", str(told))

    async def hear(self) -> None:
        """Gives answers to who waits for them, until the host ends."""
        with contextlib.suppress(AssertionError):
            while True:
                message = await asyncio.to_thread(self._host.hear)
                waiting = self._waiting.pop(message["id"]) if "method" not in message else None
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)


@asynccontextmanager
async def connected(files: AgentFiles, url: str, modern: dict[str, Any] | None = None) -> AsyncGenerator[Add]:
    with Connected(files.folder, url, *files.options) as process:
        if not modern:
            await asyncio.to_thread(process.initialize)
        host = Host(process, modern)
        hearing = asyncio.create_task(host.hear())
        try:
            yield host.add
        finally:
            process.close_input()
            await hearing


@asynccontextmanager
async def client(files: AgentFiles, url: str, mode: str) -> AsyncGenerator[Add]:
    presenter = ProofPresenter(files.key, [files.delegation])
    async with AccreditedClient(url, presenter=presenter, mode=mode) as found:

        async def add(a: int, b: int) -> int | str:
            try:
                result = await found.call_tool("add", {"a": a, "b": b})
            except MCPError as error:
                return f"{error.error.message}: {error.error.data}"
            return (result.structured_content or {}).get("result", str(result))

        yield add


def test_clients_that_call_on_outlive_restarts_of_server_gateway_and_network__with_proofs(tmp_path: Path) -> None:
    async def main(server: Restarted, port: int) -> None:
        files = agent_files(tmp_path, Trust(), "mcp:tool")
        async with AsyncExitStack() as stack:
            behind = await stack.enter_async_context(Wire(urlsplit(server.url).port or 0))
            before = await stack.enter_async_context(Wire(port))
            guard_any_tool(tmp_path, behind.url)
            running: list[Serving] = []

            async def start_gateway() -> None:
                started = Serving("--config", "accredit.toml", "--port", str(port), folder=tmp_path)
                running.append(await asyncio.to_thread(stack.enter_context, started))

            async def restart_gateway() -> None:
                gateway = running.pop()
                gateway.process.kill()
                gateway.wait()
                await start_gateway()

            async def restart_server() -> None:
                server.kill()
                await asyncio.to_thread(server.start)

            async def cut() -> None:
                before.cut()
                behind.cut()

            await start_gateway()
            adders = {
                "a host of the legacy era": await stack.enter_async_context(connected(files, before.url)),
                "a modern host": await stack.enter_async_context(connected(files, before.url, meta())),
                "a client of the legacy era": await stack.enter_async_context(client(files, before.url, "legacy")),
                "a modern client": await stack.enter_async_context(client(files, before.url, "auto")),
            }
            await Load(adders).run([cut, restart_gateway, cut, restart_server])
            assert before.cuts
            assert behind.cuts

    with reserved_port() as port, Restarted(tmp_path) as server:
        run(main(server, port))
