"""Calls whose stream is cut off and resumed (legacy era): the outcome is that of the answer that comes at last."""

import gc
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from tests.world.calls import (
    SESSION,
    chunk,
    compact,
    event,
    log_message,
    post,
    response,
)
from tests.world.cut_streams import CutStreams
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import RawServer, until
from tests.world.recorded import FailingRecords, outcomes, records_at, records_of, verified
from tests.world.records import GATEWAY
from tests.world.running import RunningGateway
from tests.world.thief import Thief

from accredit.attest import CallDecision
from accredit.errors import StoreUnavailable
from accredit.gateway import GatewaySettings, HttpUpstream, create_app
from accredit.gateway.counters import Counters
from accredit.gateway.recording import resumable_calls as cut_off
from accredit.gateway.recording.recorder import Recorder
from accredit.gateway.settings import RecordSettings
from accredit.jsonrpc.methods import Era
from accredit.ports import Records

pytestmark = pytest.mark.slow

ACCEPT = ("Accept", "text/event-stream")


class World:
    """The upstream, and the gateways before it, one for each log. `here` is the one that is asked; `full` records have
    the arguments."""

    def __init__(self, *logs: Records, full: bool = False) -> None:
        self.upstream = CutStreams()
        self.here = 0
        self.server = RawServer(self.upstream)
        self._records = RecordSettings(GATEWAY, full)
        self._logs = logs
        self._gateways: list[RunningGateway] = []

    async def __aenter__(self) -> "World":
        await self.server.__aenter__()
        settings = GatewaySettings(HttpUpstream(self.server.url), records=self._records)
        for log in self._logs:
            self._gateways.append(RunningGateway(create_app(settings, records=log)))
            await self._gateways[-1].__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        for gateway in self._gateways:
            await gateway.__aexit__(None, None, None)
        await self.server.__aexit__(None, None, None)

    @property
    def refused(self) -> list[dict[str, int]]:
        """What each gateway has refused."""
        return [gateway.app.refused for gateway in self._gateways]

    def client(self) -> RawClient:
        return RawClient(self._gateways[self.here].port)

    async def call(self, tool: str, id: int = 7, **arguments: str) -> RawAnswer:
        """Calls a tool; gives what came until the stream ended."""
        posted = post(Era.LEGACY, "tools/call", {"name": tool, "arguments": arguments}, id=id)
        async with self.client() as client:
            await client.ask("POST", "/mcp", posted.headers, posted.body)
            return await client.answer()

    async def abandon(self, tool: str, id: int = 7) -> None:
        """Calls a tool and goes away after the first event."""
        async with self.client() as client:
            await self.begin(client, tool, id)

    async def begin(self, client: RawClient, tool: str, id: int = 7) -> None:
        """Calls a tool and reads the first event."""
        posted = post(Era.LEGACY, "tools/call", {"name": tool, "arguments": {}}, id=id)
        await client.ask("POST", "/mcp", posted.headers, posted.body)
        await client.head()
        assert await client.event() is not None

    async def resume(self, client: RawClient, session: str = SESSION) -> None:
        """Resumes a stream."""
        await client.ask("GET", "/mcp", [ACCEPT, ("Mcp-Session-Id", session), ("Last-Event-ID", "1")])
        assert (await client.head())[0] == 200

    async def send(self, data: bytes) -> None:
        """Sends an event on the stream that was resumed last."""
        await self.upstream.resumed[-1].send(chunk(event(data, id="2")))

    def found_by(self, session: str, id: int) -> bytes:
        """What the log finds an open call by."""
        return Recorder(self._logs[0], RecordSettings(GATEWAY), Counters())._resume(session, id)

    async def answered(self, client: RawClient, data: bytes) -> object:
        """The message that comes on a resumed stream when the upstream sends one."""
        await self.send(data)
        came = await client.event()
        assert came is not None
        assert came.data is not None
        return json.loads(came.data)


@pytest.mark.holds("gateway/recording/resumable_calls", "stays-open", "resumed")
@pytest.mark.parametrize("by_client", [False, True])
async def test_the_outcome_is_what_the_resumed_stream_brings(by_client: bool, tmp_path: Path) -> None:
    log = tmp_path / "log.db"

    async with World(records_at(log)) as world:
        if by_client:
            world.upstream.cut = False
            await world.abandon("a")
        else:
            assert b'"error"' not in (await world.call("a")).body
        assert outcomes(log) == [("a", None)]
        async with world.client() as client:
            await world.resume(client)
            await world.send(log_message())
            assert await client.event() is not None
            assert outcomes(log) == [("a", None)]
            await world.answered(client, response())
            assert outcomes(log) == [("a", "ok")]  # before the client has it
    assert outcomes(log) == [("a", "ok")]
    assert verified(log).valid


