"""How many calls came in each minute."""

import asyncio
from pathlib import Path

import pytest
from tests.world.logs import Log
from tests.world.records import DENY, OK, decided

from accredit.base.clock import unix_ms
from accredit.console.log_pages import LogPages
from accredit.stores import SqliteFile

pytestmark = pytest.mark.holds("console/log_pages")


@pytest.fixture
def pages(tmp_path: Path) -> LogPages:
    async def write() -> None:
        async with Log(tmp_path / "log.db", durable=False) as log:
            now = unix_ms()
            for received in (now - 7_200_000, now - 1_800_000, now - 1_800_000, now - 1, now + 3_600_000):
                call = decided(received_ms=received)
                await log.port.begin(call)
                await log.port.finish(call, OK)
            await log.port.begin(decided("pay", decision=DENY, received_ms=now - 1))

    asyncio.run(write())
    return LogPages(SqliteFile(tmp_path / "log.db"), dict)


@pytest.mark.parametrize(
    ("text", "total", "last"), [("", 4, 2), ("outcome:ok", 3, 1), ("tool:pay", 1, 1), ("tool:none", 0, 0)]
)
def test_calls_of_the_last_hour_are_counted_by_the_minute(pages: LogPages, text: str, total: int, last: int) -> None:
    found = asyncio.run(pages.rate({"q": text}))
    assert found["whole"]
    assert (len(found["minutes"]), sum(found["minutes"]), found["minutes"][-1]) == (60, total, last)
