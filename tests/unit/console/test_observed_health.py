"""What the page "Health" says of a gateway that only observes, by its log."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace
from tests.world.logs import Log
from tests.world.records import DENY, decided

from accredit.console.gateways import Gateways
from accredit.console.health import HealthPart
from accredit.console.log_pages import LogPages
from accredit.console.people import People
from accredit.stores import SqliteFile

pytestmark = pytest.mark.holds("console/health")


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