async def test_a_stream_may_be_cut_off_again_and_two_calls_are_told_apart(tmp_path: Path) -> None:
    log = tmp_path / "log.db"

    async with World(records_at(log)) as world:
        await world.call("a", 1)
        await world.call("b", 2)
        async with world.client() as client:
            await world.resume(client)
            world.upstream.resumed[-1].writer.close()
            assert await client.event() is None
        assert outcomes(log) == [("a", None), ("b", None)]
        async with world.client() as client:
            await world.resume(client)
            failed = compact({"jsonrpc": "2.0", "id": 2, "result": {"content": [], "isError": True}})
            await world.answered(client, failed)
            assert outcomes(log) == [("a", None), ("b", "tool_error")]
            await world.answered(client, response(1))
            assert outcomes(log) == [("a", "ok"), ("b", "tool_error")]


@pytest.mark.holds("gateway/recording/resumable_calls", "resumed")
async def test_another_session_s_stream_settles_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log.db"

    async with World(records_at(log)) as world:
        await world.call("a")
        async with world.client() as client:
            await world.resume(client, "another")
            await world.answered(client, response())
        assert outcomes(log) == [("a", None)]
    assert outcomes(log) == [("a", "unknown")]


async def test_a_stream_that_the_gateway_still_holds_may_be_resumed_too(tmp_path: Path) -> None:
    log = tmp_path / "log.db"

    async with World(records_at(log)) as world:
        world.upstream.cut = False
        async with world.client() as first, world.client() as second:
            await world.begin(first, "a")
            await world.resume(second)
            await world.answered(second, response())
            assert outcomes(log) == [("a", "ok")]
    assert outcomes(log) == [("a", "ok")]


