"""Whether what was allowed was used: what the log tells, and no more."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.world.asked import an_ask, once
from tests.world.delegations import NOW, World
from tests.world.logs import Log
from tests.world.records import DENY, OK, decided, gateway

from accredit.attest import CallDecision
from accredit.attest.canonical import recorded_chain
from accredit.console.log_pages import LogPages
from accredit.console.uses import use_of
from accredit.ratify import DelegationCert
from accredit.stores import SqliteFile

pytestmark = pytest.mark.holds("console/uses")
CERT = World().grant("comms:email:send", constraints=once(an_ask()), ends=NOW + 599)
OTHER = World().grant("comms:email:send", constraints=once(an_ask()), ends=NOW + 599)


def passed(cert: DelegationCert, **more: Any) -> CallDecision:
    chain = recorded_chain([cert.encode()])
    call = decided(certificates=chain.text, **more)
    assert call.authority is not None
    return replace(call, authority=replace(call.authority, chain_sha256=chain.sha256))


def use(folder: Path, *calls: CallDecision) -> dict[str, Any]:
    async def write() -> None:
        async with Log(folder / "log.db") as log:
            for each in calls:
                await log.port.begin(each)
                if each.decision.verdict == "allow":
                    await log.port.finish(each, OK)

    asyncio.run(write())
    return asyncio.run(use_of((CERT,), LogPages(SqliteFile(folder / "log.db"), dict)))


@pytest.mark.holds("console/uses", "missing-chain", "search")
def test_a_call_that_was_refused_or_came_by_another_certificate_has_used_nothing(tmp_path: Path) -> None:
    found = use(tmp_path, passed(OTHER), passed(CERT, decision=DENY))
    assert (found["used"], found["ends"], "call" in found) == (False, NOW + 599, False)


@pytest.mark.holds("console/uses", "search")
def test_what_was_before_it_began_to_hold_is_not_looked_at(tmp_path: Path) -> None:
    long_ago = passed(CERT, received_ms=(CERT.issued_at - 1_000) * 1_000)  # which no gateway would have let pass
    assert use(tmp_path, long_ago, passed(CERT, decision=DENY))["used"] is False
    slow = passed(OTHER, received_ms=CERT.issued_at * 1_000)
    assert use(tmp_path, passed(CERT), slow)["used"] is True


@pytest.mark.holds("console/uses", "search")
def test_the_last_call_that_passed_by_it_is_told(tmp_path: Path) -> None:
    first, last = passed(CERT), passed(CERT)
    found = use(tmp_path, first, last, passed(CERT, decision=DENY), passed(OTHER))
    assert (found["used"], found["call"]) == (True, last.call.id)


def test_a_record_that_somebody_wrote_into_the_store_used_nothing(tmp_path: Path) -> None:
    """It would have the person take back what nobody used, or trust what was."""
    call = passed(CERT)
    assert use(tmp_path, call)["checked"] is False
    with closing(sqlite3.connect(tmp_path / "log.db")) as log, log:
        log.execute("UPDATE log_entries SET ed25519 = zeroblob(64)")
    found = asyncio.run(use_of((CERT,), LogPages(SqliteFile(tmp_path / "log.db"), dict, [gateway()[1]])))
    assert (found["used"], found["checked"]) == (False, True)
    told = asyncio.run(use_of((CERT,), LogPages(SqliteFile(tmp_path / "log.db"), dict)))
    assert (told["used"], told["checked"]) == (True, False), "the page says that nothing is verified"


def test_without_a_log_or_with_one_that_can_t_be_read_it_is_not_known(tmp_path: Path) -> None:
    found = asyncio.run(use_of((CERT,), None))
    assert (found["used"], found["problem"]) == (None, "desk.toml names no store of the gateway")
    found = asyncio.run(use_of((CERT,), LogPages(SqliteFile(tmp_path / "no.db"), dict)))
    assert found["used"] is None
    assert "can't be read" in found["problem"]
