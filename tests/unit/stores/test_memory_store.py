"""What only the store in memory has: threads that share it."""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from tests.world.stores import NOW, challenge, request

from accredit.ports import Spending
from accredit.stores import MemoryStore

pytestmark = pytest.mark.holds("stores/memory")


def test_of_threads_that_spend_the_same_challenges_one_is_the_first_for_each() -> None:
    store, many, together = MemoryStore(), 2000, Barrier(4)

    async def spend_all() -> int:
        together.wait()
        verdicts = [
            await store.spend(challenge(number), request(0), issued=False, keep_until=NOW, now=NOW)
            for number in range(many)
        ]
        return verdicts.count(Spending.FIRST)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads interrupt each other wherever they can
    try:
        with ThreadPoolExecutor(4) as pool:
            firsts = [pool.submit(lambda: asyncio.run(spend_all())) for _ in range(4)]
            assert sum(each.result() for each in firsts) == many
    finally:
        sys.setswitchinterval(interval)
