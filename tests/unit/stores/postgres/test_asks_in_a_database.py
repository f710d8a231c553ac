"""A server that fails in the middle: what a person has answered is kept, and nothing is counted twice."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from tests.world.postgres import Cluster
from tests.world.stores import NOW

from accredit.errors import StoreUnavailable
from accredit.ports import HeldAsk
from accredit.stores.asks import Asks
from accredit.stores.lasting import PostgresDatabase
from accredit.stores.runners import DatabaseRunner

IN_SYNC_WAIT = "wait_event = 'SyncRep'"
KEY = b"k" * 32


@pytest.fixture
def asks(database: PostgresDatabase) -> Asks:
    return Asks(DatabaseRunner(database, "asks"))


async def _lose(server: Cluster, write: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    """Begins a write, and breaks its connection once it is committed, before the answer comes."""
    await asyncio.to_thread(server.set, "synchronous_standby_names", "'nobody'")
    writing = asyncio.create_task(write)
    pid = await asyncio.to_thread(server.wait_for, IN_SYNC_WAIT)
    await asyncio.to_thread(server.run, f"SELECT pg_terminate_backend({pid})")
    await asyncio.to_thread(server.set, "synchronous_standby_names", "''")
    return writing


@pytest.mark.holds("stores/runners", "writes-alike")
async def test_a_person_s_answer_whose_write_was_not_confirmed_is_written_again__and_not_refused(
    asks: Asks, server: Cluster, no_standby: None
) -> None:
    await asyncio.to_thread(server.set, "synchronous_standby_names", "''")
    await asks.hold(HeldAsk(KEY, b"a" * 32, "a1" * 16, "CODE", b"sealed", NOW + 600), now=NOW)
    answering = await _lose(server, asks.answer(KEY, b"no", keep_until=NOW + 600, now=NOW))
    assert await answering
    found = await asks.find(KEY, now=NOW)
    assert found is not None
    assert found.answer == b"no"
    await asks.aclose()


@pytest.mark.holds("stores/runners", "writes")
async def test_a_try_whose_count_was_not_confirmed_is_refused__and_counted_once(
    asks: Asks, server: Cluster, no_standby: None
) -> None:
    await asyncio.to_thread(server.set, "synchronous_standby_names", "''")
    await asks.hold(HeldAsk(KEY, b"a" * 32, "a1" * 16, "CODE", b"sealed", NOW + 600), now=NOW)
    with pytest.raises(StoreUnavailable):
        await (await _lose(server, asks.attempt(KEY, now=NOW)))
    assert await asks.attempt(KEY, now=NOW) == 2
    await asks.aclose()
