"""Records on a disk that fills up while many call, and on one that takes no writes: the real command, a real disk."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.world.command import Serving, accredit
from tests.world.raw_client import RawClient
from tests.world.raw_server import PATIENCE, RawServer, until
from tests.world.recorded import outcomes
from tests.world.recorded_load import Load, Upstream, ask, configure, readiness, serving, verify
from tests.world.small_disk import SmallDisk
from tests.world.warm import COMMAND

pytestmark = pytest.mark.slow

CLIENTS = 16


def seeing(folder: Path, disk: SmallDisk) -> Serving:
    """A gateway that sees the disk."""
    return serving(folder, "--config", str(folder / "accredit.toml"), within=disk.within)


async def with_status(wanted: int, port: int) -> Any:
    """What `/readyz` says once it has this status: it looks once a second."""
    async with asyncio.timeout(PATIENCE):
        while True:
            status, said = await readiness(port)
            if status == wanted:
                return said


async def test_while_a_disk_is_full_nothing_is_forwarded__and_with_room_again_calls_go_on(tmp_path: Path) -> None:
    with SmallDisk(tmp_path, 2) as disk:
        upstream, load = Upstream(), Load()
        async with RawServer(upstream) as server:
            configure(tmp_path, f'url = "{server.url}"', db=disk.path / "accredit.db")
            with await asyncio.to_thread(seeing(tmp_path, disk).__enter__) as gateway:
                working = asyncio.create_task(load.work(gateway.port, "call", CLIENTS))
                await until(lambda: len(load.refused) > CLIENTS)  # the log alone has filled it
                assert load.answered
                told = await with_status(503, gateway.port)
                assert told["records"] is False
                assert "records_problem" not in told  # that is for who brings a token
                disk.grow(64)
                before = len(load.answered)
                await until(lambda: len(load.answered) > before + CLIENTS)
                await with_status(200, gateway.port)
                gateway.stop()
                await working
                await asyncio.to_thread(gateway.wait)
                assert '"records can\'t be written"' in gateway.stderr
            disk.fill()
            where = ("--store", f"sqlite:///{disk.path}/accredit.db", "--key", str(tmp_path / "gateway.key"))
            pruned = await asyncio.to_thread(
                accredit, "log", "prune", "--before", "1s", *where, folder=tmp_path, command=(*disk.within, *COMMAND)
            )
            assert pruned.returncode == 2, pruned
            assert "if its disk is full, make room there" in pruned.stderr
        load.check(disk.copy(tmp_path) / "accredit.db", upstream.called)
        assert verify(tmp_path)["valid"]


async def test_what_came_of_calls_on_a_full_disk_is_on_record_when_there_is_room__though_the_clients_did_not_get_it(
    tmp_path: Path,
) -> None:
    with SmallDisk(tmp_path, 2) as disk:
        upstream = Upstream()
        async with RawServer(upstream) as server:
            configure(tmp_path, f'url = "{server.url}"', db=disk.path / "accredit.db")
            with await asyncio.to_thread(seeing(tmp_path, disk).__enter__) as gateway:

                async def called(target: str) -> Any:
                    async with RawClient(gateway.port) as client:
                        return await ask(client, target)

                assert "result" in await called("before")
                upstream.held.clear()
                targets = [f"held-{number}" for number in range(CLIENTS)]
                calls = [asyncio.create_task(called(target)) for target in targets]
                await until(lambda: set(targets) <= set(upstream.called))
                disk.fill()
                upstream.held.set()
                told = [(await call)["error"] for call in calls]
                assert {(error["code"], error["data"]["forwarded"]) for error in told} == {(-31006, True)}
                assert (await with_status(503, gateway.port))["records"] is False
                disk.make_room()
                async with asyncio.timeout(PATIENCE):
                    while (await readiness(gateway.port))[0] != 200:  # nobody calls: it tries by itself
                        pass
                gateway.process.kill()
                await asyncio.to_thread(gateway.wait)
        found = outcomes(disk.copy(tmp_path) / "accredit.db")
        assert dict(found) == dict.fromkeys(["before", *targets], "ok")
        assert verify(tmp_path)["valid"]


async def test_a_disk_that_takes_no_writes_lets_no_call_through__until_it_does(tmp_path: Path) -> None:
    with SmallDisk(tmp_path, 8) as disk:
        upstream, load = Upstream(), Load()
        async with RawServer(upstream) as server:
            configure(tmp_path, f'url = "{server.url}"', db=disk.path / "accredit.db")
            with await asyncio.to_thread(seeing(tmp_path, disk).__enter__) as gateway:
                working = asyncio.create_task(load.work(gateway.port, "killed", CLIENTS))
                await until(lambda: len(load.answered) > CLIENTS)
                gateway.process.kill()
                await working
                await asyncio.to_thread(gateway.wait)
            before = list(upstream.called)
            disk.read_only(True)
            with await asyncio.to_thread(seeing(tmp_path, disk).__enter__) as gateway:
                async with RawClient(gateway.port) as client:
                    refused = await ask(client, "read-only")
                    assert (refused["error"]["code"], refused["error"]["data"]["forwarded"]) == (-31006, False)
                    status, told = await readiness(gateway.port)
                    assert (status, told["records"]) == (503, False)
                    assert upstream.called == before
                    disk.read_only(False)
                    assert "result" in await ask(client, "writable")
                    await with_status(200, gateway.port)
                gateway.stop()
                await asyncio.to_thread(gateway.wait)
        load.answered.append("writable")
        load.check(disk.copy(tmp_path) / "accredit.db", upstream.called)
        assert verify(tmp_path)["valid"]


@pytest.mark.parametrize("mode", ["durable", "record"])
async def test_a_gateway_that_starts_on_a_full_disk_serves__and_refuses_until_there_is_room(
    mode: str, tmp_path: Path
) -> None:
    with SmallDisk(tmp_path, 2) as disk:
        upstream = Upstream()
        async with RawServer(upstream) as server:
            configure(tmp_path, f'url = "{server.url}"', mode=mode, db=disk.path / "accredit.db")
            disk.fill()
            with await asyncio.to_thread(seeing(tmp_path, disk).__enter__) as gateway:
                async with RawClient(gateway.port) as client:
                    refused = await ask(client, "full")
                    assert (refused["error"]["code"], refused["error"]["data"]["forwarded"]) == (-31006, False)
                    assert (await readiness(gateway.port))[0] == 503
                    disk.make_room()
                    assert "result" in await ask(client, "room")
                gateway.stop()
                await asyncio.to_thread(gateway.wait)
        assert upstream.called == ["room"]
        disk.copy(tmp_path)
        assert verify(tmp_path)["valid"]
