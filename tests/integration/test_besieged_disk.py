"""Proofs and records on one small disk: at whatever moment of a call it fills up, and a database that is taken away."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from tests.world.authorization import Trust
from tests.world.besieged import Besieged, Reading, asked
from tests.world.raw_client import RawClient
from tests.world.raw_server import PATIENCE, RawServer
from tests.world.small_disk import SmallDisk

pytestmark = pytest.mark.slow

PAGES = 24


async def test_at_whatever_page_of_a_call_the_disk_is_full__it_is_refused_or_withheld__and_with_room_calls_go_on(
    trust: Trust, tmp_path: Path
) -> None:
    with SmallDisk(tmp_path, 2) as disk:
        reading = Reading()
        async with RawServer(reading) as server:
            besieged = Besieged(tmp_path, trust, f'url = "{server.url}"', db=disk.path / "accredit.db")
            with await asyncio.to_thread(besieged.serving(within=disk.within).__enter__) as gateway:
                async with RawClient(gateway.port) as client:
                    assert "result" in await besieged.ask(client, "mail://first")
                    for pages in range(PAGES):
                        disk.fill(but=pages)
                        said = await besieged.ask(client, f"mail://{pages}")
                        if "error" in said:
                            assert said["error"]["code"] in (-31003, -31006), said
                            forwarded = said["error"]["data"].get("forwarded", False)
                            assert forwarded == (f"mail://{pages}" in reading.called)
                        disk.make_room()
                    disk.grow(16)
                    async with asyncio.timeout(PATIENCE):
                        while "result" not in await besieged.ask(client, f"mail://after-{len(reading.called)}"):
                            pass
                gateway.stop()
                assert await asyncio.to_thread(gateway.wait) == 0
            assert "Traceback" not in gateway.stderr
        found = besieged.check(reading.called, disk.copy(tmp_path) / "accredit.db")
        assert {found[uri]["status"] for uri in reading.called} == {"ok"}


@pytest.mark.parametrize("put", [None, b""], ids=["nothing", "an empty file"])
async def test_a_database_that_is_taken_away_makes_no_proof_good_again__and_put_back_it_serves(
    put: bytes | None, trust: Trust, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    away.mkdir()

    reading = Reading()
    async with RawServer(reading) as server:
        besieged = Besieged(tmp_path, trust, f'url = "{server.url}"')
        with await asyncio.to_thread(besieged.serving().__enter__) as gateway:
            async with RawClient(gateway.port) as client:
                used = besieged.call("mail://once")
                assert "result" in besieged.note("mail://once", await asked(client, used))
                taken = [file for file in tmp_path.glob("accredit.db*") if file.is_file()]
                for file in taken:
                    file.rename(away / file.name)
                if put is not None:
                    besieged.db.write_bytes(put)
                async with asyncio.timeout(PATIENCE):
                    while "result" in await besieged.ask(client, f"mail://{len(reading.called)}"):
                        pass  # it looks once a second
                assert json.loads((await asked(client, used)).body)["error"]["code"] in (-31003, -31005)
                async with asyncio.timeout(PATIENCE):
                    while '"decision_failed"' not in gateway.stderr:
                        assert "error" in await besieged.ask(client, "mail://away")
                told = next(line for line in gateway.stderr.splitlines() if '"decision_failed"' in line)
                assert json.loads(told)["detail"].endswith("taken away while it was in use: put it back, or restart")
                for file in taken:
                    os.replace(away / file.name, file)
                async with asyncio.timeout(PATIENCE):
                    while "result" not in await besieged.ask(client, f"mail://back-{len(reading.called)}"):
                        pass
                assert json.loads((await asked(client, used)).body)["error"]["code"] == -31005
            gateway.stop()
            assert await asyncio.to_thread(gateway.wait) == 0
    besieged.check(reading.called)
