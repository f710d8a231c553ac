"""What the page "Health" says of a gateway that only observes, by its log."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace
from tests.world.logs import Log
from tests.world.records import DENY, decided, gateway

from accredit.attest import LogKey
from accredit.console.gateways import Gateways
from accredit.console.health import HealthPart
from accredit.console.log_pages import LogPages
from accredit.console.people import People
from accredit.stores import SqliteFile

pytestmark = pytest.mark.holds("console/health")


@pytest.mark.holds("console/health", "growth")
def test_how_a_log_grows_is_not_said_by_what_somebody_put_in(tmp_path: Path) -> None:
    """A forged newest record would say that a gateway refuses nothing, or that it is alive."""

    async def looked(*keys: LogKey) -> dict[str, Any]:
        pages = LogPages(SqliteFile(tmp_path / "log.db"), dict, keys)
        nobody = cast("Any", None)
        part = HealthPart(cast("Gateways", nobody), cast("People", nobody), dict, pages)
        return await part._looked()  # pyright: ignore[reportPrivateUsage]

    async def write() -> None:
        async with Log(tmp_path / "log.db", durable=False) as log:
            await log.port.begin(decided(decision=DENY))

    asyncio.run(write())
    with closing(sqlite3.connect(tmp_path / "log.db")) as log, log:
        log.execute(
            "INSERT INTO log_entries SELECT 9, writer, number, key, CAST(replace(CAST(payload AS TEXT),"
            " '\"enforced\":true', '\"enforced\":false') AS BLOB), zeroblob(64), ml_dsa_65, digest, members, proof"
            " FROM log_entries WHERE entry = 1"
        )
    assert asyncio.run(looked())["log"]["observed"] is True, "without a key nothing is verified, and the page says so"
    found = asyncio.run(looked(gateway()[1]))["log"]
    assert (found["observed"], found["by"]) == (False, 1)


@pytest.mark.parametrize("enforced", [(True,), (False,), (False, True), (True, False)])
def test_a_gateway_that_refuses_nothing_is_seen_by_its_newest_call(enforced: tuple[bool, ...], tmp_path: Path) -> None:
    async def looked() -> dict[str, Any]:
        async with Log(tmp_path / "log.db", durable=False) as log:
            for each in enforced:
                await log.port.begin(decided(decision=replace(DENY, enforced=each)))
        pages = LogPages(SqliteFile(tmp_path / "log.db"), dict)
        nobody = cast("Any", None)
        part = HealthPart(cast("Gateways", nobody), cast("People", nobody), dict, pages)
        return await part._looked()  # pyright: ignore[reportPrivateUsage]

    assert asyncio.run(looked())["log"]["observed"] is not enforced[-1]