@pytest.mark.holds("gateway/recording/resumable_calls", "own-outcome")
@pytest.mark.parametrize(("by_client", "status"), [(False, "unknown"), (True, "cancelled")])
async def test_a_call_that_nobody_resumes_is_left_as_its_stream_left_it(
    by_client: bool, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log.db"
    monkeypatch.setattr(cut_off, "RESUME_SECONDS", 0.0)

    async with World(records_at(log)) as world:
        world.upstream.cut = not by_client
        await (world.abandon("a") if by_client else world.call("a"))
        await until(lambda: outcomes(log) == [("a", status)])


async def test_while_a_stream_is_resumed_its_call_waits_and_then_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log.db"

    async with World(records_at(log)) as world:
        await world.call("a")
        async with world.client() as client:
            await world.resume(client)
            monkeypatch.setattr(cut_off, "RESUME_SECONDS", 0.0)
            await world.call("b", 8)  # else it would begin and end the wait
            await world.call("c", 9)
            assert outcomes(log) == [("a", None), ("b", None), ("c", None)]
        await until(lambda: {status for _, status in outcomes(log)} == {"unknown"})


async def test_the_end_of_the_session_is_the_end_of_its_calls(tmp_path: Path) -> None:
    log = tmp_path / "log.db"

    async with World(records_at(log)) as world:
        await world.call("a")
        async with world.client() as client:
            await client.ask("DELETE", "/mcp", [("Mcp-Session-Id", SESSION)])
            assert (await client.answer()).status == 204
        await until(lambda: outcomes(log) == [("a", "unknown")])


async def test_the_end_of_the_gateway_is_the_end_of_what_waits(tmp_path: Path) -> None:
    log = tmp_path / "log.db"

    async with World(records_at(log)) as world:
        world.upstream.cut = False
        await world.abandon("a")
    assert outcomes(log) == [("a", "cancelled")]


@pytest.mark.holds("gateway/recording/resumable_calls", "own-outcome")
async def test_what_waits_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log.db"
    monkeypatch.setattr(cut_off, "MAX_CUT_OFF_CALLS", 1)

    async with World(records_at(log)) as world:
        await world.call("a", 1)
        await world.call("b", 2)
        await until(lambda: outcomes(log) == [("a", None), ("b", "unknown")])
    assert outcomes(log) == [("a", "unknown"), ("b", "unknown")]


def held() -> int:
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    return kept


@pytest.mark.parametrize("full", [False, True])
async def test_what_waits_keeps_nothing_of_its_arguments__a_thousand_calls_would_take_gigabytes(
    full: bool, tmp_path: Path
) -> None:
    log, text, many = tmp_path / "log.db", "x" * 1_000_000, 8

    async with World(records_at(log), full=full) as world:
        await world.call("first", 1, text=text)  # which makes what is made once
        world.server.requests.clear()
        tracemalloc.start()
        try:
            for id in range(2, 2 + many):
                await world.call("a", id, text=text)
                world.server.requests.clear()
            assert outcomes(log) == [("first", None)] + many * [("a", None)]
            await until(lambda: held() < many * len(text) / 4)  # a thread may still hold the last one
        finally:
            tracemalloc.stop()
        async with world.client() as client:
            await world.resume(client)
            await world.answered(client, response(2))
            assert outcomes(log)[1] == ("a", "ok")
    assert verified(log).valid


async def test_a_call_that_was_answered_takes_no_room_from_those_that_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log.db"
    monkeypatch.setattr(cut_off, "MAX_CUT_OFF_CALLS", 1)

    async with World(records_at(log)) as world:
        await world.call("a", 1)
        for tool, id in (("b", 2), ("c", 3)):
            async with world.client() as client:
                await world.resume(client)
                await world.answered(client, response(id=id - 1))
                await world.call(tool, id)
        async with world.client() as client:
            await world.resume(client)
            await world.answered(client, response(id=3))
    assert outcomes(log) == [("a", "ok"), ("b", "ok"), ("c", "ok")]


async def test_an_answer_that_can_not_be_recorded_is_withheld_on_a_resumed_stream_too() -> None:
    log = FailingRecords()
    async with World(log) as world:
        await world.call("a")
        async with world.client() as client:
            await world.resume(client)
            told = await world.answered(client, response())
            assert isinstance(told, dict)
            assert (told["id"], told["error"]["code"]) == (7, -31006)
    assert [outcome.status for outcome in log.outcomes] == ["ok"]


@pytest.mark.holds("gateway/recording/resumable_calls", "resumed")
async def test_a_stream_that_is_resumed_at_another_gateway_has_its_outcome_recorded_there(tmp_path: Path) -> None:
    log = tmp_path / "log.db"

    async with World(records_at(log), records_at(log)) as world:
        await world.call("a")
        await world.call("b", 8)
        world.here = 1
        async with world.client() as client:
            await world.resume(client)
            await world.answered(client, response())
            assert outcomes(log) == [("a", "ok"), ("b", None)]  # before the client has it
            await world.answered(client, response(99))  # which nobody has recorded
        async with world.client() as client:
            await world.resume(client, "another")
            await world.answered(client, response(8))
            assert outcomes(log) == [("a", "ok"), ("b", None)]
    assert outcomes(log) == [("a", "ok"), ("b", "unknown")]
    assert world.refused == [{}, {}]  # whose call was claimed has nothing to refuse
    decision, outcome = [record.log.writer for record in records_of(log) if record.call.target == "a"]
    assert decision != outcome
    assert verified(log).valid


async def test_an_answer_of_one_session_is_not_recorded_as_that_of_a_call_of_another__whatever_a_row_says(
    tmp_path: Path,
) -> None:
    """Whoever may write the store could file a call under what another one is found by."""
    log = tmp_path / "log.db"

    async with World(records_at(log), records_at(log)) as world:
        await world.call("pay")
        await world.call("look", 8)
        thief = Thief(log)
        ((found,),) = thief.run("SELECT resume FROM log_open WHERE call = ?", records_of(log)[0].call.id)
        another = world.found_by("another", 7)
        assert found == world.found_by(SESSION, 7) != another
        thief.run("UPDATE log_open SET resume = ? WHERE resume = ?", another, found)
        world.here = 1
        async with world.client() as client:
            await world.resume(client, "another")
            told: Any = await world.answered(client, response())
            assert (told["id"], told["error"]["code"]) == (7, -31006)
            assert outcomes(log) == [("pay", None), ("look", None)]
    assert outcomes(log) == [("pay", "unknown"), ("look", "unknown")]
    assert verified(log).valid


async def test_a_call_that_goes_on_in_a_stream_that_was_resumed_before_is_settled_there__also_where_it_is_known(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log.db"

    async with World(records_at(log)) as world, world.client() as client:
        await world.resume(client)
        await world.call("a")
        await world.answered(client, response())
        assert outcomes(log) == [("a", "ok")]
        assert {record.log.writer for record in records_of(log)} == {records_of(log)[0].log.writer}


async def test_an_answer_at_another_gateway_whose_log_does_not_answer_is_withheld(tmp_path: Path) -> None:
    class Silent(FailingRecords):
        async def claim(self, resume: bytes) -> CallDecision | None:
            raise StoreUnavailable("no answer")

    async with World(records_at(tmp_path / "log.db"), Silent()) as world:
        await world.call("a")
        world.here = 1
        async with world.client() as client:
            await world.resume(client)
            told: Any = await world.answered(client, response())
            assert (told["id"], told["error"]["code"]) == (7, -31006)
