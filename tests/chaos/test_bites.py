"""The checker finds each fault that is put back into the store, and none in the store as it is."""

import asyncio
import shutil
from collections.abc import Generator

import pytest
from tests.chaos.bites import BITES, bitten, faults
from tests.chaos.checker import FIRST, unsound
from tests.chaos.redis import failover
from tests.world.patience import change_limits
from tests.world.replicated import Replicated
from tests.world.running import run

from accredit import limits

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def servers() -> Generator[Replicated]:
    with Replicated() as started:
        yield started


@pytest.fixture(autouse=True)
def refusals_as_in_production() -> Generator[None]:
    """A wait for a standby ends as soon as in a gateway."""
    before = limits.STORE_WAIT_SECONDS
    change_limits({"accredit.limits.STORE_WAIT_SECONDS": 2.0})
    yield
    change_limits({"accredit.limits.STORE_WAIT_SECONDS": before})


@pytest.mark.holds("stores/postgres/driver", "notices")
@pytest.mark.holds("stores/postgres/challenges", "repetition")
@pytest.mark.holds("stores/postgres/forgetting", "expiry")
@pytest.mark.parametrize("name", BITES)
def test_the_checker_finds_the_fault__and_nothing_in_our_store(name: str, servers: Replicated) -> None:
    assert run(faults(servers, BITES[name])) != []
    ours = run(bitten(servers, BITES[name], faulty=False))
    assert unsound(ours) == []
    assert any(each.answer == FIRST for each in ours)


def test_the_checker_finds_what_redis_forgets_with_its_primary() -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    assert unsound(asyncio.run(failover())) != []
