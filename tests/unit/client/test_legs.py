"""How many dialogs a server opens at a client, in either era, and how much of its progress waits for a host."""

import asyncio

import pytest
from mcp import MCPError
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ElicitResult
from pydantic import BaseModel
from tests.world.raw_server import until
from tests.world.rounds_server import RoundsServer
from tests.world.running import RunningGateway

from accredit.client import AccreditedClient
from accredit.client.budgets import Budgets
from accredit.client.legs import MAX_WAITING_PROGRESS, one_at_a_time
from accredit.errors import InvalidInputRequired
from accredit.limits import MAX_DIALOGS
from accredit.rounds import InputContext, RoundsOptions

pytestmark = pytest.mark.holds("client/legs", "server-requests", "progress-order")


class Sure(BaseModel):
    sure: bool = True


@pytest.mark.parametrize("at_once", [True, False])
async def test_one_call_of_the_older_era_asks_no_more_than_its_rounds_could(at_once: bool) -> None:
    server, refused = MCPServer("asks"), 0
    open_now = most = asked = 0

    @server.tool()
    async def flood(context: Context) -> str:
        """Asks 100 times."""
        nonlocal refused
        asks = [context.elicit("Sure?", Sure) for _ in range(100)]
        if at_once:
            told = await asyncio.gather(*asks, return_exceptions=True)
        else:
            told = [(await asyncio.gather(ask, return_exceptions=True))[0] for ask in asks]
        refused = sum(isinstance(each, MCPError) for each in told)
        return "done"

    async def on_elicit(_context: InputContext, _params: object) -> ElicitResult:
        nonlocal open_now, most, asked
        open_now, asked = open_now + 1, asked + 1
        most = max(most, open_now)
        await asyncio.sleep(0)
        open_now -= 1
        return ElicitResult(action="accept", content={"sure": True})

    options = RoundsOptions(max_rounds=2)
    async with AccreditedClient(server, elicitation=on_elicit, rounds=options, mode="legacy") as client:
        assert not (await client.call_tool("flood")).is_error
        assert asked <= 2 * MAX_DIALOGS
        assert most <= MAX_DIALOGS
        assert refused == 100 - asked
        before = asked
        await client.call_tool("flood")  # another call has its own
        assert asked > before


def test_what_is_open_at_once_is_bounded_whatever_is_asked_for() -> None:
    budgets = Budgets(0)

    def nest(depth: int) -> None:
        with budgets.dialog():
            nest(depth + 1)

    with budgets.call(), pytest.raises(MCPError):
        nest(0)
    with budgets.call(), budgets.dialog():
        pass


async def test_a_round_asks_for_no_more_at_once_than_a_person_could_answer() -> None:
    form = {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    ask = {"method": "elicitation/create", "params": form}
    asks = {"resultType": "input_required", "inputRequests": {f"k{n}": ask for n in range(MAX_DIALOGS + 1)}}
    asked: list[str] = []

    async def on_elicit(context: InputContext, _params: object) -> ElicitResult:
        asked.append(context.key)
        return ElicitResult(action="decline")

    async with (
        RunningGateway(RoundsServer([asks])) as running,
        AccreditedClient(running.url, elicitation=on_elicit, mode="2026-07-28") as client,
    ):
        with pytest.raises(InvalidInputRequired, match=f"more than {MAX_DIALOGS} requests"):
            await client.call_tool("deploy")
    assert asked == []


async def test_a_host_that_is_slow_to_show_progress_keeps_few_of_what_a_server_tells__the_last_and_in_order() -> None:
    server, told, open_now = MCPServer("tells"), 20 * MAX_WAITING_PROGRESS, 0
    seen: list[float] = []
    shows = asyncio.Event()

    @server.tool()
    async def work(context: Context) -> str:
        """Tells its progress as fast as it can."""
        for done in range(told):
            await context.report_progress(done, told)
        return "done"

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        nonlocal open_now
        open_now += 1
        seen.append(progress)
        await shows.wait()
        assert open_now == 1
        open_now -= 1

    async with AccreditedClient(server, mode="legacy") as client:
        before = len(asyncio.all_tasks())
        assert not (await client.call_tool("work", progress=tell)).is_error
        await until(lambda: len(asyncio.all_tasks()) <= before + 1)
        assert len(seen) == 1
        shows.set()
        await until(lambda: seen[-1] == told - 1)
        assert seen == [seen[0], *range(told - MAX_WAITING_PROGRESS, told)]


async def test_after_a_callback_that_fails_the_next_is_told_at_once__it_waited_for_another_notification() -> None:
    seen: list[float] = []
    fails = asyncio.Event()

    async def show(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)
        if progress == 0:
            await fails.wait()
            raise RuntimeError("not the client's")

    tell = one_at_a_time(show)
    first = asyncio.create_task(tell(0, None, None))  # as the SDK does: a task for each
    await until(lambda: seen == [0])
    await tell(1, None, None)
    await tell(2, None, None)
    fails.set()
    await first
    assert seen == [0, 1, 2]
